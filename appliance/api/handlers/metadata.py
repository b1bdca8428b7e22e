"""Metadata 0-13: the broker, and topics with their partitions; creates missing topics.

All topics: a null list, in version 0 an empty one. None: an empty list. From version 12 on a topic
can be requested by its id. A missing topic is created with the broker's defaults if the client
allows it (before version 4 always) and `auto.create.topics.enable` is on; the response then has the
new topic, while Kafka's has an error for a retry. One request creates at most
`max.topics.per.request` topics; the others are unknown until the next request. Only the broker
creates internal topics. A partition that cannot be opened has no leader and an offline replica:
LEADER_NOT_AVAILABLE, so that clients retry.

Rights: DESCRIBE on the topic; who has none is told the same of a topic that is not there, and of
all topics gets those that it may describe. To create one, CREATE on it or on the cluster, too.

A broker of its own is the only one and leads all; of a cluster it tells what ZooKeeper has. While
a broker hands over what it leads, before it stops, the answer waits for the next leaders, up to
half a second.

Left out: nothing.
"""

from __future__ import annotations

import asyncio

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import (
    allowed_topic_of_id,
    check_topic,
    may_cluster,
    may_topic,
)
from appliance.api.handlers.authorized_operations import NOT_ASKED, on_cluster, on_topic
from appliance.api.handlers.call import Call
from appliance.api.handlers.partition_lookup import find_topic
from appliance.api.handlers.repeated_items import distinct
from appliance.broker.broker import Broker
from appliance.broker.members import NOBODY
from appliance.errors import ApplianceError, Refused
from appliance.protocol import NO_UUID, ErrorCode
from appliance.protocol.messages.metadata import MetadataRequest, MetadataResponse
from appliance.topics.topic import INTERNAL, Topic

KEY = 3
VERSIONS = (0, 13)

TURN_TOPICS = 500  # told in about 5 ms; then others have their turn on the event loop

Asked = MetadataRequest.MetadataRequestTopic
Answer = MetadataResponse.MetadataResponseTopic


async def handle(broker: Broker, request: MetadataRequest, call: Call) -> MetadataResponse:
    await broker.members.handed_over(_names(broker, request, call.version))
    answer = MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(*each)
            for each in broker.members.nodes(call.listener)
        ],
        cluster_id=broker.cluster_id,
        controller_id=broker.members.controller_id,
        topics=await _topics(broker, request, call),
    )
    if request.include_cluster_authorized_operations:
        answer.cluster_authorized_operations = on_cluster(call)
    if request.include_topic_authorized_operations:
        for each in answer.topics:
            each.topic_authorized_operations = (
                NOT_ASKED if each.error_code else on_topic(call, each.name or "")
            )
    return answer


def _names(broker: Broker, request: MetadataRequest, version: int) -> set[str] | None:
    """None: all."""
    asked = request.topics
    if asked is None or (version == 0 and not asked):
        return None
    name_of = broker.topics.name_of
    names = (each.name if each.topic_id == NO_UUID else name_of(each.topic_id) for each in asked)
    return {each for each in names if each is not None}


async def _topics(broker: Broker, request: MetadataRequest, call: Call) -> list[Answer]:
    asked, version = request.topics, call.version
    if asked is None or (version == 0 and not asked):
        return [
            _describe(broker, topic)
            for topic in broker.topics.values()
            if may_topic(call, Operation.DESCRIBE, topic.name)
        ]
    is_allowed = version < 4 or request.allow_auto_topic_creation
    may_create = is_allowed and broker.config.topics.auto_create
    left = broker.config.topics.per_request_max if may_create else 0
    found = []
    for each in distinct(asked, lambda each: (each.topic_id, each.name)):
        is_new = each.name is not None and each.name not in broker.topics
        found.append(await _topic(broker, each, call, left > 0))
        left -= is_new
        if len(found) % TURN_TOPICS == 0:
            await asyncio.sleep(0)
    return found


async def _topic(broker: Broker, asked: Asked, call: Call, may_create: bool) -> Answer:
    try:
        return _describe(broker, await _find(broker, asked, call, may_create))
    except ApplianceError as error:
        # the name can be null in the answer from version 12 on, not before
        name = asked.name if call.version >= 12 else asked.name or ""
        return Answer(error_code=error.kafka_code, name=name, topic_id=asked.topic_id)


async def _find(broker: Broker, asked: Asked, call: Call, may_create: bool) -> Topic:
    version = call.version
    if version < 12 and (asked.name is None or asked.topic_id != NO_UUID):
        raise Refused(
            ErrorCode.INVALID_REQUEST, f"topic ids begin with version 12, this is {version}"
        )
    if asked.topic_id != NO_UUID:
        return allowed_topic_of_id(broker, call, Operation.DESCRIBE, asked.topic_id)
    if asked.name is None:
        raise Refused(ErrorCode.INVALID_REQUEST, "a topic without name and id")
    check_topic(call, Operation.DESCRIBE, asked.name)
    if may_create and asked.name not in broker.topics and asked.name not in INTERNAL:
        if not may_cluster(call, Operation.CREATE):
            check_topic(call, Operation.CREATE, asked.name)
        await _create(broker, asked.name)
    return find_topic(broker, asked.name)


async def _create(broker: Broker, name: str) -> None:
    try:
        await broker.topics.create(name)
    except ApplianceError as error:
        # another client was faster: its topic is as good
        if error.kafka_code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


def _describe(broker: Broker, topic: Topic) -> Answer:
    return Answer(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[_partition(broker, topic, each) for each in range(len(topic.logs))],
    )


def _partition(
    broker: Broker, topic: Topic, index: int
) -> MetadataResponse.MetadataResponsePartition:
    found = broker.members.placement(topic, index)
    has_leader = found.leader != NOBODY
    return MetadataResponse.MetadataResponsePartition(
        error_code=ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=found.leader,
        leader_epoch=found.leader_epoch,
        replica_nodes=[*found.replicas],
        isr_nodes=[*found.isr],
        offline_replicas=[*found.offline],
    )
