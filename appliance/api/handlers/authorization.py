"""What handlers ask before they act: the resources of requests, and Kafka's errors for refusals.

Whoever is refused learns nothing: not whether what is named exists, nor which rule decided.
"""

from __future__ import annotations

from uuid import UUID

from appliance.access.acls import CLUSTER_NAME, Operation, ResourceType
from appliance.api.handlers.call import Call
from appliance.api.handlers.partition_lookup import find_topic, find_topic_of_id
from appliance.broker.broker import Broker
from appliance.errors import Refused
from appliance.protocol import ErrorCode
from appliance.topics.topic import Topic

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID

REFUSALS = {
    TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


def check(call: Call, operation: Operation, resource_type: ResourceType, name: str) -> None:
    if not call.may(operation, resource_type, name):
        raise refusal(call, operation, resource_type, name)


def refusal(
    call: Call, operation: Operation, resource_type: ResourceType, name: str
) -> Refused:
    what = resource_type.name.lower().replace("_", " ")
    return Refused(
        REFUSALS[resource_type],
        f"{call.principal} may not {operation.name.lower().replace('_', ' ')} {what} {name}",
    )


def check_topic(call: Call, operation: Operation, name: str) -> None:
    check(call, operation, TOPIC, name)


def check_group(call: Call, operation: Operation, group_id: str) -> None:
    check(call, operation, GROUP, group_id)


def check_transactional_id(call: Call, operation: Operation, name: str) -> None:
    check(call, operation, TRANSACTIONAL_ID, name)


def check_cluster(call: Call, operation: Operation) -> None:
    check(call, operation, CLUSTER, CLUSTER_NAME)


def may_topic(call: Call, operation: Operation, name: str) -> bool:
    return call.may(operation, TOPIC, name)


def may_group(call: Call, operation: Operation, group_id: str) -> bool:
    return call.may(operation, GROUP, group_id)


def may_cluster(call: Call, operation: Operation) -> bool:
    return call.may(operation, CLUSTER, CLUSTER_NAME)


def allowed_topic(broker: Broker, call: Call, operation: Operation, name: str) -> Topic:
    """The right first: who has none is not told whether there is such a topic."""
    check(call, operation, TOPIC, name)
    return find_topic(broker, name)


def allowed_topic_of_id(
    broker: Broker, call: Call, operation: Operation, topic_id: UUID
) -> Topic:
    """An id is no secret, as in Kafka: one that nobody has is unknown to everybody."""
    topic = find_topic_of_id(broker, topic_id)
    if not call.may(operation, TOPIC, topic.name):
        raise refusal(call, operation, TOPIC, str(topic_id))  # the name is not told
    return topic
