"""ShareFetch 1-2: acquires records for a member of a share group; may include acknowledgements.

Batches are returned whole, as in the log; ranges beside them list the acquired records with their
delivery counts. max_records may be exceeded up to the end of a batch, unless the acquire mode is
record-limit. A range ends at a batch once it has batch_size records. Records that failed several
times are delivered in smaller and smaller numbers, the last time alone. A fetch without records
waits up to max_wait_ms: for new records, or for released ones.

Acknowledgements are on disk before the response. With read_committed (share.isolation.level)
aborted records are skipped, like the markers of transactions and compacted records. The group's
start (share.auto.offset.reset) is on disk before its first read. A member's session ends with epoch
-1, with its heartbeats, or with its connection; then its acquired records are released.

Rights: READ on the group and on the topic, again when rules change while the fetch waits.

In a cluster the state is with the share coordinator, and read at a group's first fetch in an
election; a broker that does not lead, or ceases to, answers NOT_LEADER_OR_FOLLOWER.

Left out: dead letter queues (Kafka 4.4); current leaders, which clients ask Metadata for; the quota
consumer_byte_rate, which counts only Fetch. As in Kafka, the membership of the member is not
checked.
"""

from __future__ import annotations

from functools import partial
from uuid import UUID

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_group
from appliance.api.handlers.call import Call, Later
from appliance.api.handlers.share_requests import (
    Acknowledging,
    Told,
    answer,
    lock_ms,
    may_renew,
    member_of,
    read_refusal,
)
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError, Refused
from appliance.protocol import ErrorCode
from appliance.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from appliance.share.fetching import Answer as Fetched
from appliance.share.fetching import Given, Wanted
from appliance.share.session import FINAL_EPOCH, INITIAL_EPOCH, Member, Session, TopicPartition

KEY = 78
VERSIONS = (1, 2)

RECORD_LIMIT = 1  # share_acquire_mode

# What a consumer bears in a partition; Java's gives up at any other.
EXPECTED = frozenset({
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.CORRUPT_MESSAGE,
})

Row = ShareFetchResponse.PartitionData


def handle(broker: Broker, request: ShareFetchRequest, call: Call) -> Later:
    later = Later()
    job = _fetch(broker, request, call)
    broker.share_partitions.run(answer(later, job, ShareFetchResponse), call.connection)
    return later


async def _fetch(broker: Broker, request: ShareFetchRequest, call: Call) -> ShareFetchResponse:
    partitions = broker.share_partitions
    check_group(call, Operation.READ, request.group_id or "")
    await partitions.loading.loaded()
    partitions.loading.check_loaded()
    member = member_of(request)
    _check_renewal(request, call.version)
    try:
        session = _session(broker, member, request, call.connection)
    except ApplianceError as error:
        if error.kafka_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            await partitions.pause(request.max_wait_ms)
        raise
    acknowledging = Acknowledging(broker, member, request, call)
    fetched: Fetched = {}
    is_final = request.share_session_epoch == FINAL_EPOCH
    if not is_final and not may_renew(request, call.version):
        refuses = partial(read_refusal, broker, call, member.group)
        wanted = _wanted(broker, request, call.version)
        fetched = await partitions.fetch(session, wanted, refuses)
    told = await acknowledging.done()
    if is_final:
        partitions.close_session(member)
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=lock_ms(broker, member.group),
        responses=_topics(fetched, told),
    )


def _check_renewal(request: ShareFetchRequest, version: int) -> None:
    if not may_renew(request, version):
        return
    wanted_zero = {
        "max_bytes": request.max_bytes,
        "min_bytes": request.min_bytes,
        "max_records": request.max_records,
        "max_wait_ms": request.max_wait_ms,
    }
    wrong = [f"{name} {value}" for name, value in wanted_zero.items() if value]
    if wrong:
        text = f"got {', '.join(wrong)} in a request that renews locks, wanted 0"
        raise Refused(ErrorCode.INVALID_REQUEST, text)


def _session(
    broker: Broker, member: Member, request: ShareFetchRequest, connection: int
) -> Session:
    sessions, epoch = broker.share_partitions.sessions, request.share_session_epoch
    named = [
        TopicPartition(topic.topic_id, row.partition_index)
        for topic in request.topics
        for row in topic.partitions
    ]
    if epoch == FINAL_EPOCH:
        return sessions.find(member)
    if epoch == INITIAL_EPOCH:
        if any(row.acknowledgement_batches for each in request.topics for row in each.partitions):
            text = "a share session cannot begin with acknowledgements"
            raise Refused(ErrorCode.INVALID_REQUEST, text)
        return sessions.open(member, connection, named)
    session = sessions.step(member, epoch)
    forgotten = [
        TopicPartition(topic.topic_id, each)
        for topic in request.forgotten_topics_data
        for each in topic.partitions
    ]
    sessions.change(session, named, forgotten)
    return session


def _wanted(broker: Broker, request: ShareFetchRequest, version: int) -> Wanted:
    bytes_max = min(request.max_bytes, broker.config.network.fetch_max_bytes)
    return Wanted(
        member_id=request.member_id or "",
        wait_ms=max(0, request.max_wait_ms),
        bytes_min=min(request.min_bytes, bytes_max),
        bytes_max=bytes_max,
        records_max=request.max_records,
        batch_size=max(1, request.batch_size),
        is_strict=version > 1 and request.share_acquire_mode == RECORD_LIMIT,
    )


def _topics(
    fetched: Fetched, told: Told
) -> list[ShareFetchResponse.ShareFetchableTopicResponse]:
    """Of partitions that have nothing to say nothing is said."""
    by_topic: dict[UUID, list[Row]] = {}
    for place in dict.fromkeys([*fetched, *told]):
        row = _row(place, fetched.get(place, Given()), told.get(place))
        by_topic.setdefault(place.topic_id, []).append(row)
    return [ShareFetchResponse.ShareFetchableTopicResponse(*each) for each in by_topic.items()]


def _row(place: TopicPartition, given: Given, refusal: ApplianceError | None) -> Row:
    row = Row(partition_index=place.partition, records=given.records)
    row.acquired_records = [ShareFetchResponse.AcquiredRecords(*each) for each in given.acquired]
    if given.error is not None:
        code = given.error.kafka_code
        row.error_code = code if code in EXPECTED else ErrorCode.KAFKA_STORAGE_ERROR
        row.error_message = str(given.error)
    if refusal is not None:
        row.acknowledge_error_code = refusal.kafka_code
        row.acknowledge_error_message = str(refusal)
    return row
