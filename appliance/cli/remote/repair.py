"""`appliance log repair`: repairs a partition of a running broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from appliance.cli.remote.api import Answer, Api, part, shows_an_answer, sure
from appliance.process.exit_codes import Command
from appliance.process.spoken import size


@click.command("repair", cls=Command)
@click.argument("name", metavar="TOPIC-PARTITION")
@click.option("--reopen", "is_reopen", is_flag=True,
              help="Open the partition again, after a failed write or a failed open.")
@click.option("--skip", "is_skip", is_flag=True, help="Let readers skip damage and gaps.")
@click.option("--import", "file", metavar="FILE",
              help="Import a file that was set aside. Without options the command lists them.")
@click.option("--into", metavar="TOPIC",
              help="Append the file to this topic instead, with new offsets.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@shows_an_answer
def repair(
    api: Api,
    name: str,
    is_reopen: bool,
    is_skip: bool,
    file: str | None,
    into: str | None,
    dry_run: bool,
    yes: bool,
) -> Answer:
    """Repair a partition of a running broker. Without options, show its damage."""
    path = path_of(name)
    body = body_of(is_reopen, is_skip, file, into)
    if body is None:
        answer = api.get(path)
        yield answer
        yield from repairable(answer)
        return
    answer = api.post(path, {**body, "dry_run": True})
    if not dry_run:
        sure(f"{answer['text']}. Continue?", yes)
        answer = api.post(path, {**body, "dry_run": False})
    yield answer
    yield from repaired(answer)


def path_of(name: str) -> str:
    topic, dash, partition = name.rpartition("-")
    if not dash or not topic or not partition.isdecimal():
        raise click.BadParameter(f"got {name!r}, wanted a topic, a dash and a partition: orders-3")
    return f"/topics/{part(topic)}/partitions/{partition}/repair"


def body_of(
    is_reopen: bool, is_skip: bool, file: str | None, into: str | None
) -> dict[str, Any] | None:
    if is_reopen + is_skip + bool(file) > 1:
        raise click.UsageError("one at a time: --reopen, --skip or --import")
    if into and not file:
        raise click.UsageError("--into goes with --import")
    if is_reopen or is_skip:
        return {"action": "reopen" if is_reopen else "skip"}
    if file and into:
        return {"action": "copy", "file": file, "into": into}
    return {"action": "import", "file": file} if file else None


def repairable(answer: dict[str, Any]) -> Iterator[str]:
    if answer["state"] != "open":
        yield f"{answer['state']}: {answer['why']}"
    for each in answer["damaged"]:
        what = "damaged" if each["has_bytes"] else "gone"
        passed = ", readers pass" if each["is_skipped"] else ""
        yield f"{what}: offsets {each['first_offset']} to {each['end_offset'] - 1}{passed}"
    for each in answer["set_aside"]:
        yield f"set aside: {each['file']}, {size(each['size_bytes'])}"
    if answer["state"] == "open" and not answer["damaged"] and not answer["set_aside"]:
        yield "nothing is damaged, and nothing was set aside"


def repaired(answer: dict[str, Any]) -> Iterator[str]:
    yield answer["text"]
    for each in answer["still_missing"]:
        yield f"still missing: offsets {each['first_offset']} to {each['end_offset'] - 1}"
    if answer["left_out"]:
        yield f"left out: {answer['left_out']} batches of other offsets"
