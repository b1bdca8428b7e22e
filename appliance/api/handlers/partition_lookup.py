"""Looks up the log of a topic and partition in a request, or the error for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

from appliance._log import Log
from appliance.broker.broker import Broker
from appliance.errors import Refused
from appliance.groups.consumer_records import rows
from appliance.groups.handover import Places
from appliance.protocol import ErrorCode
from appliance.topics.topic import Topic, check_name

NO_EPOCH = -1

Row = TypeVar("Row")


def find_topic(broker: Broker, name: str) -> Topic:
    if name in broker.topics:
        return broker.topics[name]
    check_name(name)
    raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")


def find_topic_of_id(broker: Broker, topic_id: UUID) -> Topic:
    topic = broker.topics.of_id(topic_id)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with id {topic_id}")
    return topic


def check_group_id(group_id: str) -> None:
    if not group_id:
        raise Refused(ErrorCode.INVALID_GROUP_ID, "the group's id is empty")


def check_partition(topic: Topic, partition: int) -> None:
    """That the topic has it, served or not: offsets and transactions name what is read later."""
    if not 0 <= partition < len(topic.logs):
        raise Refused(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"{topic.name} has no partition {partition}, only {len(topic.logs)} of them",
        )


def find_log(topic: Topic, partition: int, current_leader_epoch: int = NO_EPOCH) -> Log:
    """`current_leader_epoch` is what the client believes the partition's epoch to be."""
    check_partition(topic, partition)
    log = topic.log(partition)
    if log.role not in ("alone", "leader"):
        raise Refused(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"{log.name}: node {log.leader} leads it since epoch {log.election}",
        )
    if current_leader_epoch not in (NO_EPOCH, log.leader_epoch):
        is_behind = current_leader_epoch < log.leader_epoch
        raise Refused(
            ErrorCode.FENCED_LEADER_EPOCH if is_behind else ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"{log.name}: the client believes in leader epoch {current_leader_epoch}, "
            f"ours is {log.leader_epoch}",
        )
    return log


def leader_epoch_at(log: Log, offset: int) -> int:
    """The leader epoch in which the record at `offset` was, or will be, written."""
    epoch = log.leader_epoch
    while True:
        before, end_offset = log.end_offset_for_epoch(epoch - 1)
        if before < 0 or offset >= end_offset:
            return epoch
        epoch = before


def named_rows(
    broker: Broker, places: Places, row: Callable[[UUID, str, list[int]], Row]
) -> list[Row]:
    """A row for each topic, without those that are no more: they have no name."""
    name_of = broker.topics.name_of
    found = rows(places, lambda topic_id, indexes: (topic_id, name_of(topic_id), indexes))
    return [row(topic_id, name, indexes) for topic_id, name, indexes in found if name is not None]
