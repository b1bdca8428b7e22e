"""A member of a share group that says exactly what it is told to, over the control plane."""

from __future__ import annotations

from typing import Any, NamedTuple

from appliance.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from appliance.protocol.messages.share_fetch import ShareFetchRequest
from appliance.record import _batch, _batch_builder
from tests.support.control import Control, Sent

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
NOW = 1_700_000_000_000

Ack = tuple[int, int, list[int]]


class Got(NamedTuple):
    """A partition's row of a ShareFetch, without its zeros."""

    acquired: list[tuple[int, int, int]]
    values: list[str]  # of the records that are acquired
    error: int
    acknowledge_error: int


class ShareClient:
    """Remembers its session's epoch as a consumer does."""

    def __init__(
        self, control: Control, member: str = "a", group: str = "g", connection: int = 1
    ) -> None:
        self.control = control
        self.member = member
        self.group = group
        self.connection = connection
        self.epoch = 0

    def topic_id(self, topic: str = "t") -> Any:
        return self.control.broker.topics[topic].id

    def initialize(self, *partitions: int, start: int = 0, topic: str = "t") -> None:
        """As the group's coordinator does before it assigns."""
        own = self.control.broker.share_partitions.states
        for each in partitions or (0,):
            self.control.run(own.initialize(self.group, self.topic_id(topic), each, 0, start))

    def request(
        self,
        *partitions: int,
        topic: str = "t",
        topic_id: Any = None,
        most: int = 500,
        wait_ms: int = 0,
        acks: dict[int, list[Ack]] | None = None,
        forgotten: tuple[int, ...] = (),
        epoch: int | None = None,
        bytes_min: int = 1,
        bytes_max: int = 50 << 20,
        batch_size: int = 500,
        is_strict: bool = False,
        is_renew: bool = False,
    ) -> ShareFetchRequest:
        topic_id = topic_id or self.topic_id(topic)
        given = acks or {}
        rows = [
            ShareFetchRequest.FetchPartition(
                each,
                [ShareFetchRequest.AcknowledgementBatch(*ack) for ack in given.get(each, [])],
            )
            for each in dict.fromkeys([*partitions, *given])
        ]
        asked = ShareFetchRequest(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=self.epoch if epoch is None else epoch,
            max_wait_ms=wait_ms,
            min_bytes=bytes_min,
            max_bytes=bytes_max,
            max_records=most,
            batch_size=batch_size,
            share_acquire_mode=int(is_strict),
            is_renew_ack=is_renew,
        )
        if rows:
            asked.topics = [ShareFetchRequest.FetchTopic(topic_id, rows)]
        if forgotten:
            row = ShareFetchRequest.ForgottenTopic(topic_id, list(forgotten))
            asked.forgotten_topics_data = [row]
        return asked

    def send(self, *partitions: int, version: int = 2, **facts: Any) -> Sent:
        request = self.request(*partitions, **facts)
        self.epoch += request.share_session_epoch >= 0
        return self.control.send(request, version, self.connection)

    def answer(self, *partitions: int, **facts: Any) -> Any:
        return self.control.answer(self.send(*partitions, **facts))

    def got(self, sent: Sent) -> dict[int, Got]:
        answer = self.control.answer(sent)
        assert (answer.error_code, answer.error_message) == (0, None)
        return {each.partition_index: _got(each) for row in answer.responses
                for each in row.partitions}

    def fetch(self, *partitions: int, **facts: Any) -> dict[int, Got]:
        return self.got(self.send(*partitions, **facts))

    def acquire(self, **facts: Any) -> list[tuple[int, int, int]]:
        """Of partition 0."""
        found = self.fetch(*([0] if self.epoch == 0 else []), **facts)
        return found[0].acquired if 0 in found else []

    def send_acks(
        self,
        *acks: Ack,
        partition: int = 0,
        topic: str = "t",
        epoch: int | None = None,
        version: int = 2,
        is_renew: bool = False,
    ) -> Sent:
        rows = [ShareAcknowledgeRequest.AcknowledgementBatch(*each) for each in acks]
        part = ShareAcknowledgeRequest.AcknowledgePartition(partition, rows)
        asked = ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=self.epoch if epoch is None else epoch,
            is_renew_ack=is_renew,
        )
        if acks:
            row = ShareAcknowledgeRequest.AcknowledgeTopic(self.topic_id(topic), [part])
            asked.topics = [row]
        self.epoch += asked.share_session_epoch > 0
        return self.control.send(asked, version, self.connection)

    def acknowledge(self, *acks: Ack, **facts: Any) -> int:
        """The error, of the request or of the partition."""
        answer = self.control.answer(self.send_acks(*acks, **facts))
        if answer.error_code or not answer.responses:
            return int(answer.error_code)
        return int(answer.responses[0].partitions[0].error_code)


def _got(row: Any) -> Got:
    acquired = [(a.first_offset, a.last_offset, a.delivery_count) for a in row.acquired_records]
    values = [
        (each.value or b"").decode()
        for each in _batch.records(row.records)
        if any(first <= each.offset <= last for first, last, _ in acquired)
    ]
    return Got(acquired, values, row.error_code, row.acknowledge_error_code)


def write(
    control: Control, *values: str, topic: str = "t", partition: int = 0, **facts: Any
) -> int:
    """One batch, durable; its first offset."""
    rows = [(NOW + i, None, each.encode()) for i, each in enumerate(values)]
    log = control.broker.topics[topic].logs[partition]
    return int(log.append_durable(_batch_builder.batch(rows, **facts), timeout_s=20).base_offset)


def write_many(control: Control, count: int, batch: int = 10, **facts: Any) -> None:
    for first in range(0, count, batch):
        write(control, *[f"v{i}" for i in range(first, min(first + batch, count))], **facts)


def other(control: Control, name: str = "b") -> ShareClient:
    return ShareClient(control, name, connection=2)
