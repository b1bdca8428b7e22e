"""Topics over REST: list, describe, create, change, empty, delete."""

from __future__ import annotations

import asyncio
import time
from typing import Any, TypedDict, cast

from typing_extensions import NotRequired

from appliance._log import Log
from appliance.access.acls import CLUSTER_NAME, Operation
from appliance.admin.config_rows import Config, plain_texts, topic_config_rows
from appliance.admin.partition_logs import PartitionRow, partition_row
from appliance.admin.partition_snapshot import Traffic
from appliance.admin.rights import (
    ALTER_TOPIC,
    ALTER_TOPIC_CONFIGS,
    CLUSTER,
    CREATE_CLUSTER,
    CREATE_SOME_TOPIC,
    DELETE_TOPIC,
    DESCRIBE_TOPIC,
    TOPIC,
)
from appliance.admin.route import ADMIN, Call, Param, delete, get, patch, post
from appliance.admin.topic_lookup import topic_of
from appliance.broker.broker import Broker
from appliance.broker.partition_leaders import EARLIEST
from appliance.config.config_key import changes_to
from appliance.config.config_words import in_words
from appliance.errors import Refused
from appliance.protocol import ErrorCode
from appliance.storage._log_metrics import LogFacts, log_facts
from appliance.topics.deleted_everywhere import await_start
from appliance.topics.known_end import check_end_is_known, check_led
from appliance.topics.topic import DEFAULT, Topic, check_own

FLUSH_SECONDS_MAX = 30.0  # to empty a topic, unsynced records must become durable within this time
EMPTIED_S = 30.0  # the same of followers; by then one that is silent is not in sync any more


class TopicRow(TypedDict):
    name: str
    id: str
    is_internal: bool
    partitions: int
    segments: int
    size_bytes: int
    records: int  # offsets from start to end; compaction and transactions leave fewer records
    last_write_ms: int | None  # largest timestamp of a record
    received_bytes_per_s: float
    received_records_per_s: float
    sent_bytes_per_s: float
    unflushed_bytes: int
    unflushed_age_ms: int
    cleanup_policy: str
    retention_ms: int
    retention_bytes: int
    kept: str  # the three in words: compacted, 7 d or 1 GiB
    created_ms: int
    failed: int  # partitions that refuse writes
    unserved: dict[str, str]  # the reason by unopened partition; sums exclude them


class TopicList(TypedDict):
    total: int  # before `limit`
    topics: list[TopicRow]
    unavailable: dict[str, str]  # the reason by topic with a partition that is not served


class TopicAnswer(TopicRow):
    is_replicated: bool
    elsewhere: int  # partitions that this broker has no replica of
    partition_rows: list[PartitionRow]
    configs: list[Config]  # empty without DESCRIBE_CONFIGS
    allowed: list[str]  # operations of who asks


class NewTopic(TypedDict):
    name: str
    partitions: NotRequired[int]
    replication_factor: NotRequired[int]  # of a cluster; else it is 1
    configs: NotRequired[dict[str, str]]


class TopicChange(TypedDict):
    partitions: NotRequired[int]
    configs: NotRequired[dict[str, str | None]]  # None: restores the broker's default


class Emptied(TypedDict):
    topic: str
    partitions: list[dict[str, int]]


async def list_topics(call: Call) -> TopicList:
    rows, described = await rows_of(call), call.described_topics()
    text, order = call.params["q"].lower(), call.params["order"]
    found = [
        each
        for each in rows
        if text in each["name"].lower() and (call.params["internal"] or not each["is_internal"])
    ]
    is_downward = order.startswith("-")
    key = order.removeprefix("-")
    # a TypedDict's key must be a literal, for mypy
    values = {id(row): cast(dict[str, Any], row)[key] for row in found}
    found.sort(key=lambda row: (values[id(row)] is not None, values[id(row)]), reverse=is_downward)
    first = call.params["offset"]
    return {
        "total": len(found),
        "topics": found[first : first + call.params["limit"]],
        "unavailable": {
            topic.name: "; ".join(f"partition {n}: {why}" for n, why in topic.unserved.items())
            for topic in call.broker.topics.values()
            if topic.unserved and topic.name in described
        },
    }


async def rows_of(call: Call) -> list[TopicRow]:
    broker, taken = call.broker, await call.survey.take()
    found, described = [], call.described_topics()
    for number, (name, facts) in enumerate(taken.facts.items()):
        topic = broker.topics.get(name)
        if topic is not None and name in described:  # None: deleted meanwhile
            found.append(topic_row(broker, topic, facts, taken.rates[name]))
        if number % 100 == 99:
            await asyncio.sleep(0)
    return found


def topic_row(broker: Broker, topic: Topic, facts: list[LogFacts], rate: Traffic) -> TopicRow:
    last = max((each.largest_timestamp for each in facts), default=-1)
    policy, kept_ms, kept_bytes = (
        broker.configs.of_topic(topic.name, each)
        for each in ("cleanup.policy", "retention.ms", "retention.bytes")
    )
    return {
        "name": topic.name,
        "id": str(topic.id),
        "is_internal": topic.is_internal,
        "partitions": len(topic.logs),
        "segments": sum(each.segments for each in facts),
        "size_bytes": sum(each.size for each in facts),
        "records": sum(each.log_end_offset - each.log_start_offset for each in facts),
        "last_write_ms": last if last >= 0 else None,
        "received_bytes_per_s": rate.bytes_in,
        "received_records_per_s": rate.records_in,
        "sent_bytes_per_s": rate.bytes_out,
        "unflushed_bytes": sum(each.unflushed_bytes for each in facts),
        "unflushed_age_ms": max((each.unflushed_age_ms for each in facts), default=0),
        "cleanup_policy": policy,
        "retention_ms": int(kept_ms),
        "retention_bytes": int(kept_bytes),
        "kept": kept_in_words(policy, kept_ms, kept_bytes),
        "created_ms": topic.created_ms,
        "failed": sum(not each.is_alive for each in facts),
        "unserved": {str(number): why for number, why in topic.unserved.items()},
    }


def kept_in_words(policy: str, ms: str, size: str) -> str:
    limits = [
        in_words(name, text)
        for name, text in (("retention.ms", ms), ("retention.bytes", size))
        if int(text) >= 0
    ]
    policies = policy.split(",")
    words = ["compacted"] if "compact" in policies else []
    if "delete" in policies or not words:
        words.append(" or ".join(limits) if limits and "delete" in policies else "for ever")
    return ", ".join(words)


async def get_topic(call: Call) -> TopicAnswer:
    return await answer_of(call, call.path["topic"])


async def answer_of(call: Call, name: str) -> TopicAnswer:
    rates = (await call.survey.take()).rates
    broker, topic = call.broker, call.broker.topics.named(name)
    logs = topic.open_logs
    facts = log_facts(logs)
    row = topic_row(broker, topic, facts, rates.get(topic.name, Traffic()))
    pairs = zip(logs, facts, strict=True)
    sees_configs = call.rights.may(Operation.DESCRIBE_CONFIGS, TOPIC, topic.name)
    return {
        **row,
        "is_replicated": topic.is_replicated,
        "elsewhere": 0 if topic.here is None else len(topic.logs) - len(topic.here),
        "partition_rows": [partition_row(log.partition, log, each) for log, each in pairs],
        "configs": topic_config_rows(broker, topic) if sees_configs else [],
        "allowed": call.rights.allowed(TOPIC, topic.name),
    }


async def create_topic(call: Call) -> TopicAnswer:
    body: NewTopic = call.body
    if not call.rights.may(Operation.CREATE, CLUSTER, CLUSTER_NAME):
        call.rights.check(Operation.CREATE, TOPIC, body["name"])
    partitions, factor = body.get("partitions", DEFAULT), body.get("replication_factor", DEFAULT)
    configs = plain_texts(body.get("configs", {}))
    await call.broker.topics.check_new(body["name"])
    call.broker.members.check_factor(body["name"], factor)
    await call.broker.topics.create(body["name"], partitions, configs, factor)
    return await answer_of(call, body["name"])


async def change_topic(call: Call) -> TopicAnswer:
    broker, name = call.broker, call.path["topic"]
    body: TopicChange = call.body
    if "configs" in body:
        call.rights.check(Operation.ALTER_CONFIGS, TOPIC, name)
    if "partitions" in body:
        call.rights.check(Operation.ALTER, TOPIC, name)
    await broker.topics.sought(name)
    if changes := changes_to(plain_texts(body.get("configs", {}))):
        check_own(name)
        await broker.configs.alter_topic(name, changes)
    if "partitions" in body:
        await broker.topics.create_partitions(name, body["partitions"])
    return await answer_of(call, name)


async def delete_topic(call: Call) -> None:
    await call.broker.topics.delete(call.path["topic"])


async def empty_topic(call: Call) -> Emptied:
    topic = topic_of(call)
    check_own(topic.name)
    policy = call.broker.configs.of_topic(topic.name, "cleanup.policy")
    if "delete" not in policy.split(","):
        raise Refused(
            ErrorCode.POLICY_VIOLATION,
            f"{topic.name} has cleanup.policy {policy}, wanted one with delete: compacted records "
            "are kept until their keys are deleted",
        )
    leaders, numbers = call.broker.leaders, range(len(topic.logs))
    elsewhere = leaders.led_elsewhere(topic, numbers)  # refused before anything is deleted
    before = await leaders.offsets(topic, dict.fromkeys(elsewhere, EARLIEST))
    logs = [topic.log(each) for each in numbers if each not in elsewhere]
    before |= {log.partition: log.log_start_offset for log in logs}
    ends = await asyncio.to_thread(empty, logs)
    until_s = time.monotonic() + EMPTIED_S
    for log, end in zip(logs, ends, strict=True):
        await await_start(log, end, until_s)
    after = await leaders.delete_all(topic, elsewhere)
    after |= {log.partition: log.log_start_offset for log in logs}
    return {
        "topic": topic.name,
        "partitions": [
            {"partition": each, "from_offset": before[each], "to_offset": after[each]}
            for each in numbers
        ],
    }


def empty(logs: list[Log]) -> list[int]:
    """Up to which offsets."""
    for log in logs:
        check_end_is_known(log)
    ends = []
    for log in logs:
        log.ask_commit()
    for log in logs:
        if log.durable_offset < log.log_end_offset:
            log.flush(FLUSH_SECONDS_MAX)
        ends.append(log.high_watermark)
        log.delete_before(ends[-1])
        check_led(log)
    return ends


ORDERS = (
    "name",
    "partitions",
    "size_bytes",
    "records",
    "last_write_ms",
    "received_bytes_per_s",
    "sent_bytes_per_s",
)

ROUTES = [
    get(
        "/topics",
        list_topics,
        TopicList,
        "Topics with sizes, rates and retention.",
        version=lambda call: call.survey.version,
        params=(
            Param("q", str, "Only names that contain this text.", ""),
            Param("internal", bool, "Include the broker's own topics.", False),
            Param(
                "order",
                str,
                "Column to sort by; - in front means descending.",
                "name",
                choices=(*ORDERS, *(f"-{each}" for each in ORDERS)),
            ),
            Param("offset", int, "Number to skip.", 0, minimum=0),
            Param("limit", int, "Largest number.", 1000, minimum=1, maximum=10_000),
        ),
        rights=(),
        asks="only topics with DESCRIBE",
    ),
    post(
        "/topics",
        create_topic,
        TopicAnswer,
        "Make a topic.",
        body=NewTopic,
        status=201,
        rights=(),
        either=(CREATE_SOME_TOPIC, CREATE_CLUSTER),
    ),
    get(
        "/topics/{topic}",
        get_topic,
        TopicAnswer,
        "One topic, its partitions and its configs.",
        rights=(DESCRIBE_TOPIC,),
    ),
    patch(
        "/topics/{topic}",
        change_topic,
        TopicAnswer,
        "Change configs, add partitions.",
        body=TopicChange,
        rights=(DESCRIBE_TOPIC,),
        either=(ALTER_TOPIC_CONFIGS, ALTER_TOPIC),
        asks="each for what it changes",
    ),
    delete(
        "/topics/{topic}",
        delete_topic,
        None,
        "Delete a topic with all its records.",
        role=ADMIN,
        rights=(DELETE_TOPIC,),
    ),
    post(
        "/topics/{topic}/empty",
        empty_topic,
        Emptied,
        "Delete all records, keep the topic.",
        role=ADMIN,
        rights=(DELETE_TOPIC,),
    ),
]
