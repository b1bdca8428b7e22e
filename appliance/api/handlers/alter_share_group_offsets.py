"""AlterShareGroupOffsets 0: sets the start offsets of a share group without members.

A missing group is created, so that its first member starts there. The states of later records, with
their deliveries and acknowledgements, are deleted. On disk before the response.

Rights: READ on the group and on the topic.

Left out: nothing.
"""

from __future__ import annotations

from uuid import UUID

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import allowed_topic, check_group
from appliance.api.handlers.call import Call
from appliance.api.handlers.partition_lookup import check_group_id, find_log
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError, Refused
from appliance.groups.handover import Place
from appliance.protocol import ErrorCode
from appliance.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)

KEY = 91
VERSIONS = (0, 0)

Asked = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition
Answer = AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition
TopicAnswer = AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic


async def handle(
    broker: Broker, request: AlterShareGroupOffsetsRequest, call: Call
) -> AlterShareGroupOffsetsResponse:
    check_group(call, Operation.READ, request.group_id)
    response = AlterShareGroupOffsetsResponse()
    offsets: dict[Place, int] = {}
    answers: dict[Place, Answer] = {}
    for topic in request.topics:
        row = TopicAnswer(topic_name=topic.topic_name)
        response.responses.append(row)
        for each in topic.partitions:
            answer = Answer(partition_index=each.partition_index)
            row.partitions.append(answer)
            try:
                row.topic_id = _check(broker, call, topic.topic_name, each)
            except ApplianceError as error:
                answer.error_code, answer.error_message = error.kafka_code, str(error)
            else:
                place = row.topic_id, each.partition_index
                offsets[place], answers[place] = each.start_offset, answer
    check_group_id(request.group_id)
    errors = await broker.share_groups.alter_offsets(request.group_id, offsets)
    for place, failure in errors.items():
        answers[place].error_code = failure.kafka_code
        answers[place].error_message = str(failure)
    return response


def _check(broker: Broker, call: Call, name: str, asked: Asked) -> UUID:
    topic = allowed_topic(broker, call, Operation.READ, name)
    find_log(topic, asked.partition_index)
    if asked.start_offset < 0:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"{name}-{asked.partition_index}: got offset {asked.start_offset}, wanted 0 or more",
        )
    return topic.id
