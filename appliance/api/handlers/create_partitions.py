"""CreatePartitions 0-3: increases the number of a topic's partitions. The response has every
requested topic.

Rights: ALTER on the topic.

Left out: fewer partitions, which would lose records (INVALID_PARTITIONS, as in Kafka); the timeout,
because the response follows the change.
"""

from __future__ import annotations

from collections import Counter

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_topic
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError, Refused
from appliance.protocol import ErrorCode
from appliance.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from appliance.topics.topic import check_name
from appliance.topics.topics import MorePartitions

KEY = 37
VERSIONS = (0, 3)

SHOWN_MAX = 10  # assignments, and brokers of each, that an error repeats

Asked = CreatePartitionsRequest.CreatePartitionsTopic
Answer = CreatePartitionsResponse.CreatePartitionsTopicResult


async def handle(
    broker: Broker, request: CreatePartitionsRequest, call: Call
) -> CreatePartitionsResponse:
    times = Counter(each.name for each in request.topics)
    asked = [*{each.name: each for each in request.topics}.values()]
    answers = [Answer(name=each.name) for each in asked]
    wanted: list[tuple[Answer, MorePartitions]] = []
    for each, answer in zip(asked, answers, strict=True):
        try:
            if times[each.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, f"{each.name} is named twice")
            check_topic(call, Operation.ALTER, each.name)
            await _check(broker, each)
        except ApplianceError as error:
            _refuse(answer, error)
            continue
        replicas = [holder.broker_ids for holder in each.assignments or ()]
        wanted.append((answer, MorePartitions(each.name, each.count, replicas)))
    if not request.validate_only:
        failed = await broker.topics.create_all_partitions([more for _, more in wanted])
        for (answer, _), why in zip(wanted, failed, strict=True):
            if why is not None:
                _refuse(answer, why)
    return CreatePartitionsResponse(results=answers)


def _refuse(answer: Answer, error: ApplianceError) -> None:
    answer.error_code, answer.error_message = error.kafka_code, str(error)


async def _check(broker: Broker, asked: Asked) -> None:
    if asked.name not in broker.topics:
        check_name(asked.name)
    topic = await broker.topics.check_more(asked.name, asked.count)
    more = asked.count - len(topic.logs)
    if asked.assignments is not None:
        holders = [each.broker_ids for each in asked.assignments]
        # nothing is made for `more`: it is what the client says, up to 2^31 - 1
        if len(holders) != more:
            shown = ", ".join(str(each[:SHOWN_MAX]) for each in holders[:SHOWN_MAX])
            raise Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{asked.name}: wanted {more} assignments, got {len(holders)}: {shown}",
            )
        for number, each in enumerate(holders, len(topic.logs)):
            broker.members.check_replicas(asked.name, number, each)
