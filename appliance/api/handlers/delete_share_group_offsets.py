"""DeleteShareGroupOffsets 0: deletes the state of a share group without members in some topics.

Afterwards the group's next member starts at `share.auto.offset.reset`. On disk before the response.
A topic without a state of the group gets UNKNOWN_TOPIC_OR_PARTITION.

Rights: DELETE on the group, READ on the topic.

Left out: nothing.
"""

from __future__ import annotations

from uuid import UUID

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import allowed_topic, check_group
from appliance.api.handlers.call import Call
from appliance.api.handlers.partition_lookup import check_group_id
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError, Refused
from appliance.protocol import ErrorCode
from appliance.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from appliance.share.group import ShareGroup

KEY = 92
VERSIONS = (0, 0)

Answer = DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic


async def handle(
    broker: Broker, request: DeleteShareGroupOffsetsRequest, call: Call
) -> DeleteShareGroupOffsetsResponse:
    check_group(call, Operation.DELETE, request.group_id)
    answers = [Answer(topic_name=each.topic_name) for each in request.topics]
    check_group_id(request.group_id)
    group = broker.share_groups.get(request.group_id)
    group.check_empty()
    good = _good(broker, call, group, answers)
    errors = await broker.share_groups.delete_offsets(request.group_id, good.keys())
    for topic_id, failure in errors.items():
        _fail(good[topic_id], failure)
    return DeleteShareGroupOffsetsResponse(responses=answers)


def _good(
    broker: Broker, call: Call, group: ShareGroup, answers: list[Answer]
) -> dict[UUID, Answer]:
    good: dict[UUID, Answer] = {}
    for answer in answers:
        try:
            answer.topic_id = allowed_topic(
                broker, call, Operation.READ, answer.topic_name
            ).id
            if answer.topic_id not in group.shared.topics:
                raise Refused(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"group {group.id} has no place in topic {answer.topic_name}",
                )
            good[answer.topic_id] = answer
        except ApplianceError as error:
            _fail(answer, error)
    return good


def _fail(answer: Answer, error: ApplianceError) -> None:
    answer.error_code, answer.error_message = error.kafka_code, str(error)
