"""What ShareFetch and ShareAcknowledge have in common: the requesting member, and its
acknowledgements."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import TOPIC, check_group, refusal
from appliance.api.handlers.call import Call, Later
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError, Refused
from appliance.process import event_log
from appliance.protocol import ErrorCode
from appliance.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from appliance.protocol.messages.share_fetch import ShareFetchRequest
from appliance.share.partition import Acknowledgement
from appliance.share.session import Member, TopicPartition
from appliance.share.states import AcknowledgeType

log = event_log.named("share")

MEMBER_ID_MAX = 36  # characters of a UUID
FIRST_WITH_RENEWALS = 2

Request = ShareFetchRequest | ShareAcknowledgeRequest
Told = dict[TopicPartition, ApplianceError | None]


def member_of(request: Request) -> Member:
    if not request.group_id:
        raise Refused(ErrorCode.INVALID_REQUEST, "the group id is missing")
    if not request.member_id or len(request.member_id) > MEMBER_ID_MAX:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"got a member id of {len(request.member_id or '')} characters, wanted 1 to "
            f"{MEMBER_ID_MAX}",
        )
    return Member(request.group_id, request.member_id)


def may_renew(request: Request, version: int) -> bool:
    return version >= FIRST_WITH_RENEWALS and request.is_renew_ack


def lock_ms(broker: Broker, group: str) -> int:
    return broker.group_configs.of_sharers(group).record_lock_duration_ms


def read_refusal(
    broker: Broker, call: Call, group_id: str, place: TopicPartition
) -> ApplianceError | None:
    """Of a partition; without the right to the group it raises. None too for a topic that is
    unknown: that is told where it is looked for."""
    if not call.authorizer.is_enforced:
        return None
    check_group(call, Operation.READ, group_id)
    name = broker.topics.name_of(place.topic_id)
    if name is None or call.may(Operation.READ, TOPIC, name):
        return None
    # the name is not told
    return refusal(call, Operation.READ, TOPIC, str(place.topic_id))


class Acknowledging:
    """All acknowledgements of a request: begun in its order, and waited for together."""

    def __init__(self, broker: Broker, member: Member, request: Request, call: Call) -> None:
        self._broker = broker
        self._call = call
        self._member = member
        self._renews = may_renew(request, call.version)
        self._told: dict[TopicPartition, asyncio.Future[None] | ApplianceError] = {}
        for topic in request.topics:
            for row in topic.partitions:
                if row.acknowledgement_batches:
                    self._begin(TopicPartition(topic.topic_id, row.partition_index), row)

    def _begin(self, place: TopicPartition, row: Any) -> None:
        try:
            if place in self._told:
                raise Refused(ErrorCode.INVALID_REQUEST, "the partition is named twice")
            given = [
                Acknowledgement(each.first_offset, each.last_offset, each.acknowledge_types)
                for each in row.acknowledgement_batches
            ]
            _check(given, self._renews)
            refused = read_refusal(self._broker, self._call, self._member.group, place)
            if refused is not None:
                raise refused
            told = self._broker.share_partitions.acknowledge(
                self._member.group, self._member.id, place, given
            )
        except ApplianceError as error:
            # of what was begun before under the same name nothing more is told
            self._told[place] = error
        else:
            self._told[place] = told

    async def done(self) -> Told:
        """What became of each partition's: None: it is on disk."""
        found: Told = {}
        for place, told in self._told.items():
            found[place] = await _outcome(told)
        return found


async def _outcome(told: asyncio.Future[None] | ApplianceError) -> ApplianceError | None:
    if isinstance(told, ApplianceError):
        return told
    try:
        await told
    except ApplianceError as error:
        return error
    return None


def _check(given: Iterable[Acknowledgement], renews: bool) -> None:
    before = -1
    most = AcknowledgeType.RENEW if renews else AcknowledgeType.REJECT
    for first, last, types in given:
        fault = (
            f"offsets {first} to {last}" if last < first else
            f"offset {first} after {before}" if first <= before else
            "no acknowledge types" if not types else
            f"{len(types)} acknowledge types for {last - first + 1} records"
            if len(types) > 1 and len(types) != last - first + 1 else
            _fault_of_types(types, most)
        )  # fmt: skip
        if fault:
            raise Refused(ErrorCode.INVALID_REQUEST, f"got {fault} in a batch of acknowledgements")
        before = last


def _fault_of_types(types: Sequence[int], most: int) -> str:
    low, high = min(types), max(types)
    if low < 0 or high > most:
        return f"acknowledge types from {low} to {high}, wanted 0 to {most}"
    return ""


async def answer(later: Later, job: Awaitable[Any], response: type[Any]) -> None:
    """Gives what the job makes, or says in the API's words why there is nothing."""
    try:
        later.give(await job)
    except ApplianceError as error:
        later.give(response(error_code=error.kafka_code, error_message=str(error)))
    except Exception as error:
        log.exception("a request failed unexpectedly")
        code, text = ErrorCode.UNKNOWN_SERVER_ERROR, type(error).__name__
        later.give(response(error_code=code, error_message=text))
