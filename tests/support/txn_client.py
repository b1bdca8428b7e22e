"""A transactional producer that says exactly what it is told to, over the control plane; but for
what is asked of that alone, to any broker."""

from __future__ import annotations

import time
from typing import Any

from appliance.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from appliance.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from appliance.protocol.messages.describe_transactions import DescribeTransactionsRequest
from appliance.protocol.messages.end_txn import EndTxnRequest
from appliance.protocol.messages.init_producer_id import InitProducerIdRequest
from appliance.protocol.messages.produce import ProduceRequest
from appliance.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from appliance.record import _batch, _batch_builder
from appliance.txn import timeouts
from tests.support.control import Control, Sent
from tests.support.remote_control import RemoteControl

T0, T1 = ("t", 0), ("t", 1)


class TxnClient:
    """Remembers its producer id, epoch and sequences as a producer does; `is_v2` is TV2."""

    late_ms = 0  # by how much its records are older than they are

    def __init__(
        self, control: Control | RemoteControl, name: str = "tx", *, is_v2: bool = True
    ) -> None:
        self.control: Any = control
        self.name = name
        self.is_v2 = is_v2
        self.id = self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}

    def init(self, version: int = 5, timeout_ms: int = 60_000, *, is_known: bool = False) -> int:
        """The error; `is_known` says who it was before."""
        asked = InitProducerIdRequest(self.name, timeout_ms)
        if is_known:
            asked.producer_id, asked.producer_epoch = self.id, self.epoch
        answer = self.control.ask(asked, version)
        if not answer.error_code:
            self._is(answer.producer_id, answer.producer_epoch)
        return int(answer.error_code)

    def _is(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.id, self.epoch):
            self.sequences = {}
        self.id, self.epoch = producer_id, epoch

    def add(self, *places: tuple[str, int], version: int = 3) -> list[int]:
        rows = [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(t, [p]) for t, p in places]
        asked = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=rows,
        )
        answer = self.control.ask(asked, version)
        return [
            each.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        ]

    def batch(self, *values: str, sequence: int = 0) -> bytes:
        now = time.time_ns() // 1_000_000 - self.late_ms
        return _batch_builder.batch(
            [(now, b"k", each.encode()) for each in values],
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )

    def send_write(
        self, *values: str, topic: str = "t", partition: int = 0, version: int | None = None
    ) -> Sent:
        place = (topic, partition)
        sequence = self.sequences.get(place, 0)
        data = self.batch(*values, sequence=sequence)
        asked = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=20_000)
        part = ProduceRequest.PartitionProduceData(index=partition, records=data)
        row = ProduceRequest.TopicProduceData(name=topic, partition_data=[part])
        row.topic_id = self.control.topic_id(topic)
        asked.topic_data.append(row)
        self.sequences[place] = sequence + len(values)
        return self.control.send(asked, self._version(version, 11, 13))

    def write(self, *values: str, **facts: Any) -> int:
        """The error; a transaction of TV1 is told of the partition first."""
        return self.written(self.send_write(*values, **facts))

    def written(self, sent: Sent) -> int:
        ((part,),) = [each.partition_responses for each in self.control.answer(sent).responses]
        return int(part.error_code)

    def add_group(self, group: str = "g", version: int = 3) -> int:
        asked = AddOffsetsToTxnRequest(self.name, self.id, self.epoch, group)
        return int(self.control.ask(asked, version).error_code)

    def commit_offset(
        self, offset: int, group: str = "g", topic: str = "t", version: int | None = None,
        **facts: Any
    ) -> int:  # fmt: skip
        row = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(0, offset, -1, "m")
        asked = TxnOffsetCommitRequest(
            self.name, group, self.id, self.epoch,
            topics=[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(topic, [row])], **facts,
        )  # fmt: skip
        (answer,) = self.control.ask(asked, self._version(version, 3, 5)).topics
        return int(answer.partitions[0].error_code)

    def end(self, is_commit: bool = True, version: int | None = None) -> int:
        answer = self.control.answer(self.send_end(is_commit, version))
        if not answer.error_code and answer.producer_id >= 0:
            self._is(answer.producer_id, answer.producer_epoch)
        return int(answer.error_code)

    def send_end(self, is_commit: bool = True, version: int | None = None) -> Sent:
        asked = EndTxnRequest(self.name, self.id, self.epoch, is_commit)
        return self.control.send(asked, self._version(version, 3, 5))

    def _version(self, asked: int | None, v1: int, v2: int) -> int:
        return asked if asked is not None else v2 if self.is_v2 else v1

    def state(self) -> str:
        """When nothing is on its way."""
        self.control.run(settled(self.control))
        (answer,) = self.control.ask(DescribeTransactionsRequest([self.name]), 0).transaction_states
        return str(answer.transaction_state if not answer.error_code else answer.error_code)


async def settled(control: Control) -> None:
    await control.broker.transactions.tasks.settled()


def committed_values(control: Control, topic: str = "t", partition: int = 0) -> list[str]:
    """What a reader of committed records sees."""
    log = control.broker.topics[topic].logs[partition]
    found, offset = [], log.log_start_offset
    aborted = log.aborted_transactions(0, log.log_end_offset)
    while data := log.read(offset, 1 << 20, "stable"):
        for info in _batch.headers(data):
            offset = info.last_offset + 1
            is_out = any(
                info.producer_id == producer and first <= info.base_offset < last
                for producer, first, last in aborted
            )
            if not info.is_control and not (info.is_transactional and is_out):
                part = data[info.position : info.position + info.size]
                found += [(each.value or b"").decode() for each in _batch.records(part)]
    return found


def begun(control: Control, *values: str, is_v2: bool = True, name: str = "tx") -> TxnClient:
    """In a transaction once there are values to write."""
    one = TxnClient(control, name, is_v2=is_v2)
    assert one.init() == 0
    if values:
        if not is_v2:
            assert one.add(T0) == [0]
        assert one.write(*values) == 0
    return one


def tick(control: Control, now: int) -> None:
    async def turn() -> None:
        timeouts.tick(control.broker.transactions, now)
        await settled(control)

    control.run(turn())
