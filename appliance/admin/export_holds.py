"""Retention holds for exports over REST."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable
from typing import TypedDict

from typing_extensions import NotRequired

from appliance.admin.body_schema import Natural, row_of
from appliance.admin.bulk_read import PREFIX
from appliance.admin.export_rights import check_new_name, check_readable, checked_name
from appliance.admin.rights import READ_SOME_TOPIC
from appliance.admin.route import OPERATOR, Call, delete, get, put
from appliance.errors import Refused, RequestInvalid, ResourceUnknown
from appliance.export.holds import Hold
from appliance.protocol import ErrorCode
from appliance.topics.topic import Topic


class HoldBody(TypedDict):
    topic: str
    offsets: dict[str, Natural]
    max_bytes: NotRequired[Natural]


class HoldRow(TypedDict):
    name: str
    topic: str
    offsets: dict[str, int]
    max_bytes: int
    put_ms: int
    state: str  # holding or released
    held_bytes: int  # kept at the last check beyond retention
    released_ms: int | None
    why_released: str
    warning: str


class HoldList(TypedDict):
    holds: list[HoldRow]


def hold_row(hold: Hold) -> HoldRow:
    return row_of(
        HoldRow,
        hold,
        offsets={str(number): offset for number, offset in sorted(hold.offsets.items())},
        state="holding" if hold.is_holding else "released",
    )


def list_holds(call: Call) -> HoldList:
    described = call.described_topics()
    found = [each for each in call.broker.holds.all() if each.topic in described]
    return {"holds": [hold_row(each) for each in found]}


def get_hold(call: Call) -> HoldRow:
    return hold_row(described_hold(call))


def described_hold(call: Call) -> Hold:
    name = call.path["hold"]
    found = call.broker.holds.get(name)
    if found.topic not in call.described_topics():
        raise ResourceUnknown(f"there is no export hold {name!r}")
    return found


async def put_hold(call: Call) -> HoldRow:
    name, body = checked_name(call.path["hold"]), call.body
    check_readable(call, [body["topic"]])
    known = {each.name: each for each in call.broker.holds.all()}.get(name)
    if known is None or known.topic not in call.described_topics():
        check_new_name(call, name)
    if known is not None:
        check_readable(call, [described_hold(call).topic])
    topic = call.broker.topics.named(body["topic"])
    offsets = {partition_of(text, len(topic.logs)): at for text, at in body["offsets"].items()}
    check_alone(call, topic, offsets)
    most = bytes_for(call, known)
    hold = Hold(name, topic.name, offsets, most, time.time_ns() // 1_000_000)
    await asyncio.to_thread(call.broker.holds.put, hold)
    return hold_row(hold)


def bytes_for(call: Call, known: Hold | None) -> int:
    """Who may read a topic, and is no operator, keeps no more than the setting allows, or than
    somebody has allowed this hold."""
    usual = call.process.config.export.hold_bytes
    wanted: int = call.body.get("max_bytes", usual)
    if call.identity.may(OPERATOR):
        return wanted
    return min(wanted, max(usual, known.max_bytes if known is not None else 0))


def check_alone(call: Call, topic: Topic, partitions: Iterable[int]) -> None:
    """Each replica deletes by itself what is old: a hold at one broker keeps nothing when another
    one leads."""
    us, members = call.broker.node_id, call.broker.members
    others = {each: [*members.placement(topic, each).replicas] for each in partitions}
    if shared := {each: found for each, found in others.items() if {*found} - {us}}:
        partition, found = next(iter(shared.items()))
        raise Refused(
            ErrorCode.POLICY_VIOLATION,
            f"{topic.name}-{partition} is on brokers {found}, each of which deletes by retention "
            "for itself: a hold cannot keep its records. Set retention.ms and retention.bytes of "
            "the topic by the longest time that an export may be late",
        )


def partition_of(text: str, count: int) -> int:
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII) or int(text) >= count:
        raise RequestInvalid(f"offsets: got partition {text[:20]!r}, wanted 0 to {count - 1}")
    return int(text)


async def delete_hold(call: Call) -> None:
    hold = described_hold(call)
    check_readable(call, [hold.topic])
    await asyncio.to_thread(call.broker.holds.delete, hold.name)


ROUTES = [
    get(
        "/holds",
        list_holds,
        HoldList,
        "The retention holds for exports.",
        prefix=PREFIX,
        rights=(),
        asks="only those with DESCRIBE on the topic",
    ),
    get(
        "/holds/{hold}",
        get_hold,
        HoldRow,
        "One retention hold.",
        prefix=PREFIX,
        rights=(),
        asks="DESCRIBE on its topic, else 404",
    ),
    put(
        "/holds/{hold}",
        put_hold,
        HoldRow,
        "Keep records at or after these offsets, up to a number of bytes beyond retention.",
        body=HoldBody,
        prefix=PREFIX,
        rights=(READ_SOME_TOPIC,),
        asks="READ on the topic",
    ),
    delete(
        "/holds/{hold}",
        delete_hold,
        None,
        "End a retention hold.",
        prefix=PREFIX,
        rights=(READ_SOME_TOPIC,),
        asks="READ on its topic",
    ),
]
