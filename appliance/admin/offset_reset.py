"""Resets a group's committed offsets, with a dry run first.

A group with members is refused, in the dry run too, because its members would overwrite the
offsets. The partitions are the named ones, or those with a commit of the group. An offset outside
the log is moved to the nearest end, with a note in the row.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, TypedDict

from typing_extensions import NotRequired

from appliance._log import Log
from appliance.admin.zookeeper_groups import committed_in, found_in
from appliance.broker.broker import Broker
from appliance.broker.partition_leaders import EARLIEST, LATEST
from appliance.errors import ApplianceError, RequestInvalid
from appliance.groups.records import OffsetCommitValue, Partition
from appliance.groups.states import GroupRefused
from appliance.groups.zookeeper_groups import non_empty
from appliance.protocol import ErrorCode
from appliance.topics.known_end import check_end_is_known
from appliance.topics.topic import Topic, TopicUnknown


class Which(TypedDict):
    topic: str
    partitions: NotRequired[list[int]]  # default: all


class Reset(TypedDict):
    to: Literal["earliest", "latest", "time", "offset", "shift", "group"]
    time_ms: NotRequired[int]
    offset: NotRequired[int]
    shift: NotRequired[int]
    group: NotRequired[str]  # whose offsets to use
    topics: NotRequired[list[Which]]
    dry_run: NotRequired[bool]  # default: true


class ResetRow(TypedDict):
    topic: str
    partition: int
    before: int | None
    after: int
    start: int
    end: int
    note: str


class ResetAnswer(TypedDict):
    group: str
    dry_run: bool
    partitions: list[ResetRow]


# The further field that each kind of reset needs.
WANTED = {"time": "time_ms", "offset": "offset", "shift": "shift", "group": "group"}


async def reset(broker: Broker, group_id: str, asked: Reset) -> ResetAnswer:
    if not group_id:
        raise RequestInvalid("the group's id is empty")
    wanted = WANTED.get(asked["to"])
    if wanted is not None and wanted not in asked:
        raise RequestInvalid(f"body.{wanted}: the field is missing, and to is {asked['to']!r}")
    check_empty(broker, group_id)
    places = chosen(broker, group_id, asked)
    time_ms = asked["time_ms"] if asked["to"] == "time" else None
    bounds = await bounds_of(broker, places, time_ms)
    rows = planned(broker, group_id, asked, bounds)
    is_dry = asked.get("dry_run", True)
    if not is_dry:
        await commit(broker, group_id, rows)
    return {"group": group_id, "dry_run": is_dry, "partitions": rows}


def check_empty(broker: Broker, group_id: str) -> None:
    """In the dry run too: members would commit over it."""
    if elsewhere := found_in(broker, group_id):
        if elsewhere.members:
            raise non_empty(group_id, len(elsewhere.members))
        return
    group = broker.groups.table.find(group_id)
    if group is not None and not group.is_empty:
        count = len([*group.members])
        raise GroupRefused(
            ErrorCode.NON_EMPTY_GROUP,
            f"group {group_id} is {group.state.value} with {count} members, which would commit "
            "over it: stop them first",
        )


def chosen(broker: Broker, group_id: str, asked: Reset) -> list[Partition]:
    """Without those that are no more."""
    if asked["to"] == "group" and found_in(broker, asked["group"]) is None:
        broker.groups.table.get(asked["group"])  # a missing group would mean: from the start
    if "topics" in asked:
        places = [place for each in asked["topics"] for place in places_of(broker, each)]
    elif asked["to"] == "group":
        places = sorted(committed_in(broker, asked["group"]))
    else:
        places = sorted(committed_in(broker, group_id))
    topics = broker.topics
    return [each for each in places
            if each.topic in topics and each.partition < len(topics[each.topic].logs)]  # fmt: skip


def places_of(broker: Broker, which: Which) -> list[Partition]:
    logs = broker.topics.named(which["topic"]).logs
    wanted = which.get("partitions", [*range(len(logs))])
    for each in wanted:
        if not 0 <= each < len(logs):
            raise TopicUnknown(
                f"{which['topic']}: got partition {each}, wanted 0 to {len(logs) - 1}"
            )
    return [Partition(which["topic"], each) for each in wanted]


class Bounds(NamedTuple):
    start: int
    end: int
    at_time: int | None  # the first record that is as new; None: there is none, or nobody asked


async def bounds_of(
    broker: Broker, places: list[Partition], time_ms: int | None
) -> dict[Partition, Bounds]:
    """As the leader of each has them, wherever that is."""
    by_topic: dict[str, list[int]] = {}
    for each in places:
        by_topic.setdefault(each.topic, []).append(each.partition)
    found: dict[Partition, Bounds] = {}
    for name, numbers in by_topic.items():
        topic = broker.topics.named(name)
        elsewhere = broker.leaders.led_elsewhere(topic, numbers)
        for number, own in (await bounds_elsewhere(broker, topic, elsewhere, time_ms)).items():
            found[Partition(name, number)] = own
        for number in sorted({*numbers} - {*elsewhere}):
            own = await asyncio.to_thread(bounds_here, topic.log(number), time_ms)
            found[Partition(name, number)] = own
    return {each: found[each] for each in places}


def bounds_here(log: Log, time_ms: int | None) -> Bounds:
    """Reads the disk for a time."""
    check_end_is_known(log)
    at = None if time_ms is None else log.offset_for_timestamp(time_ms)
    return Bounds(log.log_start_offset, log.high_watermark, None if at is None else at[0])


async def bounds_elsewhere(
    broker: Broker, topic: Topic, numbers: Iterable[int], time_ms: int | None
) -> dict[int, Bounds]:
    ask = broker.leaders.offsets
    starts = await ask(topic, dict.fromkeys(numbers, EARLIEST))
    ends = await ask(topic, dict.fromkeys(numbers, LATEST))
    times = {} if time_ms is None else await ask(topic, dict.fromkeys(numbers, time_ms))
    return {
        each: Bounds(starts[each], ends[each], at if (at := times.get(each, -1)) >= 0 else None)
        for each in numbers
    }


def planned(
    broker: Broker, group_id: str, asked: Reset, places: Mapping[Partition, Bounds]
) -> list[ResetRow]:
    committed = dict(committed_in(broker, group_id))
    rows: list[ResetRow] = []
    for place, bounds in places.items():
        own = committed.get(place)
        before = None if own is None else own.offset
        start, end, _ = bounds
        target, note = aimed(broker, asked, place, bounds, before)
        if not start <= target <= end:
            note = f"{target} is outside of the log" + (f"; {note}" if note else "")
        rows.append(
            {
                "topic": place.topic,
                "partition": place.partition,
                "before": before,
                "after": max(start, min(target, end)),
                "start": start,
                "end": end,
                "note": note,
            }
        )
    return rows


def aimed(
    broker: Broker, asked: Reset, place: Partition, bounds: Bounds, before: int | None
) -> tuple[int, str]:
    """The requested offset, and a note on it."""
    start, end, at_time = bounds
    if asked["to"] == "earliest":
        return start, ""
    if asked["to"] == "latest":
        return end, ""
    if asked["to"] == "offset":
        return asked["offset"], ""
    if asked["to"] == "time":
        return (end, "no record is as new as that") if at_time is None else (at_time, "")
    if asked["to"] == "shift":
        if before is None:
            return start, "nothing is committed: the shift is from the start"
        return before + asked["shift"], ""
    own = committed_in(broker, asked["group"]).get(place)
    if own is None:
        return start, f"group {asked['group']} has no commit here"
    return own.offset, ""


async def commit(broker: Broker, group_id: str, rows: list[ResetRow]) -> None:
    if broker.zookeeper_groups is not None and found_in(broker, group_id):
        offsets = {(each["topic"], each["partition"]): each["after"] for each in rows}
        ids = {
            topic: broker.topics.named(topic).id
            for topic in sorted({topic for topic, _ in offsets})
        }
        return await broker.zookeeper_groups.put_offsets(group_id, offsets, ids)
    now_ms = broker.clock.latest_ms()
    values = {
        Partition(each["topic"], each["partition"]): OffsetCommitValue(
            offset=each["after"], leader_epoch=-1, metadata="", commit_timestamp=now_ms
        )
        for each in rows
    }
    if not values:
        return
    done: asyncio.Future[ApplianceError | None] = asyncio.get_running_loop().create_future()
    now = time.monotonic_ns() // 1_000_000
    broker.groups.commits.commit(group_id, ("", None, -1), values, now, done.set_result)
    error = await done
    if error is not None:
        raise error
