"""ShareAcknowledge 1-2: acknowledges records that a ShareFetch acquired.

Accepted, released (to be delivered again), rejected, or, from version 2 on, renewed: the lock
starts again. For each partition all acknowledgements count or none, and they are on disk before the
response. Epoch -1 ends the member's session and releases its acquired records.

Rights: READ on the group and on the topic.

Left out: current leaders, which clients ask Metadata for.
"""

from __future__ import annotations

from uuid import UUID

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_group
from appliance.api.handlers.call import Call, Later
from appliance.api.handlers.share_requests import Acknowledging, Told, answer, lock_ms, member_of
from appliance.broker.broker import Broker
from appliance.errors import Refused
from appliance.protocol import ErrorCode
from appliance.protocol.messages.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from appliance.share.session import FINAL_EPOCH, INITIAL_EPOCH, Member

KEY = 79
VERSIONS = (1, 2)

Row = ShareAcknowledgeResponse.PartitionData


def handle(broker: Broker, request: ShareAcknowledgeRequest, call: Call) -> Later:
    later = Later()
    job = _acknowledge(broker, request, call)
    broker.share_partitions.run(answer(later, job, ShareAcknowledgeResponse), call.connection)
    return later


async def _acknowledge(
    broker: Broker, request: ShareAcknowledgeRequest, call: Call
) -> ShareAcknowledgeResponse:
    partitions = broker.share_partitions
    check_group(call, Operation.READ, request.group_id or "")
    await partitions.loading.loaded()
    partitions.loading.check_loaded()
    member = member_of(request)
    _step(broker, member, request.share_session_epoch)
    told = await Acknowledging(broker, member, request, call).done()
    if request.share_session_epoch == FINAL_EPOCH:
        partitions.close_session(member)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=lock_ms(broker, member.group), responses=_topics(told)
    )


def _step(broker: Broker, member: Member, epoch: int) -> None:
    sessions = broker.share_partitions.sessions
    if epoch == INITIAL_EPOCH:
        raise Refused(
            ErrorCode.INVALID_SHARE_SESSION_EPOCH,
            f"got share session epoch {epoch}, with which a ShareFetch begins",
        )
    if epoch == FINAL_EPOCH:
        sessions.find(member)
    else:
        sessions.step(member, epoch)


def _topics(told: Told) -> list[ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse]:
    by_topic: dict[UUID, list[Row]] = {}
    for place, refusal in told.items():
        row = Row(partition_index=place.partition)
        if refusal is not None:
            row.error_code, row.error_message = refusal.kafka_code, str(refusal)
        by_topic.setdefault(place.topic_id, []).append(row)
    return [
        ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse(*each) for each in by_topic.items()
    ]
