"""Dead letters of a run: records that did not parse, where they are in the log, and why."""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

from appliance.access.acls import Operation
from appliance.admin.export_rights import described_export, names_of
from appliance.admin.rights import TOPIC
from appliance.admin.route import Call, get
from appliance.broker.broker import Broker
from appliance.catalog import kafka_uuid
from appliance.topics.topic import Topic


class Letter(TypedDict):
    topic: str
    partition: int
    offset: int
    why: str
    is_in_log: bool  # else only the target's folder _dead_letter has it


class LetterList(TypedDict):
    total: int  # of the run; `letters` are the first ones
    letters: list[Letter]


async def list_letters(call: Call) -> LetterList:
    definition, _ = described_export(call)
    for name in sorted(names_of(definition, call.broker)):
        call.rights.check(Operation.READ, TOPIC, name)
    run = await asyncio.to_thread(call.broker.exports.run, definition["name"], call.path["run"])
    letters = [letter_of(each, call.broker) for each in readable(call, run.get("letters", []))]
    counted = sum(each.get("dead_letters", 0) for each in readable(call, run.get("partitions", [])))
    return {"total": max(counted, len(letters)), "letters": letters}


def readable(call: Call, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A run may be of an older definition, with other topics."""
    return [each for each in found if call.rights.may(Operation.READ, TOPIC, each["topic"])]


def letter_of(given: dict[str, Any], broker: Broker) -> Letter:
    """A partition that another broker has is asked for there: that its record is in the log is the
    better guess."""
    topic, number = broker.topics.get(given["topic"]), given["partition"]
    is_in_log = topic is not None and number < len(topic.logs) and is_same(topic, given)
    if topic is not None and is_in_log and (log := topic.logs[number]) is not None:
        is_in_log = log.log_start_offset <= given["offset"]
    return {
        "topic": given["topic"],
        "partition": number,
        "offset": given["offset"],
        "why": given["why"],
        "is_in_log": is_in_log,
    }


def is_same(topic: Topic, given: dict[str, Any]) -> bool:
    """A report of an older version does not say which topic of that name it is of."""
    return given.get("topic_id") in (None, kafka_uuid.text_of(topic.id))


ROUTES = [
    get(
        "/exports/{export}/runs/{run}/dead-letters",
        list_letters,
        LetterList,
        "The first records of a run that did not parse, and why.",
        reads_messages=True,
        rights=(),
        asks="READ on all its topics",
    ),
]
