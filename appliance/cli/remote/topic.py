"""`appliance topic ...`"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from appliance.cli.remote.api import Answer, Api, part, shows_an_answer, sure
from appliance.cli.remote.output import cell, table
from appliance.config.given_twice import given_twice
from appliance.process.exit_codes import FAILED, NOT_FOUND, Command, Failed
from appliance.process.spoken import duration, moment, size, some

YES = click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Only show what would be done.")
NAME = click.argument("name", metavar="TOPIC")
NAMES = click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
SEVERAL_MAX = 100  # topics in one request


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def configs_option(text: str) -> Decorator:
    return click.option("--config", "-c", "pairs", multiple=True, metavar="NAME=VALUE", help=text)


@click.group()
def topic() -> None:
    """Topics of a running broker."""


@topic.command("list", cls=Command)
@click.argument("text", default="")
@click.option("--internal", is_flag=True, help="Include the broker's own topics.")
@click.option("--order", default="name", show_default=True, help="Sort by; -NAME is descending.")
@shows_an_answer
def list_topics(api: Api, text: str, internal: bool, order: str) -> Answer:
    """List topics, or those whose name contains TEXT."""
    answer = api.get("/topics", q=text, internal=internal, order=order, limit=10_000)
    yield answer
    yield table(
        ("topic", "partitions", "records", "size", "last write", "kept"),
        [
            (row["name"], row["partitions"], row["records"], size(row["size_bytes"]),
             moment(row["last_write_ms"]), row["kept"])
            for row in answer["topics"]
        ],
    )  # fmt: skip


@topic.command("describe", cls=Command)
@NAME
@shows_an_answer
def describe_topic(api: Api, name: str) -> Answer:
    """Show a topic: its partitions, their replicas in a cluster, and the configs that differ from
    the defaults."""
    answer = api.get(f"/topics/{part(name)}")
    yield answer
    yield table(
        ("partition", "start", "end", "durable", "visible", "segments", "size", "unflushed"),
        [
            (row["partition"], row["log_start_offset"], row["log_end_offset"],
             row["durable_offset"], row["high_watermark"], row["segments"],
             size(row["size_bytes"]), row["unflushed_records"])
            for row in answer["partition_rows"]
        ],
    )  # fmt: skip
    for number, why in answer["unserved"].items():
        yield f"partition {number} is not open: {why}"
    if answer.get("is_replicated"):
        yield replicas(api.get(f"/topics/{part(name)}/replicas")["partitions"])
    yield from (setting(each) for each in answer["configs"] if each["source"] != "default")


def replicas(rows: list[dict[str, Any]]) -> str:
    return table(
        ("partition", "leader", "replicas", "in sync", "wanted", "state"),
        [
            (row["partition"], row["leader"], " ".join(map(str, row["replicas"])),
             " ".join(map(str, row["in_sync"])), row["least"], row["verdict"])
            for row in rows
        ],
    )  # fmt: skip


def setting(row: dict[str, Any]) -> str:
    return f"{row['name']} = {value_of(row)}   ({row['source']})"


def value_of(row: dict[str, Any], value: str = "value", words: str = "words") -> str:
    """259200000, 3 d"""
    return f"{row[value] or '-'}, {row[words]}" if row[words] else row[value] or "-"


@topic.command("configs", cls=Command)
@click.argument("name", metavar="[TOPIC]", required=False)
@click.argument("wanted", metavar="[CONFIG]...", nargs=-1)
@click.option("--explain", is_flag=True, help="What each means, and what it accepts.")
@shows_an_answer
def configs(api: Api, name: str | None, wanted: tuple[str, ...], explain: bool) -> Answer:
    """Show all configs of a topic, or some, in words; without TOPIC what a topic has that says
    nothing."""
    answer = api.get(f"/topics/{part(name)}" if name else "/topic-configs")
    rows = [each for each in answer["configs"] if not wanted or each["name"] in wanted]
    if unknown := set(wanted) - {each["name"] for each in rows}:
        raise Failed(f"{min(unknown)}: there is no such topic config", NOT_FOUND)
    yield {"configs": rows}
    for group in dict.fromkeys(each["group"] for each in rows):
        yield click.style(group, bold=True)
        own = [each for each in rows if each["group"] == group]
        if explain or wanted:
            yield "\n".join(map(explained, own))
        else:
            heads = ("config", "value", "from", "the broker's")
            yield indented(table(heads, [
                (each["name"], value_of(each), each["origin"],
                 value_of(each, "broker_value", "broker_words")) for each in own
            ]))  # fmt: skip


def explained(row: dict[str, Any]) -> str:
    lines = [
        f"{row['name']} = {value_of(row)}   ({row['origin']})",
        *filter(None, (row["doc"], row["no_effect"])),
        f"Accepts {row['accepts']}.",
        f"A topic that says nothing has {value_of(row, 'broker_value', 'broker_words')}.",
    ]
    return indented("\n    ".join(lines))


def indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


@topic.command("consumers", cls=Command)
@NAME
@shows_an_answer
def consumers(api: Api, name: str) -> Answer:
    """Show who reads a topic: its consumer groups, with the lag of this topic."""
    answer = api.get(f"/topics/{part(name)}/consumers")
    yield answer
    yield table(
        ("group", "protocol", "state", "members", "partitions", "unread", "lag", "behind"),
        [
            (row["group"], row["protocol"], row["state"], row["members"], row["partitions"],
             row["unread_partitions"], row["lag_records"], duration(row["lag_seconds"]))
            for row in answer["groups"]
        ],
    )  # fmt: skip


@topic.command("producers", cls=Command)
@NAME
@shows_an_answer
def producers(api: Api, name: str) -> Answer:
    """Show who writes to a topic: the producers that it remembers, and its open transactions."""
    answer = api.get(f"/topics/{part(name)}/producers")
    yield answer
    yield table(
        ("producer", "epoch", "transactional id", "partitions", "last write"),
        [
            (row["producer_id"], row["epoch"], row["transactional_id"],
             len(row["partitions"]), moment(row["last_write_ms"]))
            for row in answer["producers"]
        ],
    )  # fmt: skip
    if answer["total"] > len(answer["producers"]):
        yield f"{answer['total']} producers, the latest {len(answer['producers'])} are shown"
    for each in answer["transactions"]:
        held = sum(one["held_records"] for one in each["partitions"])
        who = each["transactional_id"] or f"of producer {each['producer_id']}"
        since = moment(each["started_ms"])
        places = some(len(each["partitions"]), "partition")
        yield (f"open transaction {cell(who)}: {each['state'] or 'of another broker'} since "
               f"{since}, {places}, {some(held, 'record')} held back")
    if not answer["is_complete"]:
        yield "partitions that are not here, or not open, are not looked at"


@topic.command("create", cls=Command)
@NAME
@click.option("--partitions", "-p", type=int, help="As the broker's setting if not given.")
@click.option(
    "--replication-factor", "factor", type=int,
    help="Replicas of each partition, in a cluster. As the broker's setting if not given.",
)
@configs_option("A config; may be repeated.")
@shows_an_answer
def create_topic(
    api: Api, name: str, partitions: int | None, factor: int | None, pairs: tuple[str, ...]
) -> Answer:
    """Create a topic."""
    body: dict[str, Any] = {"name": name, "configs": values_of(pairs)}
    if partitions is not None:
        body["partitions"] = partitions
    if factor is not None:
        body["replication_factor"] = factor
    made = api.post("/topics", body)
    yield made
    yield f"{made['name']} created with {some(made['partitions'], 'partition')}"


@topic.command("alter", cls=Command)
@NAMES
@click.option("--partitions", "-p", type=int, help="New number of partitions, of one topic.")
@configs_option(
    "A config, in numbers or words: retention.ms=3d. NAME= restores the broker's default. May be "
    "repeated."
)
@DRY_RUN
@shows_an_answer
def alter_topics(
    api: Api, names: tuple[str, ...], partitions: int | None, pairs: tuple[str, ...], dry_run: bool
) -> Answer:
    """Change configs of topics, or add partitions to one."""
    configs = {key: value or None for key, value in values_of(pairs).items()}
    if len(names) > 1 or dry_run:
        if partitions is not None:
            raise click.UsageError("--partitions is for one topic, and without --dry-run")
        body: dict[str, Any] = {"configs": configs, "dry_run": dry_run}
        yield from told(several(api, "configs", names, body))
        return
    body = {"configs": configs} if partitions is None else {
        "configs": configs, "partitions": partitions}  # fmt: skip
    changed = api.ask("PATCH", f"/topics/{part(names[0])}", body)
    yield changed
    yield f"{changed['name']} changed"


@topic.command("delete", cls=Command)
@NAMES
@DRY_RUN
@YES
@shows_an_answer
def delete_topics(api: Api, names: tuple[str, ...], dry_run: bool, is_sure: bool) -> Answer:
    """Delete topics with all their records."""
    if len(names) == 1 and not dry_run:
        yield from delete_topic(api, names[0], is_sure)
        return
    first = several(api, "delete", names, {"dry_run": True})
    if dry_run or any(each["outcome"] == "refused" for each in first):
        yield from told(first)
        return
    listed = "\n".join(f"  {each['topic']}: {each['text']}" for each in first)
    sure(f"{listed}\nDelete these {some(len(first), 'topic')}?", is_sure)
    yield from told(several(api, "delete", names, {"dry_run": False}))


def delete_topic(api: Api, name: str, is_sure: bool) -> Answer:
    answer = api.get(f"/topics/{part(name)}")
    held = f"{some(answer['records'], 'record')}, {size(answer['size_bytes'])}"
    sure(f"Delete {name} with {held}?", is_sure)
    api.ask("DELETE", f"/topics/{part(name)}")
    yield {"deleted": name}
    yield f"{name} deleted"


def several(
    api: Api, what: str, names: tuple[str, ...], body: dict[str, Any]
) -> list[dict[str, Any]]:
    """The result of each, in as many requests as it takes."""
    found: list[dict[str, Any]] = []
    for first in range(0, len(names), SEVERAL_MAX):
        part_of = {"topics": names[first : first + SEVERAL_MAX], **body}
        found += api.post(f"/several-topics/{what}", part_of)["results"]
    return found


def told(results: list[dict[str, Any]]) -> Answer:
    """A line for each; an error if any is refused."""
    refused = [each for each in results if each["outcome"] == "refused"]
    yield results
    yield from (line(each) for each in results if each["outcome"] != "refused")
    if refused:
        raise Failed("\n".join(line(each) for each in refused), FAILED)


def line(result: dict[str, Any]) -> str:
    shifts = [
        f"{each['name']}: {value_of(each, 'before', 'before_words')} -> "
        f"{value_of(each, 'after', 'after_words')}"
        for each in result["changes"]
    ]
    facts = "; ".join(filter(None, [result["text"], *shifts]))
    return f"{result['topic']} {result['outcome']}{': ' if facts else ''}{facts}"


@topic.command("empty", cls=Command)
@NAME
@YES
@shows_an_answer
def empty_topic(api: Api, name: str, is_sure: bool) -> Answer:
    """Delete all records of a topic, and keep the topic."""
    answer = api.get(f"/topics/{part(name)}")
    sure(f"Delete the {some(answer['records'], 'record')} of {name}?", is_sure)
    done = api.post(f"/topics/{part(name)}/empty")
    yield done
    count = sum(each["to_offset"] - each["from_offset"] for each in done["partitions"])
    yield f"{name} emptied of {some(count, 'record')}"


def values_of(pairs: Sequence[str]) -> dict[str, str]:
    if name := given_twice(split(each)[0] for each in pairs):
        raise click.BadParameter(f"{name} is given twice, wanted once")
    return dict(map(split, pairs))


def split(pair: str) -> tuple[str, str]:
    name, equals, value = pair.partition("=")
    if not equals:
        raise click.BadParameter(f"got {pair!r}, wanted NAME=VALUE")
    return name, value
