"""`appliance group ...`"""

from __future__ import annotations

from typing import Any

import click

from appliance.cli.remote.api import Answer, Api, asks_a_broker, part, shows_an_answer, sure
from appliance.cli.remote.offset_range import time_ms
from appliance.cli.remote.output import put_json, table
from appliance.cli.remote.topic import YES
from appliance.config.given_twice import given_twice
from appliance.process.exit_codes import NOT_FOUND, Command, Failed
from appliance.process.spoken import duration, some

NAME = click.argument("name", metavar="GROUP")


@click.group()
def group() -> None:
    """Consumer groups of a running broker."""


@group.command("list", cls=Command)
@click.argument("text", default="")
@click.option("--by-lag", is_flag=True, help="Sort by lag, largest first.")
@shows_an_answer
def list_groups(api: Api, text: str, by_lag: bool) -> Answer:
    """List groups, or those whose id contains TEXT."""
    order = "lag" if by_lag else "group"
    answer = api.get("/groups", q=text, order=order, limit=10_000)
    yield answer
    yield table(
        ("group", "protocol", "state", "members", "lag", "behind"),
        [
            (row["group"], row["protocol"], row["state"], row["members"], records(row),
             duration(row["lag_seconds"]))
            for row in answer["groups"]
        ],
    )  # fmt: skip


def records(row: Any) -> str:
    return f"{row['lag_records']}{' or more' if row['unknown_partitions'] else ''}"


@group.command("describe", cls=Command)
@NAME
@shows_an_answer
def describe_group(api: Api, name: str) -> Answer:
    """Show a group: its committed offsets, its lag and its members."""
    answer = api.get(f"/groups/{part(name)}")
    yield answer
    clients = {each["member_id"]: each["client_id"] for each in answer["member_rows"]}
    yield table(
        ("topic", "partition", "committed", "end", "lag", "behind", "client"),
        [
            (row["topic"], row["partition"], row["committed"], *end_and_lag(row),
             duration(row["lag_seconds"]), clients.get(row["member_id"]))
            for row in answer["offsets"]
        ],
    )  # fmt: skip
    if answer["protocol"] == "streams" and answer["member_rows"]:
        yield tasks_of(answer["member_rows"])
    behind = f"{some(answer['lag_records'], 'record')} behind"
    yield f"{answer['state']}, {some(answer['members'], 'member')}, {behind}"
    if answer["no_commit_partitions"]:
        yield (
            f"no commit yet in {some(answer['no_commit_partitions'], 'partition')}: their "
            f"{some(answer['no_commit_records'], 'record')} count from the first one there is, or "
            "from where a share group is set to begin"
        )
    if answer["unknown_partitions"]:
        yield (
            f"{some(answer['unknown_partitions'], 'partition')} in no sum: other brokers do not "
            "tell where they end, or where the group is"
        )
    yield from (f"nobody reads {each['topic']}-{each['partition']}" for each in answer["unread"])


def tasks_of(members: Any) -> str:
    """Of Kafka Streams: subtopology and number."""
    roles = ("active", "standby", "warmup")
    return table(
        ("client", *roles),
        [
            (each["client_id"], *(" ".join(each["tasks"][role]) or None for role in roles))
            for each in members
        ],
    )


def end_and_lag(row: Any) -> tuple[Any, Any]:
    return ("unknown",) * 2 if row["end_unknown"] else (row["end"], row["lag_records"])


@group.command("reset", cls=Command)
@NAME
@click.argument("to", metavar="TO")
@click.option("--topic", "topics", multiple=True, help="Only this topic; may be repeated.")
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@YES
@asks_a_broker
def reset_group(
    api: Api, as_json: bool, name: str, to: str, topics: tuple[str, ...], dry_run: bool,
    is_sure: bool,
) -> None:  # fmt: skip
    """Reset committed offsets.

    TO is earliest, latest, an OFFSET, a shift (+100, -100), a time (@2026-11-21T08:00, @-1h), or
    group:NAME for the committed offsets of that group."""
    body: dict[str, Any] = target(to)
    if twice := given_twice(topics):
        raise click.UsageError(f"--topic {twice}: given twice, wanted once")
    if topics:
        body["topics"] = [{"topic": each} for each in topics]
    path = f"/groups/{part(name)}/reset"
    plan = api.post(path, {**body, "dry_run": True})
    if not plan["partitions"]:
        raise Failed(
            f"group {name} has no committed offsets, so there is nothing to reset; --topic names a "
            "topic to set offsets for", NOT_FOUND)  # fmt: skip
    if not as_json:
        click.echo(table(
            ("topic", "partition", "before", "after", "note"),
            [(row["topic"], row["partition"], row["before"], row["after"], row["note"] or None)
             for row in plan["partitions"]],
        ))  # fmt: skip
    if not dry_run:
        sure(f"Reset {some(len(plan['partitions']), 'offset')} of {name}?", is_sure)
        plan = api.post(path, {**body, "dry_run": False})
    if as_json:
        put_json(plan)


def target(text: str) -> dict[str, Any]:
    if text in ("earliest", "latest"):
        return {"to": text}
    if text.startswith("group:"):
        return {"to": "group", "group": text.removeprefix("group:")}
    if text.startswith("@"):
        return {"to": "time", "time_ms": time_ms(text)}
    if text[:1] in ("+", "-") and text[1:].isdecimal():
        return {"to": "shift", "shift": int(text)}
    if text.isdecimal():
        return {"to": "offset", "offset": int(text)}
    raise click.BadParameter(
        f"TO: got {text!r}, wanted earliest, latest, N, +N, -N, @TIME or group:NAME"
    )


@group.command("delete", cls=Command)
@NAME
@YES
@shows_an_answer
def delete_group(api: Api, name: str, is_sure: bool) -> Answer:
    """Delete a group with its committed offsets."""
    sure(f"Delete group {name} with its offsets?", is_sure)
    api.ask("DELETE", f"/groups/{part(name)}")
    yield {"deleted": name}
    yield f"{name} deleted"
