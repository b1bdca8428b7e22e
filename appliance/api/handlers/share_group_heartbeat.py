"""ShareGroupHeartbeat 1: joins, stays in or leaves a share group (KIP-932).

The response's content is on disk before it is sent. A member gets its assignment when it joins: the
group's state in new partitions is created first. If all members have the same subscription, each
partition has the same number of readers, one if there are enough partitions.

Rights: READ on the group, DESCRIBE on the topics that are named.

Left out: version 0, which Kafka itself calls unstable.
"""

from __future__ import annotations

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_group, check_topic
from appliance.api.handlers.call import Call, Later
from appliance.broker.broker import Broker
from appliance.errors import Refused
from appliance.groups.consumer_member import JOINING, LEAVING, Beat, Beaten
from appliance.groups.consumer_records import rows
from appliance.protocol import ErrorCode
from appliance.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

KEY = 76
VERSIONS = (1, 1)

Answer = ShareGroupHeartbeatResponse


def handle(broker: Broker, request: ShareGroupHeartbeatRequest, call: Call) -> Later:
    later = Later()
    check_group(call, Operation.READ, request.group_id)
    for each in request.subscribed_topic_names or ():
        check_topic(call, Operation.DESCRIBE, each)
    _check(request)
    broker.share_groups.heartbeat(
        request.group_id,
        _asked(request, call),
        call.received_ms,
        lambda beaten: later.give(_answer(beaten)),
    )
    return later


def _check(request: ShareGroupHeartbeatRequest) -> None:
    epoch = request.member_epoch
    faults = {
        "GroupId can't be empty": not request.group_id,
        "MemberId can't be empty": not request.member_id,
        "RackId can't be empty": request.rack_id == "",
        f"MemberEpoch is {epoch}, wanted {LEAVING} or more": epoch < LEAVING,
        "SubscribedTopicNames must be set in first request": (
            epoch == JOINING and not request.subscribed_topic_names
        ),
    }
    found = [text for text, is_so in faults.items() if is_so]
    if found:
        raise Refused(ErrorCode.INVALID_REQUEST, f"{'; '.join(found)}.")


def _asked(request: ShareGroupHeartbeatRequest, call: Call) -> Beat:
    return Beat(
        member_id=request.member_id,
        epoch=request.member_epoch,
        instance_id=None,
        rack_id=request.rack_id,
        client_id=call.client_id,
        client_host=f"/{call.peer}",  # as Java writes an address without a name
        rebalance_timeout_ms=-1,
        topics=request.subscribed_topic_names,
        pattern=None,
        assignor=None,
        owned=None,
    )


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
