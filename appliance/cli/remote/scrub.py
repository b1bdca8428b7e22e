"""`appliance scrub`: a running broker verifies every segment from the disk."""

from __future__ import annotations

import time
from typing import Any

import click

from appliance.cli.remote.api import Api, asks_a_broker
from appliance.cli.remote.output import put_json
from appliance.process.exit_codes import FAILED, UNHEALTHY, Command, Failed
from appliance.process.progress_bar import ProgressBar
from appliance.process.spoken import size, some

LOOK_S = 0.2


@click.command(cls=Command)
@click.argument("topics", nargs=-1, metavar="[TOPIC...]")
@asks_a_broker
def scrub(api: Api, as_json: bool, topics: tuple[str, ...]) -> None:
    """Verify every segment of a running broker from the disk, or those of some topics.

    The broker marks damaged ranges. Their readers get an error, and everything else stays readable.
    Exit code 10: something is lost or damaged, even if that was known before, or a segment could
    not be verified."""
    answer = api.post("/scrub", {"topics": list(topics)})
    progress = ProgressBar("verified", size)
    while answer["is_running"]:
        progress(answer["own"]["bytes"], max(answer["own"]["bytes_found"], answer["own"]["bytes"]))
        time.sleep(LOOK_S)
        answer = api.get("/scrub")
    own = answer["own"]
    progress(own["bytes"], own["bytes"])
    known = [each for each in answer["known"] if not topics or each["topic"] in topics]
    if as_json:
        put_json({**own, "known": known})
    else:
        put_round(own, known)
    if not own["is_whole"] and not skipped(own):
        raise Failed("the scrub ended early; the broker's log has the reason", FAILED)
    if own["damages"] or known or has_failed(own):
        click.get_current_context().exit(UNHEALTHY)


def put_round(own: dict[str, Any], known: list[dict[str, Any]]) -> None:
    for each in own["findings"]:
        click.echo(f"{each['what']}: {place(each)}: {each['text']}")
    for each in known:
        click.echo(f"not served: {place(each)}")
    ranges = f"{some(own['damages'], 'new damage')}, {some(len(known), 'range')} not served"
    result = ranges if own["damages"] or known else "every batch is as written"
    if has_failed(own):
        result = f"{ranges}, and not every segment could be verified"
    notes = f"; {some(own['notes'], 'other finding')}" if own["notes"] else ""
    if skipped(own):
        notes += f"; {some(skipped(own), 'segment')} skipped: the disk or the log fails"
    click.echo(f"{some(own['segments'], 'segment')}, {size(own['bytes'])}: {result}{notes}")


def has_failed(own: dict[str, Any]) -> bool:
    """Not every segment was verified."""
    return skipped(own) > 0 or any(each["what"] == "failed" for each in own["findings"])


def skipped(own: dict[str, Any]) -> int:
    """A broker of an earlier version says nothing of it."""
    return int(own.get("skipped", 0))


def place(row: dict[str, Any]) -> str:
    first, last = row["first_offset"], row["end_offset"] - 1
    offsets = f"offset {first}" if first >= last else f"offsets {first} to {last}"
    return f"{row['topic']}-{row['partition']} {offsets}"
