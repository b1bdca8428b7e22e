"""Whether the log of a partition is still the one that was exported.

A restored broker has the topics of the lost one, at an older point, and its log grows again. Once
it has passed the position of a target, its end tells nothing. So the manifest has a mark of the
last batch before each position: its leader epoch, which a restore raises, and its CRC.
"""

from __future__ import annotations

from typing import Any

from appliance_spark.export_broker import AdminPort
from appliance_spark.export_layout import ExportFailed

Marks = dict[str, dict[str, int]]  # by partition


def note(broker: AdminPort, topic: dict[str, Any]) -> None:
    """The marks of a topic of a plan. There is none where compaction has taken the batch."""
    for part in topic["partitions"]:
        if part.get("mark", {}).get("end") != part["to"]:
            part["mark"] = _mark(broker, topic, part["partition"], part["to"])


def note_anew(broker: AdminPort, topic: dict[str, Any]) -> None:
    """Of a plan that was stored: its log may be another one by now."""
    for part in topic["partitions"]:
        part["mark"] = _mark(broker, topic, part["partition"], part["to"])


def _mark(broker: AdminPort, topic: dict[str, Any], partition: int, end: int) -> dict[str, int]:
    if not end:
        return {}
    batch = broker.batch_at(topic["topic"], topic["topic_id"], partition, end - 1)
    return {"end": end, "leader_epoch": batch.leader_epoch, "crc": batch.crc} if batch else {}


def check(
    broker: AdminPort, topic: dict[str, Any], known: dict[int, int], marks: Marks, accepts: bool
) -> None:
    """`known` are positions. What is accepted is noted in the plan as a loss."""
    problems = []
    for part in topic["partitions"]:
        number = part["partition"]
        was = marks.get(str(number), {})
        if not was or was["end"] != known.get(number):  # an older version has gone on since
            continue
        now = part["mark"] = _mark(broker, topic, number, known[number])
        if now and _is_other(broker, topic["topic"], was, now):
            first = _parted(broker, topic, number, was["leader_epoch"], known[number])
            part["others"] = [first, known[number]]
            problems.append(
                f"{topic['topic']} partition {number}: offsets {first} to {known[number] - 1} have "
                f"other records than this target (leader epoch {now['leader_epoch']}, exported "
                f"was {was['leader_epoch']})")
    if problems and not accepts:
        raise ExportFailed(
            "; ".join(problems) + ". The log was taken back to an older copy, and has grown "
            "since. Export it into a new target (appliance export backfill); --accept-loss goes "
            "on with what is behind them")


def _is_other(broker: AdminPort, topic: str, was: dict[str, int], now: dict[str, int]) -> bool:
    """A batch keeps its epoch for ever. Compaction writes it anew, with another CRC."""
    if was["leader_epoch"] != now["leader_epoch"]:
        return True
    return was["crc"] != now["crc"] and not broker.is_compacted(topic)


def _parted(
    broker: AdminPort, topic: dict[str, Any], partition: int, epoch: int, position: int
) -> int:
    """The first offset of a later epoch: leader epochs ascend. Without one it is not known, and the
    last record alone is told."""
    first, last = 0, position - 1
    while first < last:
        middle = (first + last) // 2
        batch = broker.batch_at(topic["topic"], topic["topic_id"], partition, middle, position)
        if batch is not None and batch.leader_epoch > epoch:
            last = max(first, min(middle, batch.base_offset))
        else:
            first = middle + 1
    return last
