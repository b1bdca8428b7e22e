"""`appliance produce` and `appliance consume`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any, TextIO

import click

from appliance.command import FAILED, Command, Failed
from appliance.progress import Progress
from appliance.remote import where
from appliance.remote.api import PREFIX, Api, asks_a_broker, part
from appliance.remote.output import cell
from appliance.remote.output import size as in_bytes

BATCH = 500  # messages in one request
BATCH_BYTES = 2 << 20  # of them as JSON: the broker takes a body of 4 MiB
TOPIC = click.argument("topic", metavar="TOPIC")


@click.command(cls=Command)
@TOPIC
@click.argument("files", nargs=-1, type=click.File("r", encoding="utf-8"))
@click.option("--key-separator", "-K", "separator", help="What stands between key and value.")
@click.option("--json-lines", is_flag=True, help="Each line an object with key, value, headers.")
@click.option("--partition", "-p", type=int, help="Of the topic; else by key.")
@asks_a_broker
def produce(
    api: Api, as_json: bool, topic: str, files: tuple[TextIO, ...], separator: str | None,
    json_lines: bool, partition: int | None,
) -> None:  # fmt: skip
    """Produce a message for each line of FILES, or of the standard input.

    What `consume --json` writes can be given with --json-lines. It ends when all is on disk."""
    regular = [file for file in files if os.path.isfile(file.name)]
    size = sum(os.path.getsize(file.name) for file in regular)
    progress = Progress("sent", in_bytes)
    lines = (line for file in files or (sys.stdin,) for line in file)
    messages = (message_of(line.rstrip("\n"), separator, json_lines) for line in lines)
    count = 0
    for batch in batches(messages):
        if partition is not None:
            batch = [{**each, "partition": partition} for each in batch]
        api.post(f"/topics/{part(topic)}/messages", {"messages": batch})
        count += len(batch)
        if size:
            progress(sum(file.buffer.tell() for file in regular), size)
    click.echo(json.dumps({"produced": count}) if as_json else f"{count} messages produced")


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


def message_of(line: str, separator: str | None, is_json: bool) -> dict[str, Any]:
    if is_json:
        return of_object(line)
    key, found, value = line.partition(separator) if separator else ("", "", line)
    if not found:
        return {"value": {"text": line}}
    return {"key": {"text": key}, "value": {"text": value}}


def of_object(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
        headers = found.get("headers") or {}
        return {
            "key": data_of(found.get("key")),
            "value": data_of(found.get("value")),
            "headers": [{"name": name, "value": data_of(each)} for name, each in headers.items()],
        }
    except (ValueError, AttributeError) as error:
        raise Failed(f"got line {line[:80]!r}, wanted a JSON object: {error}", FAILED) from error


def data_of(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    return {"text": value} if isinstance(value, str) else {"json": value}


@click.command(cls=Command)
@TOPIC
@click.option("--offset", "-o", default="earliest", show_default=True,
              help="earliest, latest, -N, N, N:M, @TIME, @TIME:@TIME (@2026-11-21T08:30, @-1h).")
@click.option("--max", "-n", "count_max", type=int, help="How many to print.")
@click.option("--partition", "-p", type=int, help="Of this partition only.")
@click.option("--filter", "-f", "wanted", default="",
              help="Conditions: 'value.id = 7 and header.type contains order'.")
@click.option("--follow", is_flag=True, help="Go on with what comes, until interrupted.")
@asks_a_broker
def consume(
    api: Api, as_json: bool, topic: str, offset: str, count_max: int | None,
    partition: int | None, wanted: str, follow: bool,
) -> None:  # fmt: skip
    """Print messages: values by line, or with --json an object a line. Nothing is committed."""
    at = where.parse(offset)
    found: Iterator[dict[str, Any]] = stored(api, topic, at, partition, wanted)
    if follow:
        found = chained(found, followed(api, topic, wanted))
    for each in islice(found, count_max):
        click.echo(json.dumps(plain(each), ensure_ascii=False) if as_json else line_of(each))


def chained(
    first: Iterator[dict[str, Any]], then: Iterator[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """What is there, and then what comes: following begins first, so that nothing is between them;
    what both have is printed once."""
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
    api: Api, topic: str, at: where.Where, partition: int | None, wanted: str
) -> Iterator[dict[str, Any]]:
    cursor = None
    while True:
        answer = api.get(
            f"/topics/{part(topic)}/messages", cursor=cursor, partition=partition,
            filter=wanted or None, limit=1000, full=True, **{"from": at.begin},
        )  # fmt: skip
        for each in answer["problems"]:
            place = f"partition {each['partition']} offset {each['offset']}"
            click.echo(f"{place} cannot be read: {each['what']}", err=True)
        for each in answer["messages"]:
            if at.end_offset is not None and each["offset"] >= at.end_offset:
                continue
            if at.end_ms is not None and each["timestamp_ms"] >= at.end_ms:
                continue
            yield each
        if answer["is_complete"]:
            return
        cursor = answer["next"]


def followed(api: Api, topic: str, wanted: str) -> Iterator[dict[str, Any]]:
    """The first is empty: the stream is open."""
    path = f"{PREFIX}/topics/{part(topic)}/messages/live"
    with api.open("GET", path, filter=wanted or None) as stream:
        yield {}
        name = ""
        for line in stream:
            word, _, text = line.decode().rstrip("\n").partition(": ")
            if word == "event":
                name = text
            elif word == "data" and name == "message":
                yield json.loads(text)
            elif word == "data" and name == "skipped":
                left = json.loads(text)["offsets"]
                click.echo(f"{left} messages came too fast and are left out", err=True)


def plain(message: dict[str, Any]) -> dict[str, Any]:
    """As `produce --json-lines` takes it."""
    return {
        "partition": message["partition"],
        "offset": message["offset"],
        "timestamp_ms": message["timestamp_ms"],
        "key": text_of(message["key"]),
        "value": text_of(message["value"]),
        "headers": {each["name"]: text_of(each["value"]) for each in message["headers"]},
    }


def text_of(data: dict[str, Any] | None) -> str | None:
    return None if data is None else data["text"]


def line_of(message: dict[str, Any]) -> str:
    """At a terminal a value can be anything: what is not printed as it is, is escaped."""
    text = text_of(message["value"])
    return cell(text) if sys.stdout.isatty() else text or ""
