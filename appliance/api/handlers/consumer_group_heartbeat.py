"""ConsumerGroupHeartbeat 0-1: joins, stays in or leaves a group of the newer protocol (KIP-848).

The broker assigns, and moves a partition only after its old owner has confirmed the release.
Changes are on disk before the response. Epoch 0 joins, -1 leaves, -2 leaves for a while and keeps
the instance id. A subscription by pattern uses RE2 and matches whole names, of internal topics too.
A group without members takes the protocol of its next member. A group of classic consumers is
converted when the first consumer of the newer protocol joins: it then has both, and the broker
assigns. After the last consumer of the newer protocol leaves, it becomes a classic group and
rebalances. group.consumer.migration.policy may forbid either.

Rights: READ on the group, DESCRIBE on the topics that are named. A pattern stands for the topics
that the member may describe; of several members with it the first since a change of rules counts.

Left out: the assignors do not look at the members' racks, which are stored and shown.
"""

from __future__ import annotations

import uuid
from functools import partial

from appliance.access.acls import Operation, ResourceType
from appliance.api.handlers.authorization import check_group, check_topic
from appliance.api.handlers.call import Call, Later
from appliance.broker.broker import Broker
from appliance.errors import Refused
from appliance.groups.consumer_member import (
    AWAY,
    EVERYTHING,
    JOINING,
    LEAVING,
    Beat,
    Beaten,
    Rights,
)
from appliance.groups.consumer_records import places_of, rows
from appliance.protocol import ErrorCode
from appliance.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

KEY = 68
VERSIONS = (0, 1)

FIRST_WITH_CLIENTS_ID = 1

Answer = ConsumerGroupHeartbeatResponse


def handle(broker: Broker, request: ConsumerGroupHeartbeatRequest, call: Call) -> Later:
    later = Later()
    _check_rights(request, call)
    _check(request, call.version)
    broker.groups.consumer.heartbeat(
        request.group_id,
        _asked(request, call),
        call.received_ms,
        lambda beaten: later.give(_answer(beaten)),
    )
    return later


def _check_rights(request: ConsumerGroupHeartbeatRequest, call: Call) -> None:
    check_group(call, Operation.READ, request.group_id)
    for each in request.subscribed_topic_names or ():
        check_topic(call, Operation.DESCRIBE, each)


def _check(request: ConsumerGroupHeartbeatRequest, version: int) -> None:
    epoch = request.member_epoch
    needs_id = version >= FIRST_WITH_CLIENTS_ID or epoch > JOINING or epoch == LEAVING
    faults = {
        "GroupId can't be empty": not request.group_id,
        "MemberId can't be empty": needs_id and not request.member_id,
        "InstanceId can't be empty": request.instance_id == "",
        "RackId can't be empty": request.rack_id == "",
        f"MemberEpoch is {epoch}, wanted {AWAY} or more": epoch < AWAY,
        "InstanceId can't be null": epoch == AWAY and request.instance_id is None,
        **(_faults_of_join(request) if epoch == JOINING else {}),
    }
    found = [text for text, is_so in faults.items() if is_so]
    if found:
        raise Refused(ErrorCode.INVALID_REQUEST, f"{'; '.join(found)}.")


def _faults_of_join(request: ConsumerGroupHeartbeatRequest) -> dict[str, bool]:
    names, pattern = request.subscribed_topic_names, request.subscribed_topic_regex
    return {
        "RebalanceTimeoutMs must be provided in first request": request.rebalance_timeout_ms == -1,
        "TopicPartitions must be empty when (re-)joining": request.topic_partitions != [],
        "SubscribedTopicNames or SubscribedTopicRegex must be set when (re-)joining": (
            names is None and pattern is None
        ),
    }


def _asked(request: ConsumerGroupHeartbeatRequest, call: Call) -> Beat:
    owned = request.topic_partitions
    return Beat(
        member_id=request.member_id or str(uuid.uuid4()),
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        client_id=call.client_id,
        client_host=f"/{call.peer}",  # as Java writes an address without a name
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topics=request.subscribed_topic_names,
        pattern=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=None if owned is None else places_of(owned),
        rights=_rights(call),
    )


def _rights(call: Call) -> Rights:
    authorizer = call.authorizer
    if not authorizer.is_enforced:
        return EVERYTHING
    asked = call.principal, call.peer, Operation.DESCRIBE, ResourceType.TOPIC
    return Rights(authorizer.generation, partial(authorizer.allows, *asked))


def _answer(beaten: Beaten) -> Answer:
    answer = Answer(
        error_code=beaten.error,
        error_message=beaten.message,
        member_id=beaten.member_id,
        member_epoch=beaten.epoch,
        heartbeat_interval_ms=beaten.heartbeat_interval_ms,
    )
    if beaten.assigned is not None:
        answer.assignment = Answer.Assignment(rows(beaten.assigned, Answer.TopicPartitions))
    return answer
