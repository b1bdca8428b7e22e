"""`appliance produce` and `appliance consume`."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, BinaryIO

import click

from appliance.cli.remote import offset_range
from appliance.cli.remote.api import PREFIX, Api, asks_a_broker, part
from appliance.cli.remote.ledger import entries, offsets
from appliance.cli.remote.message_lines import message_of, text_of, to_object
from appliance.cli.remote.output import cell
from appliance.process.exit_codes import FAILED, NOT_FOUND, UNHEALTHY, Command, Failed
from appliance.process.progress_bar import ProgressBar
from appliance.process.spoken import size as in_bytes
from appliance.process.spoken import some

BATCH = 500  # messages in one request
SCHEMA_WAIT_MS = 10_000  # what is printed cannot be decoded later
BATCH_BYTES = 2 << 20  # as JSON; the broker accepts a body of 4 MiB
COPY_BYTES = 64 << 10  # of a file at once
TOPIC = click.argument("topic", metavar="TOPIC")
FILES = ("csv", "arrow", "parquet")  # formats that the broker makes
PLAIN = {"key_as": "plain", "value_as": "plain"}
UNDECODED = "appliance.consume.undecoded"  # why keys or values were not decoded, as told
UNDECODED_MAX = 20  # reasons that are told
UNREADABLE = "appliance.consume.unreadable"  # counts unreadable ranges that the command met

Query = dict[str, str | None]  # which messages, and how they are shown


@click.command(cls=Command)
@TOPIC
@click.argument("files", nargs=-1, type=click.File("rb"))
@click.option("--key-separator", "-K", "separator", help="Separator between key and value.")
@click.option("--json-lines", is_flag=True, help="Each line is an object with key, value, headers.")
@click.option("--whole", is_flag=True, help="Each file is one message.")
@click.option("--partition", "-p", type=int, help="Partition; by key if not given.")
@asks_a_broker
def produce(
    api: Api, as_json: bool, topic: str, files: tuple[BinaryIO, ...], separator: str | None,
    json_lines: bool, whole: bool, partition: int | None,
) -> None:  # fmt: skip
    """Produce a message for each line of FILES, or of the standard input.

    --json-lines reads the output of `consume --json`. The command ends when all messages are on
    disk."""
    regular = [file for file in files if os.path.isfile(file.name)]
    size = sum(os.path.getsize(file.name) for file in regular)
    progress = ProgressBar("sent", in_bytes)
    pieces = pieces_of(files or (sys.stdin.buffer,), whole)
    messages = (message_of(each, separator, json_lines) for each in pieces)
    count = 0
    for batch in batches(messages):
        if partition is not None:
            batch = [{**each, "partition": partition} for each in batch]
        send(api, topic, batch)
        count += len(batch)
        if size:
            progress(sum(file.tell() for file in regular), size)
    click.echo(json.dumps({"produced": count}) if as_json else f"{some(count, 'message')} produced")


def pieces_of(files: tuple[BinaryIO, ...], whole: bool) -> Iterator[bytes]:
    for file in files:
        if whole:
            yield file.read()
        else:
            yield from (line.removesuffix(b"\n").removesuffix(b"\r") for line in file)


def send(api: Api, topic: str, batch: list[dict[str, Any]]) -> None:
    try:
        api.post(f"/topics/{part(topic)}/messages", {"messages": batch})
    except Failed as error:
        if error.exit_code != NOT_FOUND or "there is no topic" not in error.message:
            raise
        # a misspelt name must not create a topic
        hint = f"{error.message}. `appliance topic create {topic}` creates it"
        raise Failed(hint, NOT_FOUND) from error


def batches(messages: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """As many as one request takes, in messages and in bytes."""
    batch: list[dict[str, Any]] = []
    size = 0
    for each in messages:
        length = len(json.dumps(each))
        if batch and (len(batch) == BATCH or size + length > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += length
    if batch:
        yield batch


@click.command(cls=Command)
@TOPIC
@click.option("--offset", "-o", default="earliest", show_default=True,
              help="earliest, latest, -N, N, N:M, @TIME, @TIME:@TIME (@2026-11-21T08:30, @-1h).")
@click.option("--max", "-n", "count_max", type=click.IntRange(0, sys.maxsize),
              help="Print at most so many.")
@click.option("--partition", "-p", type=int, help="Only this partition.")
@click.option("--filter", "-f", "wanted", default="",
              help="Conditions: 'value.id = 7 and header.type contains order'.")
@click.option("--group", "-g",
              help="Start at the committed offsets of this group, and commit what was printed.")
@click.option("--format", "form", type=click.Choice(("lines", "json", *FILES)), default="lines",
              show_default=True, help="Output format; csv, arrow and parquet are one file.")
@click.option("--key-separator", "-K", "separator",
              help="Print keys too, with this separator.")
@click.option("--follow", is_flag=True, help="Print new messages until interrupted.")
@click.option("--plain", is_flag=True,
              help="Keys and values as they are stored, not decoded by a schema.")
@asks_a_broker
def consume(
    api: Api, as_json: bool, topic: str, offset: str, count_max: int | None,
    partition: int | None, wanted: str, group: str | None, form: str, separator: str | None,
    follow: bool, plain: bool,
) -> None:  # fmt: skip
    """Print messages: a value a line, or with --json an object a line.

    Keys and values are decoded by the topic's schema or the broker's schema registry, if it has
    one. --format csv, arrow and parquet have them as they are stored.

    The command commits offsets only with --group. It then reads to the end that the topic had at
    the start, commits what was printed, and refuses if the group has members. Exit code 10: some
    messages are unreadable or lost, and nobody has acknowledged that."""
    at = offset_range.parse(offset)
    show = shown_by("json" if as_json else form, separator)
    if form in FILES:
        refuse(f"--format {form}", "-n, -K, --group, --follow or --json",
               count_max, separator, group, follow or None, as_json or None)  # fmt: skip
        return put_file(api, topic, at, partition, wanted, form)
    query: Query = {"filter": wanted or None, **(PLAIN if plain else {})}
    if group is not None:
        refuse("--group", "--offset or --follow",
               follow or None, None if offset == "earliest" else offset)  # fmt: skip
        read_for(api, topic, group, partition, query, count_max, show)
        return tell_of_damage(api, topic, partition)
    messages = stored(api, topic, at, partition, query)
    if follow:
        messages = chained(messages, followed(api, topic, query))
    for each in islice(messages, count_max):
        show(each)
    tell_of_damage(api, topic, partition)


def tell_of_damage(api: Api, topic: str, partition: int | None) -> None:
    """Ends with exit code 10 if messages were unreadable or are lost."""
    lost = [
        each
        for each in entries(api, state="open", topic=topic)
        if partition in (None, each["partition"])
    ]
    for each in lost:
        place = f"{topic}-{each['partition']} offsets {offsets(each)}"
        click.echo(f"{place}: {each['kind']}: {each['cause']}", err=True)
    met = click.get_current_context().meta.get(UNREADABLE, 0)
    if lost or met:
        loss = f"{some(met, 'range')} could not be read" if met else "some messages are lost"
        raise Failed(f"{topic}: {loss}; `appliance ledger list` shows losses", UNHEALTHY)


def refuse(what: str, others: str, *given: Any) -> None:
    if any(each is not None for each in given):
        raise click.UsageError(f"{what} does not go with {others}")


def shown_by(form: str, separator: str | None) -> Callable[[dict[str, Any]], None]:
    def show(message: dict[str, Any]) -> None:
        if form == "json":
            return click.echo(json.dumps(to_object(message), ensure_ascii=False))
        text = text_of(message["value"])
        if separator is not None and message["key"] is not None:
            text = f"{text_of(message['key'])}{separator}{text}"
        # a value may hold control characters: a terminal gets them escaped
        click.echo(cell(text) if sys.stdout.isatty() else text)

    return show


def put_file(
    api: Api, topic: str, at: offset_range.Where, partition: int | None, wanted: str, form: str
) -> None:
    """The broker makes the file."""
    if sys.stdout.isatty() and form != "csv":
        raise Failed(f"{form} cannot be shown on a terminal: `... > {topic}.{form}`", FAILED)
    path = f"/topics/{part(topic)}"
    range_ = api.get(f"{path}/range", until=at.until, partition=partition, **{"from": at.begin})
    cursor = range_["cursor"]
    chosen = {"cursor": cursor} if cursor else {"from": offset_range.parse("end").begin}
    query = {"format": form, "filter": wanted or None, **chosen}
    with api.open(f"{PREFIX}{path}/export", **query) as answer:
        shutil.copyfileobj(answer, sys.stdout.buffer, COPY_BYTES)
        sys.stdout.buffer.flush()


def read_for(
    api: Api, topic: str, group: str, partition: int | None, query: Query, count_max: int | None,
    show: Callable[[dict[str, Any]], None],
) -> None:  # fmt: skip
    """Reads partition by partition. It commits what was printed, also if it is interrupted."""
    path, left = f"/topics/{part(topic)}", count_max
    for number, before in places(api, topic, group, partition).items():
        begin = "oldest" if before is None else f"offset:{before}"
        ranges = api.get(f"{path}/range", partition=number, **{"from": begin})["partitions"]
        if not ranges or left == 0:
            continue
        at = before
        try:
            at_most = offset_range.Where(begin, ranges[0]["end_offset"])
            for each in islice(stored(api, topic, at_most, number, query), left):
                show(each)
                at = each["offset"] + 1
                left = left and left - 1
            if left != 0:  # then the filter has seen all of them
                at = ranges[0]["end_offset"]
        finally:
            if at != before:
                commit(api, group, topic, number, at)


def places(api: Api, topic: str, group: str, partition: int | None) -> dict[int, int | None]:
    """The committed offsets of the group by partition. A group with members is refused."""
    which = {"topic": topic} | ({} if partition is None else {"partitions": [partition]})
    plan = api.post(f"/groups/{part(group)}/reset",
                    {"to": "earliest", "topics": [which], "dry_run": True})  # fmt: skip
    return {each["partition"]: each["before"] for each in plan["partitions"]}


def commit(api: Api, group: str, topic: str, number: int, offset: int | None) -> None:
    api.post(f"/groups/{part(group)}/reset", {
        "to": "offset", "offset": offset, "dry_run": False,
        "topics": [{"topic": topic, "partitions": [number]}]})  # fmt: skip


def chained(
    first: Iterator[dict[str, Any]], then: Iterator[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Stored messages, then new ones. The stream of new ones opens first, so that no message is
    missed. A message that both have is printed once."""
    next_ = next(then)  # the stream is open from here on
    assert next_ == {}
    ends: dict[int, int] = {}
    for each in first:
        ends[each["partition"]] = each["offset"]
        yield each
    for each in then:
        if each["offset"] > ends.get(each["partition"], -1):
            yield each


def stored(
    api: Api, topic: str, at: offset_range.Where, partition: int | None, query: Query
) -> Iterator[dict[str, Any]]:
    cursor = None
    while True:
        answer = api.get(
            f"/topics/{part(topic)}/messages", cursor=cursor, partition=partition,
            limit=1000, full=True, schema_wait_ms=SCHEMA_WAIT_MS, **{"from": at.begin}, **query,
        )  # fmt: skip
        for each in answer["problems"]:
            place = f"partition {each['partition']} offset {each['offset']}"
            click.echo(f"{place} cannot be read: {each['what']}", err=True)
            met = click.get_current_context().meta
            met[UNREADABLE] = met.get(UNREADABLE, 0) + 1
        for each in answer["messages"]:
            if at.end_offset is not None and each["offset"] >= at.end_offset:
                continue
            if at.end_ms is not None and each["timestamp_ms"] >= at.end_ms:
                continue
            tell_undecoded(each)
            yield each
        if answer["is_complete"]:
            return
        cursor = answer["next"]


def tell_undecoded(message: dict[str, Any]) -> None:
    """Once for each reason: a thousand messages may have the same."""
    told = click.get_current_context().meta.setdefault(UNDECODED, set())
    for name in ("key", "value"):
        problem = (message[name] or {}).get("problem")
        if problem is not None and problem not in told and len(told) < UNDECODED_MAX:
            told.add(problem)
            place = f"partition {message['partition']} offset {message['offset']}"
            click.echo(f"{place}: the {name} is not decoded: {cell(problem)}", err=True)


def followed(api: Api, topic: str, query: Query) -> Iterator[dict[str, Any]]:
    """New messages. The first item is empty and says that the stream is open."""
    path = f"{PREFIX}/topics/{part(topic)}/messages/live"
    with api.open(path, full=True, **query) as stream:
        yield {}
        name = ""
        for line in stream:
            word, _, text = line.decode().rstrip("\n").partition(": ")
            if word == "event":
                name = text
            elif word == "data" and name == "message":
                message = json.loads(text)
                tell_undecoded(message)
                yield message
            elif word == "data" and name == "skipped":
                left = json.loads(text)["offsets"]
                click.echo(f"{left} messages came too fast and are left out", err=True)
            elif word == "data" and name == "elsewhere":
                for each in json.loads(text)["partitions"]:
                    click.echo(f"not followed: {each['where']}", err=True)
            elif word == "data" and name == "deleted":
                gone = json.loads(text)["topic_id"]
                raise Failed(
                    f"topic {topic} with id {gone} was deleted. A new topic of that name has other "
                    "offsets: follow it with a new command", FAILED)  # fmt: skip
