"""Mirrors over REST: topics that a mirror writes here, and what the mirrors say of themselves.

A mirror is a program elsewhere, and only it knows how far the source is ahead: with `--report` it
says so every few seconds. That is kept in memory; the topics are known by their `mirror.source`
without it.

A mirror is paused by the answer to its report. It stays so while it cannot ask; and a broker that
has started anew, and knows of no pause, believes a mirror that says it is paused.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, TypedDict

from appliance.admin.rights import DESCRIBE_CLUSTER
from appliance.admin.route import OPERATOR, Call, delete, get, patch, put
from appliance.errors import RequestInvalid, ResourceUnknown
from appliance.storage._log_metrics import log_facts
from appliance.topics.topic import Topic

MIRRORS_MAX = 100
ROWS_MAX = 50_000  # of all reports together: a row for each partition, and some for refusals
SILENT_INTERVALS = 3  # without a report: then it has stopped, or cannot reach us
TEXT_MAX = 2000  # characters of a failure

CAUGHT_UP, BEHIND, REFUSED, NO_LINK = "caught up", "behind", "refused", "no link"
PAUSED, PAUSING = "paused", "pausing"
ENDED, SILENT, NOT_REPORTED = "ended", "silent", "not reported"


class ReportRow(TypedDict):
    topic: str
    partition: int
    position: int
    end_offset: int
    lag: int
    lost_offsets: int
    behind_s: float  # since the target last had everything


class Report(TypedDict):
    source: str  # addresses
    state: str  # mirroring, paused, no link, ended
    interval_s: float  # until the next report
    records: int
    bytes: int
    failures: int
    last_failure: str
    refused: dict[str, str]  # the reason by topic or partition
    rows: list[ReportRow]


class ReportAnswer(TypedDict):
    is_paused: bool  # what the mirror is to be


class MirrorChange(TypedDict):
    is_paused: bool


class MirrorRow(TypedDict):
    mirror: str
    source: str
    state: str
    is_paused: bool  # what it was told to be, which it is from its next report on
    reported_ms: int
    topics: int
    records: int
    bytes: int
    lag_records: int
    lag_s: float
    lost_offsets: int
    failures: int
    last_failure: str
    refused: dict[str, str]


class MirroredTopic(TypedDict):
    topic: str
    source: str  # cluster and id of the source topic
    mirror: str | None  # the mirror that reported the topic
    state: str
    partitions: int
    end_offset: int  # sum over all partitions
    lag_records: int | None
    lag_s: float | None
    lost_offsets: int | None
    last_write_ms: int | None
    failure: str


class MirrorList(TypedDict):
    mirrors: list[MirrorRow]
    topics: list[MirroredTopic]


@dataclass
class Told:
    report: Report
    at_ms: int
    until: float  # of time.monotonic: silent from then on
    is_paused: bool = False  # wanted

    @property
    def state(self) -> str:
        """The state of the whole mirror."""
        if self.report["state"] == ENDED:
            return ENDED
        if time.monotonic() > self.until:
            return SILENT
        if self.report["state"] == PAUSED:
            return PAUSED
        if self.is_paused:
            return PAUSING
        return NO_LINK if self.report["state"] == NO_LINK else self.by_lag(self.report["rows"])

    @staticmethod
    def by_lag(rows: list[ReportRow]) -> str:
        return BEHIND if any(each["lag"] for each in rows) else CAUGHT_UP

    def refusal(self, topic: str) -> str:
        """Of the topic, or of one of its partitions."""
        names = {topic, *(f"{topic}-{each['partition']}" for each in self.rows_of(topic))}
        found = [why for name, why in self.report["refused"].items() if name in names]
        return found[0] if found else ""

    def rows_of(self, topic: str) -> list[ReportRow]:
        return [each for each in self.report["rows"] if each["topic"] == topic]

    def knows(self, topic: str) -> bool:
        return bool(self.rows_of(topic)) or topic in self.report["refused"]


class Mirrors:
    """The last reports by name. Lives on the event loop."""

    def __init__(self) -> None:
        self.told: dict[str, Told] = {}

    def put(self, name: str, report: Report) -> Told:
        before = self.told.get(name)
        if name not in self.told and len(self.told) >= MIRRORS_MAX:
            raise RequestInvalid(f"{MIRRORS_MAX} mirrors have reported already")
        until = time.monotonic() + SILENT_INTERVALS * max(report["interval_s"], 1.0)
        self._check_room(name, report)
        cut: Any = {**report, "last_failure": report["last_failure"][:TEXT_MAX]}
        is_paused = before.is_paused if before else report["state"] == PAUSED
        made = self.told[name] = Told(cut, time.time_ns() // 1_000_000, until, is_paused)
        return made

    def _check_room(self, name: str, report: Report) -> None:
        """What is kept of all of them: whoever may report writes what it likes."""
        texts = [report["source"], report["state"], *report["refused"], *report["refused"].values(),
                 *(each["topic"] for each in report["rows"])]  # fmt: skip
        if any(len(each) > TEXT_MAX for each in texts):
            raise RequestInvalid(f"a text of the report has more than {TEXT_MAX} characters")
        others = (each.report for key, each in self.told.items() if key != name)
        kept = sum(rows_in(each) for each in others)
        if kept + rows_in(report) > ROWS_MAX:
            raise RequestInvalid(
                f"the report has {rows_in(report)} rows and refusals, those of other mirrors "
                f"{kept}, wanted at most {ROWS_MAX} together"
            )

    def named(self, name: str) -> Told:
        if name not in self.told:
            raise ResourceUnknown(f"no mirror {name[:80]!r} has reported")
        return self.told[name]


def rows_in(report: Report) -> int:
    return len(report["rows"]) + len(report["refused"])


def list_mirrors(call: Call) -> MirrorList:
    told = call.mirrors.told
    topics = [each for each in call.broker.topics.values() if each.mirror_source]
    return {
        "mirrors": [mirror_row(name, told[name]) for name in sorted(told)],
        "topics": [topic_row(each, told) for each in sorted(topics, key=lambda one: one.name)],
    }


def mirror_row(name: str, told: Told) -> MirrorRow:
    report, rows = told.report, told.report["rows"]
    return {
        "mirror": name,
        "source": report["source"],
        "state": told.state,
        "is_paused": told.is_paused,
        "reported_ms": told.at_ms,
        "topics": len({each["topic"] for each in rows}),
        "records": report["records"],
        "bytes": report["bytes"],
        "lag_records": sum(each["lag"] for each in rows),
        "lag_s": max((each["behind_s"] for each in rows), default=0.0),
        "lost_offsets": sum(each["lost_offsets"] for each in rows),
        "failures": report["failures"],
        "last_failure": report["last_failure"],
        "refused": report["refused"],
    }


def topic_row(topic: Topic, all_told: dict[str, Told]) -> MirroredTopic:
    name = next((name for name, told in all_told.items() if told.knows(topic.name)), None)
    told = all_told[name] if name is not None else None
    rows = told.rows_of(topic.name) if told else []
    facts = log_facts(topic.open_logs)
    newest = max((each.largest_timestamp for each in facts), default=-1)
    return {
        "topic": topic.name,
        "source": topic.mirror_source,
        "mirror": name,
        "state": topic_state(topic.name, told),
        "partitions": len(topic.logs),
        "end_offset": sum(each.log_end_offset for each in facts),
        "lag_records": sum(each["lag"] for each in rows) if rows else None,
        "lag_s": max(each["behind_s"] for each in rows) if rows else None,
        "lost_offsets": sum(each["lost_offsets"] for each in rows) if rows else None,
        "last_write_ms": newest if newest >= 0 else None,
        "failure": "" if told is None else told.refusal(topic.name) or link_failure(told),
    }


def topic_state(topic: str, told: Told | None) -> str:
    if told is None:
        return NOT_REPORTED
    if told.state in (ENDED, SILENT, PAUSED, PAUSING):
        return told.state
    if told.refusal(topic):
        return REFUSED
    return NO_LINK if told.state == NO_LINK else told.by_lag(told.rows_of(topic))


def link_failure(told: Told) -> str:
    return told.report["last_failure"] if told.state == NO_LINK else ""


def put_mirror(call: Call) -> ReportAnswer:
    return {"is_paused": call.mirrors.put(call.path["mirror"][:100], call.body).is_paused}


def change_mirror(call: Call) -> MirrorRow:
    name, body = call.path["mirror"], call.body
    told = call.mirrors.named(name)
    told.is_paused = body["is_paused"]
    return mirror_row(name, told)


def forget_mirror(call: Call) -> None:
    """Removes it until its next report."""
    call.mirrors.named(call.path["mirror"])
    del call.mirrors.told[call.path["mirror"]]


ROUTES = [
    get(
        "/mirrors",
        list_mirrors,
        MirrorList,
        "Mirrors that report here, and topics they write.",
        rights=(DESCRIBE_CLUSTER,),
    ),
    put(
        "/mirrors/{mirror}",
        put_mirror,
        ReportAnswer,
        "A report of a mirror, every few seconds; the answer says whether it is to pause.",
        body=Report,
        role=OPERATOR,
        is_noted=False,
    ),
    patch(
        "/mirrors/{mirror}",
        change_mirror,
        MirrorRow,
        "Pause a mirror or let it go on, from its next report on.",
        body=MirrorChange,
        role=OPERATOR,
    ),
    delete(
        "/mirrors/{mirror}",
        forget_mirror,
        None,
        "Remove a mirror's report until its next one.",
        role=OPERATOR,
    ),
]
