"""OffsetCommit 2-10: the progress of a group, on disk before the response.

Concurrent commits share one wait for the disk. A member must be of the group's current generation.
A commit without member and generation, of an administrator or of a consumer with assigned
partitions, needs a group without members. Version 10 names topics by their ids. Offsets do not
expire, unless `offsets.retention.minutes` is set, or, up to version 4, the request sets an expiry.
Offsets of a group that never had a member expire `offsets.memberless.retention.minutes` after their
last commit. A member of a group of the newer protocol has an epoch as its generation, and needs
version 9.

Rights: READ on the group and on the topic.

Left out: nothing.
"""

from __future__ import annotations

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import allowed_topic, allowed_topic_of_id, check_group
from appliance.api.handlers.call import Call, Later
from appliance.api.handlers.partition_lookup import check_partition
from appliance.broker.broker import Broker
from appliance.config import LONG_MAX
from appliance.errors import ApplianceError, Refused
from appliance.groups.consumer_group import ConsumerGroup
from appliance.groups.group import Group
from appliance.groups.records import NEVER, OffsetCommitValue, Partition
from appliance.groups.streams.group import StreamsGroup
from appliance.protocol import ErrorCode
from appliance.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from appliance.topics.topic import Topic

KEY = 8
VERSIONS = (2, 10)

FIRST_WITH_EPOCH = 9
FIRST_BY_ID = 10
NO_RETENTION = -1

AskedTopic = OffsetCommitRequest.OffsetCommitRequestTopic
Answer = OffsetCommitResponse.OffsetCommitResponsePartition
AnswerTopic = OffsetCommitResponse.OffsetCommitResponseTopic
Values = dict[Partition, OffsetCommitValue]


def handle(broker: Broker, request: OffsetCommitRequest, call: Call) -> Later:
    later = Later()
    values: Values = {}
    good: list[Answer] = []  # answered as the commit is
    version = call.version
    response = OffsetCommitResponse(
        topics=[
            _topic(broker, each, request, call, values, good) for each in request.topics
        ]
    )

    def done(error: ApplianceError | None) -> None:
        if error is not None:
            for each in good:
                each.error_code = error.kafka_code
        later.give(response)

    if not values:
        later.give(response)
        return later
    member = (
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
    )
    try:
        if version < FIRST_WITH_EPOCH:
            _check_older(broker, request, version)
        broker.groups.commits.commit(
            request.group_id, member, values, call.received_ms, done, call.now_ms
        )
    except ApplianceError as error:
        done(error)
    return later


def _check_older(broker: Broker, request: OffsetCommitRequest, version: int) -> None:
    group = broker.groups.table.groups.get(request.group_id)
    if group is None or isinstance(group, Group) or group.is_dead:
        return
    is_consumer = isinstance(group, ConsumerGroup) and group.is_newer_member(request.member_id)
    if is_consumer or (isinstance(group, StreamsGroup) and request.member_id in group.members):
        raise Refused(
            ErrorCode.UNSUPPORTED_VERSION,
            f"group {request.group_id} is of the newer protocol: got version {version} of "
            f"OffsetCommit, wanted {FIRST_WITH_EPOCH} or later",
        )


def _topic(
    broker: Broker,
    asked: AskedTopic,
    request: OffsetCommitRequest,
    call: Call,
    values: Values,
    good: list[Answer],
) -> AnswerTopic:
    """Fills in what is to be committed, and the answers that wait for it."""
    topic = _find(broker, asked, request.group_id, call)
    retention_ms, now_ms = request.retention_time_ms, call.now_ms
    expiry = NEVER if retention_ms == NO_RETENTION else min(now_ms + retention_ms, LONG_MAX)
    answers = []
    for each in asked.partitions:
        index, metadata = each.partition_index, each.committed_metadata or ""
        answer = Answer(index)
        answers.append(answer)
        try:
            if isinstance(topic, ApplianceError):
                raise topic
            check_partition(topic, index)
            if metadata:
                check_size(broker, metadata)
        except ApplianceError as error:
            answer.error_code = error.kafka_code
            continue
        values[Partition(topic.name, index)] = OffsetCommitValue(
            each.committed_offset, each.committed_leader_epoch, metadata, now_ms, expiry
        )
        good.append(answer)
    return AnswerTopic(asked.name, asked.topic_id, answers)


def _find(
    broker: Broker, asked: AskedTopic, group_id: str, call: Call
) -> Topic | ApplianceError:
    try:
        check_group(call, Operation.READ, group_id)
        if call.version >= FIRST_BY_ID:
            return allowed_topic_of_id(broker, call, Operation.READ, asked.topic_id)
        return allowed_topic(broker, call, Operation.READ, asked.name)
    except ApplianceError as error:
        return error


def check_size(broker: Broker, metadata: str) -> None:
    size, most = len(metadata.encode()), broker.config.groups.metadata_max_bytes
    if size > most:
        raise Refused(
            ErrorCode.OFFSET_METADATA_TOO_LARGE,
            f"got {size} bytes of metadata, wanted at most {most} (offset.metadata.max.bytes)",
        )
