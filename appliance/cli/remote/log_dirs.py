"""`appliance log dirs`: the directories of records of a running broker."""

from __future__ import annotations

from typing import Any

import click

from appliance.cli.remote.api import Answer, Api, shows_an_answer, sure
from appliance.process.exit_codes import Command
from appliance.process.spoken import size, some


@click.command("dirs", cls=Command)
@click.option("--reopen", metavar="DIR",
              help="Open a directory again: one that failed, or was mounted since.")
@click.option("--give-up", metavar="DIR",
              help="Give up a directory that will not come back: its partitions begin anew.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@shows_an_answer
def dirs(api: Api, reopen: str | None, give_up: str | None, yes: bool) -> Answer:
    """The directories of a running broker's records (log.dirs), with the room in each."""
    if reopen and give_up:
        raise click.UsageError("one at a time: --reopen or --give-up")
    if reopen:
        sure(f"The partitions of {reopen} are not served until it is open again. Continue?", yes)
        yield from said(api.post("/log-dirs/reopen", {"path": reopen}))
        return
    if give_up:
        sure(f"All records in {give_up} are lost, even if it comes back. Continue?", yes)
        yield from said(api.post("/log-dirs/give-up", {"path": give_up}))
        return
    answer = api.get("/log-dirs")
    yield answer
    for each in answer["log_dirs"]:
        count = some(each["partitions"], "partition")
        if each["state"] == "offline":
            yield f"{each['path']}: offline, {count}: {each['why']}"
            continue
        full = ", full: writes are refused" if each["is_full"] else ""
        room = f"{size(each['free_bytes'])} of {size(each['total_bytes'])} free{full}"
        yield f"{each['path']}: {count}, {room}"
        if each["why"]:
            yield f"  nothing new goes there: {each['why']}"
    for each in answer["moves"]:
        done = f"{size(each['copied_bytes'])} of {size(each['size_bytes'])} copied"
        why = f": {each['why']}" if each["why"] else ""
        yield f"{each['topic']}-{each['partition']} moves to {each['target']}: {done}{why}"


def said(answer: dict[str, Any]) -> Answer:
    yield answer
    yield answer["text"]
