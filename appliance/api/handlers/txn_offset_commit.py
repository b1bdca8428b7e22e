"""TxnOffsetCommit 0-5: offsets of a group that take effect when the transaction commits.

On disk before the response, and invisible until the commit. From version 3 on the member must be of
the group's current generation; without a member nothing is checked. Up to version 4 the group must
have been added to the transaction (INVALID_TXN_STATE); version 5, TV2, adds it.

Rights: WRITE on the transactional id, READ on the group and on the topic.

Left out: nothing.
"""

from __future__ import annotations

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import allowed_topic, check_group, check_transactional_id
from appliance.api.handlers.call import Call
from appliance.api.handlers.fenced_producer import told
from appliance.api.handlers.offset_commit import check_size
from appliance.api.handlers.partition_lookup import check_group_id, check_partition
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError, Refused
from appliance.groups.records import NEVER, OffsetCommitValue, Partition
from appliance.protocol import ErrorCode
from appliance.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from appliance.topics.internal_topic import Transaction
from appliance.topics.topic import OFFSETS
from appliance.txn import transaction as txn
from appliance.txn.states import TransactionRefused

KEY = 28
VERSIONS = (0, 5)

FIRST_OF_TV2 = 5
LATER = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.OPERATION_NOT_ATTEMPTED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
NEVER_FENCED = VERSIONS[1] + 1  # it always says INVALID_PRODUCER_EPOCH

Asked = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
Answer = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition
AnswerTopic = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
Values = dict[Partition, OffsetCommitValue]


async def handle(
    broker: Broker, request: TxnOffsetCommitRequest, call: Call
) -> TxnOffsetCommitResponse:
    values: Values = {}
    good: list[Answer] = []  # answered as the commit is
    topics = []
    for topic in request.topics:
        answers = []
        for each in topic.partitions:
            answer = Answer(each.partition_index)
            try:
                check_transactional_id(call, Operation.WRITE, request.transactional_id)
                check_group(call, Operation.READ, request.group_id)
                values[Partition(topic.name, each.partition_index)] = _value(
                    broker, topic.name, each, call
                )
                good.append(answer)
            except ApplianceError as error:
                answer.error_code = error.kafka_code
            answers.append(answer)
        topics.append(AnswerTopic(topic.name, answers))
    try:
        if values:
            await _commit(broker, request, values, call.version)
    except ApplianceError as error:
        for answer in good:
            answer.error_code = told(error, call.version, NEVER_FENCED)
    return TxnOffsetCommitResponse(topics=topics)


def _value(broker: Broker, topic: str, asked: Asked, call: Call) -> OffsetCommitValue:
    check_partition(
        allowed_topic(broker, call, Operation.READ, topic), asked.partition_index
    )
    metadata = asked.committed_metadata or ""
    check_size(broker, metadata)
    return OffsetCommitValue(
        offset=asked.committed_offset,
        leader_epoch=asked.committed_leader_epoch,
        metadata=metadata,
        commit_timestamp=call.now_ms,
        expire_timestamp=NEVER,
    )


async def _commit(
    broker: Broker, request: TxnOffsetCommitRequest, values: Values, version: int
) -> None:
    check_group_id(request.group_id)
    broker.groups.availability.check_led(request.group_id)
    producer = txn.Producer(request.producer_id, request.producer_epoch)
    place = txn.Partition(OFFSETS, await broker.groups.table.topic.partition_of(request.group_id))
    async with broker.transactions.writing(
        request.transactional_id, {place: producer}, may_add=version >= FIRST_OF_TV2
    ) as refused:
        if refused:
            raise _refusal(broker, refused[place])
        # inside: a write that is on its way must not come behind a marker
        await broker.groups.commits.commit_in_transaction(
            request.group_id,
            (request.member_id, request.group_instance_id, request.generation_id),
            values,
            Transaction(*producer),
        )


def _refusal(broker: Broker, error: TransactionRefused) -> ApplianceError:
    """In a cluster the group's coordinator has asked that of the transaction: who asks here is to
    ask here again, not to look for another coordinator of its group."""
    if broker.topics.cluster is not None and error.kafka_code in LATER:
        return Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error))
    return error
