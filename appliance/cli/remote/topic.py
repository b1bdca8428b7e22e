"""`appliance topic ...`"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from appliance.cli.remote.api import Answer, Api, part, shows_an_answer, sure
from appliance.cli.remote.output import table
from appliance.process.exit_codes import Command
from appliance.process.spoken import kept, moment, size, some

YES = click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")
NAME = click.argument("name", metavar="TOPIC")


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
             moment(row["last_write_ms"]), kept(row["retention_ms"]))
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
    return f"{row['name']} = {row['value']}   ({row['source']})"


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
    body: dict[str, Any] = {"name": name, "configs": dict(map(split, pairs))}
    if partitions is not None:
        body["partitions"] = partitions
    if factor is not None:
        body["replication_factor"] = factor
    made = api.post("/topics", body)
    yield made
    yield f"{made['name']} created with {some(made['partitions'], 'partition')}"


@topic.command("alter", cls=Command)
@NAME
@click.option("--partitions", "-p", type=int, help="New number of partitions.")
@configs_option("A config; NAME= restores the broker's default. May be repeated.")
@shows_an_answer
def alter_topic(api: Api, name: str, partitions: int | None, pairs: tuple[str, ...]) -> Answer:
    """Change configs or add partitions."""
    body: dict[str, Any] = {
        "configs": {key: value or None for key, value in map(split, pairs)}
    }
    if partitions is not None:
        body["partitions"] = partitions
    changed = api.ask("PATCH", f"/topics/{part(name)}", body)
    yield changed
    yield f"{changed['name']} changed"


@topic.command("delete", cls=Command)
@NAME
@YES
@shows_an_answer
def delete_topic(api: Api, name: str, is_sure: bool) -> Answer:
    """Delete a topic with all its records."""
    answer = api.get(f"/topics/{part(name)}")
    held = f"{some(answer['records'], 'record')}, {size(answer['size_bytes'])}"
    sure(f"Delete {name} with {held}?", is_sure)
    api.ask("DELETE", f"/topics/{part(name)}")
    yield {"deleted": name}
    yield f"{name} deleted"


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


def split(pair: str) -> tuple[str, str]:
    name, equals, value = pair.partition("=")
    if not equals:
        raise click.BadParameter(f"got {pair!r}, wanted NAME=VALUE")
    return name, value
