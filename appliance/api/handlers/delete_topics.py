"""DeleteTopics 1-6: deletes topics with all their records, by name or, in version 6, by id.

The name is free again when the response arrives; committed offsets of the topic are deleted, also
those of open transactions. What cannot be deleted just then, files or offsets, is tried again, also
by the next start; on one box the name is free after that, and until then new topics of that name
get KAFKA_STORAGE_ERROR. An error of one topic does not stop others, and what they wait for at the
disk they wait for together. Internal topics stay: INVALID_TOPIC_EXCEPTION.

Rights: DELETE on the topic. Who names an id is told the name only with DESCRIBE.

Left out: the timeout, because the response follows the deletion.
"""

from __future__ import annotations

from collections import Counter
from uuid import UUID

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
    answered: list[Answer] = []
    named: dict[str, list[Answer]] = {}
    ids: dict[str, UUID | None] = {}  # None: asked for by name, whichever topic has it by then
    for (name, topic_id), count in times.items():
        answer = Answer(name=name, topic_id=topic_id)
        answered.append(answer)
        try:
            found = await _sought(broker, call, answer)
            ids[found] = None if topic_id == NO_UUID else topic_id
            named.setdefault(found, []).extend([answer] * count)
        except ApplianceError as error:
            _refuse(answer, error)
    for answers in named.values():
        for answer in answers if len(answers) > 1 else ():
            _refuse(answer, Refused(ErrorCode.INVALID_REQUEST, "the topic is named twice"))
    once = {name: answers[0] for name, answers in named.items() if len(answers) == 1}
    wanted = {name: ids[name] for name in once}
    for name, why in (await broker.topics.delete_all(wanted)).items():
        _refuse(once[name], why)
    return DeleteTopicsResponse(responses=answered)


def _refuse(answer: Answer, error: ApplianceError) -> None:
    answer.error_code, answer.error_message = error.kafka_code, str(error)


async def _sought(broker: Broker, call: Call, answer: Answer) -> str:
    name = await _name(broker, answer)
    _check_rights(broker, call, name, answer)
    if name in broker.topics:
        answer.name, answer.topic_id = name, broker.topics[name].id
    return name


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


async def _name(broker: Broker, asked: Answer) -> str:
    if (asked.name is None) == (asked.topic_id == NO_UUID):
        raise Refused(ErrorCode.INVALID_REQUEST, "wanted either the name or the id of a topic")
    if asked.name is not None:
        return asked.name
    # also of one that is not served
    name = await broker.topics.name_sought(asked.topic_id)
    return name or find_topic_of_id(broker, asked.topic_id).name
