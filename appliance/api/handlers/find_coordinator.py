"""FindCoordinator 0-6: the coordinator of a group, a transactional id or a share group: this
broker. In a cluster that of a group is the leader of its partition of `__consumer_offsets`, that of
a transactional id the leader of its partition of `__transaction_state`, that of a share partition
the leader of its partition of `__share_group_state`; who asks first has that topic made.

From version 4 on a request has many keys. An unknown type of key, and a share key other than
GROUP:TOPIC-ID:PARTITION, gets INVALID_REQUEST. Without an error the message is null up to version
3, and empty from version 4 on, as in Apache Kafka.

Rights: DESCRIBE on the group or the transactional id; for share groups CLUSTER_ACTION on the
cluster.

Left out: nothing.
"""

from __future__ import annotations

import re
from collections.abc import Coroutine
from typing import Any

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_cluster, check_group, check_transactional_id
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.broker.members import Node
from appliance.errors import ApplianceError, Refused
from appliance.protocol import ErrorCode
from appliance.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from appliance.topics.internal_topic import partition_of
from appliance.topics.topic import OFFSETS, SHARE_STATE, TRANSACTIONS

KEY = 10
VERSIONS = (0, 6)

FIRST_WITH_MANY = 4
GROUP, TRANSACTION, SHARE = 0, 1, 2
SINCE = {GROUP: 0, TRANSACTION: 1, SHARE: 6}

_SHARE_KEY = re.compile(r".+:[A-Za-z0-9_-]{22}:[0-9]+")

Answer = FindCoordinatorResponse.Coordinator


def handle(
    broker: Broker, request: FindCoordinatorRequest, call: Call
) -> FindCoordinatorResponse | Coroutine[Any, Any, FindCoordinatorResponse]:
    has_many = call.version >= FIRST_WITH_MANY
    keys = request.coordinator_keys if has_many else [request.key]
    if broker.topics.cluster is not None:
        return _handle_in_cluster(broker, request.key_type, keys, call)
    return _response([_find(broker, request.key_type, each, call) for each in keys], call)


async def _handle_in_cluster(
    broker: Broker, key_type: int, keys: list[str], call: Call
) -> FindCoordinatorResponse:
    found = [await _find_in_cluster(broker, key_type, each, call) for each in keys]
    return _response(found, call)


def _response(answers: list[Answer], call: Call) -> FindCoordinatorResponse:
    if call.version >= FIRST_WITH_MANY:
        return FindCoordinatorResponse(coordinators=answers)
    (found,) = answers
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message or None,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _find(broker: Broker, key_type: int, key: str, call: Call) -> Answer:
    try:
        _check_rights(key_type, key, call)
        _check(key_type, key, call.version)
    except ApplianceError as error:
        return _refusal(key, error)
    told = broker.told[call.listener]
    return Answer(key=key, node_id=broker.node_id, host=told.host, port=told.port, error_message="")


async def _find_in_cluster(broker: Broker, key_type: int, key: str, call: Call) -> Answer:
    try:
        _check_rights(key_type, key, call)
        _check(key_type, key, call.version)
        node = await _coordinator(broker, key_type, key, call.listener)
    except ApplianceError as error:
        return _refusal(key, error)
    return Answer(key=key, node_id=node.node_id, host=node.host, port=node.port, error_message="")


async def _coordinator(broker: Broker, key_type: int, key: str, listener: int) -> Node:
    if key_type == GROUP:
        what, topic = "group", OFFSETS
        number = await broker.groups.table.topic.partition_of(key)
    elif key_type == SHARE:
        what, topic = "share partition", SHARE_STATE
        number = partition_of(key, len(await broker.group_places.make_share_state_topic()))
    else:
        what, topic = "transactional id", TRANSACTIONS
        number = await broker.transactions.table.place_of(key)
    await broker.members.handed_over([topic])
    leader = broker.members.placement(broker.topics.named(topic), number).leader
    nodes = broker.members.nodes(listener)
    if node := next((each for each in nodes if each.node_id == leader), None):
        return node
    raise Refused(
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        f"{what} {key}: {topic}-{number}, where it stands, has no leader now",
    )


def _refusal(key: str, error: ApplianceError) -> Answer:
    return Answer(
        key=key, node_id=-1, port=-1, error_code=error.kafka_code, error_message=str(error)
    )


def _check_rights(key_type: int, key: str, call: Call) -> None:
    if key_type == GROUP:
        check_group(call, Operation.DESCRIBE, key)
    elif key_type == TRANSACTION:
        check_transactional_id(call, Operation.DESCRIBE, key)
    elif key_type == SHARE:
        check_cluster(call, Operation.CLUSTER_ACTION)


def _check(key_type: int, key: str, version: int) -> None:
    if version < SINCE.get(key_type, version + 1):
        raise Refused(
            ErrorCode.INVALID_REQUEST, f"key type {key_type} means nothing in version {version}"
        )
    if key_type == SHARE and not _SHARE_KEY.fullmatch(key):
        raise Refused(
            ErrorCode.INVALID_REQUEST, f"got share key {key!r}, wanted GROUP:TOPIC-ID:PARTITION"
        )
