"""DeleteTopics 1-6: deletes topics with all their records, by name or, in version 6, by id.

The name is free again when the response arrives; committed offsets of the topic are deleted, also
those of open transactions. What cannot be deleted just then, files or offsets, is tried again, also
by the next start; on one box the name is free after that, and until then new topics of that name
get KAFKA_STORAGE_ERROR. An error of one topic does not stop others. Internal topics stay:
INVALID_TOPIC_EXCEPTION.

Rights: DELETE on the topic. Who names an id is told the name only with DESCRIBE.

Left out: the timeout, because the response follows the deletion.
"""

from __future__ import annotations

from collections import Counter

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import TOPIC, may_cluster, may_topic, refusal
from appliance.api.handlers.call import Call
from appliance.api.handlers.partition_lookup import find_topic, find_topic_of_id
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError, Refused
from appliance.protocol import NO_UUID, ErrorCode
from appliance.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

KEY = 20
VERSIONS = (1, 6)

Asked = DeleteTopicsRequest.DeleteTopicState
Answer = DeleteTopicsResponse.DeletableTopicResult


async def handle(broker: Broker, request: DeleteTopicsRequest, call: Call) -> DeleteTopicsResponse:
    asked = request.topics if call.version >= 6 else [Asked(name) for name in request.topic_names]
    times = Counter((each.name, each.topic_id) for each in asked)
    return DeleteTopicsResponse(
        responses=[
            await _delete(broker, call, Asked(name, topic_id), count > 1)
            for (name, topic_id), count in times.items()
        ]
    )


async def _delete(broker: Broker, call: Call, asked: Asked, is_twice: bool) -> Answer:
    answer = Answer(name=asked.name, topic_id=asked.topic_id)
    try:
        if is_twice:
            raise Refused(ErrorCode.INVALID_REQUEST, "the topic is named twice")
        name = await _name(broker, asked)
        _check_rights(broker, call, name, answer)
        if name in broker.topics:
            answer.name, answer.topic_id = name, broker.topics[name].id
        await broker.delete_topic(name)
    except ApplianceError as error:
        answer.error_code, answer.error_message = error.kafka_code, str(error)
    return answer


def _check_rights(broker: Broker, call: Call, name: str, answer: Answer) -> None:
    """Who may not describe a topic learns nothing of it, and who may learns its name."""
    if _may(call, Operation.DELETE, name):
        return
    if _may(call, Operation.DESCRIBE, name):
        if answer.name is not None:
            find_topic(broker, name)
        answer.name = name
    raise refusal(call, Operation.DELETE, TOPIC, answer.name or "")


def _may(call: Call, operation: Operation, name: str) -> bool:
    """DELETE on the cluster, which no document names, is enough for all, as in Kafka."""
    return may_cluster(call, Operation.DELETE) or may_topic(call, operation, name)


async def _name(broker: Broker, asked: Asked) -> str:
    if (asked.name is None) == (asked.topic_id == NO_UUID):
        raise Refused(ErrorCode.INVALID_REQUEST, "wanted either the name or the id of a topic")
    if asked.name is not None:
        return asked.name
    # also of one that is not served
    name = await broker.topics.name_sought(asked.topic_id)
    return name or find_topic_of_id(broker, asked.topic_id).name
