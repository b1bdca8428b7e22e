"""The plan of a run: a closed range of offsets per partition, fixed before any read.

A run's files depend only on its plan, so a killed run is repeated with the same plan and writes the
same files.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from appliance_spark import export_history, export_manifest
from appliance_spark.export_broker import AdminPort
from appliance_spark.export_hours import Layout
from appliance_spark.export_layout import ExportFailed

Plan = dict[str, Any]

SPLIT_BYTES = 128 << 20  # of the log per task: some seconds of work, repeated by a retry


@dataclass(frozen=True)
class Wanted:
    """The request for a run."""

    topics: tuple[str, ...]
    first: Any = "earliest"  # the start of topics that the manifest does not have
    end: Any = "latest"
    isolation: str = "read_committed"
    partition_by: str = "timestamp"
    schema: dict[str, Any] | None = None
    accept_loss: bool = False
    reason: str = "command"
    due_ms: int | None = None
    missed: int = 0  # times due before that, which this run makes up for
    split_bytes: int = SPLIT_BYTES
    layout: str | None = None  # hour or day; None: that of the target, or hour
    zone: str | None = None  # None: that of the target, or UTC
    file_bytes: int | None = None  # cut files near this size; None: never


def make(
    broker: AdminPort, wanted: Wanted, manifest: export_manifest.Manifest, now_ms: int
) -> Plan:
    sequence = manifest["sequence"] + 1
    moment = datetime.fromtimestamp(now_ms / 1000, timezone.utc)
    topics, splits = [], []
    for topic in wanted.topics:
        known = export_manifest.position(manifest, topic)
        visible = _visible_ends(broker, wanted, topic)
        answer = _ask(broker, wanted, topic, known)
        _same_topic(manifest["topics"].get(topic), answer)
        in_target = manifest["topics"].get(topic)
        layout = vars(layout_wanted(wanted, in_target, topic))
        topics.append({**_topic(answer, known, wanted), "layout": layout})
        _note_held(broker, topics[-1], visible)
        export_history.check(
            broker, topics[-1], known, (in_target or {}).get("marks", {}), wanted.accept_loss)
        export_history.note(broker, topics[-1])
        splits += _splits(answer)
    return {
        "id": f"{moment:%Y%m%dT%H%M%SZ}-{sequence:06d}",
        "sequence": sequence,
        "created_ms": now_ms,
        "due_ms": wanted.due_ms,
        "missed": wanted.missed,
        "reason": wanted.reason,
        "partition_by": wanted.partition_by,
        "file_bytes": wanted.file_bytes,
        "topics": topics,
        "splits": splits,
    }


def _ask(broker: AdminPort, wanted: Wanted, topic: str, known: dict[int, int]) -> Any:
    """Asks twice: the number of bytes decides the number of splits. A partition that was added to
    an exported topic is exported from its first record on, unless a map names another."""
    bounds = broker.plan(topic, wanted.first, wanted.end, 1, wanted.isolation)
    first = {part["partition"]: part["start"] for part in bounds["partitions"]}
    ends = {part["partition"]: part["end"] for part in bounds["partitions"]}
    added = {} if _is_map(wanted.first) or not known else dict.fromkeys(
        first.keys() - known.keys(), "earliest")
    here = {p: known[p] for p in known if p in first or not _is_map(wanted.first)}
    starts = {**first, **added, **here}
    ends = {p: ends.get(p, "latest") for p in starts}
    total = broker.plan(topic, starts, ends, 1, wanted.isolation)
    fixed = {part["partition"]: part["end"] for part in total["partitions"]}
    # a split makes files of its own, so a smaller one than a file would make more files
    size = max(wanted.split_bytes, wanted.file_bytes or 0)
    count = math.ceil(sum(each["bytes"] for each in total["splits"]) / size)
    answer = broker.plan(topic, starts, fixed, max(count, 1), wanted.isolation)
    ends_then = {part["partition"]: part["end_offset"] for part in bounds["partitions"]}
    for part in answer["partitions"]:  # what came during these requests is not behind the plan
        part["end_offset"] = ends_then.get(part["partition"], part["end_offset"])
    return answer


# What open transactions hold back

def _visible_ends(broker: AdminPort, wanted: Wanted, topic: str) -> dict[int, int]:
    """Asked before the plan: what is there and not stable then was held back by a transaction, and
    is not only newer than the plan."""
    if wanted.isolation != "read_committed":
        return {}
    found = broker.plan(topic, "latest", "latest", 0, "read_uncommitted")
    return {part["partition"]: part["end_offset"] for part in found["partitions"]}


def _note_held(broker: AdminPort, topic: dict[str, Any], visible: dict[int, int]) -> None:
    """Since when: the first record of the oldest open transaction is at the last stable offset."""
    for part in topic["partitions"]:
        number, stable = part["partition"], part["end_offset"]
        if stable < visible.get(number, 0):
            batch = broker.batch_at(topic["topic"], topic["topic_id"], number, stable)
            part["held_since_ms"] = batch.base_timestamp if batch else 0


def layout_wanted(wanted: Wanted, in_target: dict[str, Any] | None, topic: str) -> Layout:
    """A target's layout of a topic stays: readers take the same folders everywhere."""
    known = export_manifest.layout_of(in_target or {})
    found = Layout(wanted.layout or known.per, wanted.zone or known.zone)
    if in_target is not None and found != known:
        raise ExportFailed(
            f"topic {topic} is {known} in this target, wanted {found}: that wants a new target "
            "(appliance export backfill)")
    return found


def _is_map(bound: Any) -> bool:
    return isinstance(bound, dict)


def _same_topic(known: dict[str, Any] | None, answer: dict[str, Any]) -> None:
    if known is not None and known["topic_id"] != answer["topic_id"]:
        raise ExportFailed(
            f"topic {answer['topic']} is another one than this target holds (id "
            f"{answer['topic_id']}, exported so far: {known['topic_id']}): it was deleted and made "
            "again. Export it into a new target"
        )


def _topic(answer: dict[str, Any], known: dict[int, int], wanted: Wanted) -> dict[str, Any]:
    parts, problems = [], []
    for part in answer["partitions"]:
        number, start, end = part["partition"], part["start"], part["end"]
        lost = part.get("lost", 0)
        if lost and not wanted.accept_loss:
            problems.append(
                f"{answer['topic']} partition {number}: offsets {start - lost} to {start - 1} "
                f"({lost}) were deleted before they were exported"
            )
        if part.get("holes") and not wanted.accept_loss:
            problems.append(f"{answer['topic']} partition {number}: offsets {part['holes']} "
                            "are damaged or gone in the log")
        if number in known and part["end_offset"] < known[number]:
            raise ExportFailed(
                f"{answer['topic']} partition {number} ends at {part['end_offset']}, before the "
                f"position {known[number]} of this target: its log was cut, or taken back to an "
                "older copy. Export it into a new target (appliance export backfill)"
            )
        parts.append({"partition": number, "from": start, "to": max(start, end),
                      "end_offset": part["end_offset"], "lost": lost})
    if problems:
        raise ExportFailed("; ".join(problems) + ". --accept-loss goes on with what is left")
    return {
        "topic": answer["topic"],
        "topic_id": answer["topic_id"],
        "cluster_id": answer["cluster_id"],
        "isolation": answer["isolation"],
        "partitions": parts,
        "schema": wanted.schema or {"mode": "raw"},
    }


def _splits(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"topic": answer["topic"], "partition": each["partition"], "from": each["start"],
         "to": each["end"], "bytes": each["bytes"]}
        for each in answer["splits"] if each["start"] < each["end"]
    ]


def check_splits(plan: Plan) -> None:
    """Splits must cover each partition from its first to its last offset once."""
    at = {(topic["topic"], part["partition"]): part["from"]
          for topic in plan["topics"] for part in topic["partitions"]}
    for split in sorted(plan["splits"], key=lambda each: (each["topic"], each["from"])):
        key = (split["topic"], split["partition"])
        if at[key] != split["from"]:
            raise ExportFailed(f"the plan goes from {at[key]} to {split['from']} in {key}")
        at[key] = split["to"]
    for topic in plan["topics"]:
        for part in topic["partitions"]:
            key = (topic["topic"], part["partition"])
            if at[key] != part["to"]:
                raise ExportFailed(f"the plan ends at {at[key]} in {key}, wanted {part['to']}")


def is_same(plan: Plan, other: Plan) -> bool:
    """Whether the old plan of a killed run still applies: it starts where a new plan would, with
    the same settings."""
    def begin(each: Plan) -> Any:
        return (
            each["sequence"], each["partition_by"],
            {t["topic"]: (t["topic_id"], export_manifest.layout_of(t),
                          *map(t["schema"].get, ("mode", "given", "framing")), t["isolation"],
                          {p["partition"]: p["from"] for p in t["partitions"]})
             for t in each["topics"]},
        )
    return bool(begin(plan) == begin(other))
