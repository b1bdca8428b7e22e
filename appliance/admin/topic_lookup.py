"""The topic and the partition of a call; refuses missing ones, and another topic of that name."""

from __future__ import annotations

from http import HTTPStatus

from appliance._log import Log
from appliance.admin.guard import Denied
from appliance.admin.route import Call
from appliance.catalog import kafka_uuid
from appliance.errors import ApplianceError
from appliance.topics.topic import Topic


class PartitionUnknown(ApplianceError):
    kafka_code = 3


class TopicMadeAnew(Denied):
    """The offsets belong to another topic of that name."""

    def __init__(self, topic: Topic, meant: str) -> None:
        there = kafka_uuid.text_of(topic.id)
        super().__init__(
            HTTPStatus.CONFLICT,
            "inconsistent_topic_id",
            f"topic {topic.name} has id {there}, got {meant[:40]}: it was deleted and created "
            "again, and offsets of the old topic do not apply to it",
        )


def topic_of(call: Call) -> Topic:
    return call.broker.topics.named(call.path["topic"])


def check_meant(topic: Topic, topic_id: str | None) -> None:
    """None: the present topic."""
    if topic_id not in (None, kafka_uuid.text_of(topic.id)):
        raise TopicMadeAnew(topic, topic_id or "")


def log_of(call: Call) -> Log:
    return log_at(topic_of(call), call.path["partition"])


def log_at(topic: Topic, partition: int | str) -> Log:
    return topic.log(check_partition(topic, partition))


def check_partition(topic: Topic, partition: int | str) -> int:
    text, last = str(partition), len(topic.logs) - 1
    if not text.isascii() or not text.isdigit() or int(text) > last:
        raise PartitionUnknown(f"{topic.name}: got partition {text[:20]}, wanted 0 to {last}")
    return int(text)


async def readable(call: Call, topic: Topic, partition: int | str | None) -> list[Log]:
    """Of one partition or of all: each shows all that counts by now, or it is refused."""
    chosen = range(len(topic.logs)) if partition is None else [check_partition(topic, partition)]
    return await call.broker.leaders.readable(topic, chosen)
