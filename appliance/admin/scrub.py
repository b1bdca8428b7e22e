"""The scrub over REST: its progress, its findings, and a manual round."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, TypedDict, cast

from typing_extensions import NotRequired

from appliance.admin.body_schema import row_of
from appliance.admin.rights import DESCRIBE_CLUSTER
from appliance.admin.route import Call, get, post
from appliance.repair.scrub import Round, known_damage


class ScrubFound(TypedDict):
    topic: str
    partition: int
    what: str  # damaged or lost (in the ledger), restored, index, odd, failed
    first_offset: int
    end_offset: int
    text: str


class ScrubRound(TypedDict):
    began_ms: int
    ended_ms: int | None
    is_whole: bool  # all segments were verified, none was skipped
    topics: list[str]  # empty: all topics
    segments: int
    skipped: int  # segments of a disk or a log that fails: nothing is known of them
    bytes: int
    bytes_found: int  # to verify, counted at the start of the round
    damages: int  # new lost or damaged ranges
    notes: int
    findings: list[ScrubFound]  # the first hundred


class KnownRange(TypedDict):
    topic: str
    partition: int
    first_offset: int
    end_offset: int


class ScrubAnswer(TypedDict):
    bytes_per_second: int  # 0: no background round
    interval_ms: int
    is_late: bool
    age_s: float | None  # since the last whole round of all topics; None: no round yet
    checked_bytes: int  # since the start
    damages: int  # detected since the start
    is_running: bool  # a manual round
    round: ScrubRound | None  # the running background round
    last: ScrubRound | None  # the last whole round of all topics
    own: ScrubRound | None  # the last manual round
    known: list[KnownRange]  # where readers get an error


class NewScrub(TypedDict):
    topics: NotRequired[list[str]]  # default: all


def get_scrub(call: Call) -> ScrubAnswer:
    scrubber = call.broker.scrubber
    age_ms = scrubber.age_ms
    known = known_damage(call.broker.log_dir, [])
    return row_of(
        ScrubAnswer,
        scrubber,
        bytes_per_second=scrubber.config.scrub_bytes_per_second,
        interval_ms=scrubber.config.scrub_interval_ms,
        age_s=None if age_ms is None else age_ms / 1000,
        round=round_row(scrubber.round),
        last=round_row(scrubber.last),
        own=round_row(scrubber.own),
        known=[
            {"topic": topic, "partition": partition, "first_offset": first, "end_offset": end}
            for (topic, partition), holes in sorted(known.items())
            for first, end in holes
        ],
    )


def round_row(found: Round | None) -> ScrubRound | None:
    if found is None:
        return None
    row: dict[str, Any] = asdict(found)
    return cast(ScrubRound, row)


def start_scrub(call: Call) -> ScrubAnswer:
    call.broker.scrubber.start(call.body.get("topics", []))
    return get_scrub(call)


ROUTES = [
    get(
        "/scrub",
        get_scrub,
        ScrubAnswer,
        "Progress and findings of the scrub.",
        rights=(DESCRIBE_CLUSTER,),
    ),
    post(
        "/scrub",
        start_scrub,
        ScrubAnswer,
        "Verify all segments from the disk now, or those of some topics, at full speed.",
        body=NewScrub,
    ),
]
