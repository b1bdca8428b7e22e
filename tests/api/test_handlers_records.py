"""Produce where Python answers it; the data plane's own answers are test_produce's. It is asked
in all versions, so that the two sides can be held against each other."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest

from appliance.errors import TimedOut
from appliance.protocol import NO_UUID
from appliance.protocol.messages.produce import ProduceRequest
from appliance.record import _batch_builder
from appliance.record._batch import records
from tests.support.control import Closed, Control
from tests.support.logs import NOW, batch, produced
from tests.support.wire_client import frame_of


def produce(
    control: Control,
    data: bytes | None,
    *,
    version: int = 13,
    acks: int = -1,
    topic: str = "t",
    topic_id: uuid.UUID | None = None,
    partition: int = 0,
    timeout_ms: int = 20_000,
) -> Any:
    known = control.broker.topics.get(topic)
    row = ProduceRequest.PartitionProduceData(partition, data)
    named = ProduceRequest.TopicProduceData(
        topic, topic_id or (known.id if known else NO_UUID), [row]
    )
    answer = control.ask(ProduceRequest(None, acks, timeout_ms, [named]), version)
    if answer is None:
        return None
    (found,) = answer.responses
    assert (found.name == topic) == (version <= 12)
    (part,) = found.partition_responses
    assert part.index == partition
    return part


def produce_frame(data: bytes, acks: int) -> bytes:
    row = ProduceRequest.PartitionProduceData(0, data)
    return frame_of(
        ProduceRequest(None, acks, 5000, [ProduceRequest.TopicProduceData("t", NO_UUID, [row])]),
        0,
        9,
    )


# Produce


@pytest.mark.parametrize("acks", [-1, 1])
@pytest.mark.parametrize("version", range(3, 14))
def test_a_compressed_batch_for_a_compacted_topic_is_appended(
    control: Control, version: int, acks: int
) -> None:
    (log,) = control.create("t", cleanup_policy="compact").logs
    codec = "zstd" if version >= 7 else "gzip"
    part = produce(control, batch("a", "b", codec=codec), version=version, acks=acks)
    assert (part.error_code, part.base_offset, part.log_append_time_ms) == (0, 0, -1)
    assert part.log_start_offset == (0 if version >= 5 else -1)
    assert (part.record_errors, part.error_message) == ([], None)
    assert log.log_end_offset == 2
    if acks == -1:
        assert log.durable_offset == 2


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_without_a_key_are_refused_with_their_whole_batch(
    control: Control, codec: str
) -> None:
    (log,) = control.create("t", cleanup_policy="compact").logs
    data = _batch_builder.batch(
        [(NOW, b"k", b"v"), (NOW, None, b"v"), (NOW, None, b"w")],
        codec=0 if codec == "none" else codec,
    )
    part = produce(control, data)
    assert (part.error_code, part.base_offset, part.log_start_offset) == (87, -1, -1)
    assert [each.batch_index for each in part.record_errors] == [1, 2]
    assert "needs a key" in part.record_errors[0].batch_index_error_message
    assert part.error_message
    assert log.log_end_offset == 0


def test_batches_of_one_connection_are_appended_in_turn(control: Control) -> None:
    """Though the first takes longer to look at than all others."""
    (log,) = control.create("t", cleanup_policy="compact").logs
    batches = [batch(bytes(size), codec="gzip") for size in (12_000_000, 1, 2, 3)]
    places = [control.queue.put(produce_frame(data, acks=-1)) for data in batches]
    control.until(lambda: control.queue.answers.keys() >= set(places))
    sizes = [len(each.value or b"") for each in records(log.read(0, 1_000_000))]
    assert sizes == [12_000_000, 1, 2, 3]


def test_no_more_records_are_named_than_a_person_would_read(control: Control) -> None:
    control.create("t", cleanup_policy="compact")
    data = _batch_builder.batch([(NOW, None, b"v")] * 500, codec="gzip")
    assert len(produce(control, data).record_errors) == 100


def test_a_batch_that_is_wrong_in_itself_names_no_records(control: Control) -> None:
    control.create("t", cleanup_policy="compact")
    data = bytearray(batch("a", codec="gzip"))
    data[30] ^= 1
    part = produce(control, bytes(data))
    assert (part.error_code, part.record_errors) == (2, [])


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (None, 2),
        (b"", 2),
        (batch("a")[:60], 2),
        (batch("a")[:16] + b"\1" + batch("a")[17:], 43),
        (batch("a") + batch("b"), 87),
    ],
    ids=["null", "empty", "too short", "old format", "two batches"],
)
def test_what_is_no_batch_is_refused(control: Control, data: bytes | None, code: int) -> None:
    control.create("t")
    part = produce(control, data)
    assert (part.error_code, part.base_offset) == (code, -1)


@pytest.mark.parametrize("version", range(3, 14))
def test_zstd_begins_with_version_7(control: Control, version: int) -> None:
    control.create("t")
    part = produce(control, batch("a", codec="zstd"), version=version)
    assert part.error_code == (76 if version < 7 else 0)


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_acks_of_another_number_are_refused(control: Control, acks: int) -> None:
    (log,) = control.create("t").logs
    assert produce(control, batch("a"), acks=acks).error_code == 21
    assert log.log_end_offset == 0


def test_what_is_not_there_is_told_by_name_or_id(control: Control) -> None:
    control.create("t")
    assert produce(control, batch("a"), topic="missing", version=12).error_code == 3
    assert produce(control, batch("a"), partition=1).error_code == 3
    assert produce(control, batch("a"), partition=-1, version=9).error_code == 3
    assert produce(control, batch("a"), topic_id=uuid.uuid4()).error_code == 100
    assert "missing" not in control.broker.topics


def test_acks_0_gets_no_answer(control: Control) -> None:
    (log,) = control.create("t").logs
    assert produce(control, batch("a"), acks=0) is None
    assert log.log_end_offset == 1


def test_acks_0_closes_the_connection_after_an_error(control: Control) -> None:
    control.create("t")
    with pytest.raises(Closed):
        produce(control, b"", acks=0)


def test_a_repeat_of_an_idempotent_producer_is_answered_as_the_first_time(
    control: Control,
) -> None:
    control.create("t")
    answers = [produce(control, produced(0, 3)) for _ in range(2)]
    assert [(each.error_code, each.base_offset) for each in answers] == [(0, 0), (0, 0)]
    assert produce(control, produced(9)).error_code == 45


def test_the_time_of_the_log_is_told(control: Control) -> None:
    control.create("t", message_timestamp_type="LogAppendTime")
    before_ms = time.time_ns() // 1_000_000
    part = produce(control, batch("a"))
    assert before_ms <= part.log_append_time_ms <= time.time_ns() // 1_000_000


def test_durability_is_waited_for_no_longer_than_the_client_does(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = []

    async def never_durable(log: Any, written: Any, seconds: float) -> None:
        waits.append(seconds)
        raise TimedOut("the disk sleeps")

    monkeypatch.setattr(control.broker.log_writes, "durable", never_durable)
    control.create("t")
    part = produce(control, batch("a"), timeout_ms=2000)
    assert (part.error_code, part.error_message) == (7, "the disk sleeps")
    assert (part.base_offset, part.log_start_offset) == (-1, -1)
    assert 0 < waits[0] <= 2
    produce(control, batch("a"), timeout_ms=-1)
    assert waits[1] == 0
    assert produce(control, batch("a"), timeout_ms=-1, acks=1).error_code == 0


@pytest.mark.parametrize("version", [3, 9, 13])
def test_internal_topics_are_not_for_clients_to_write(control: Control, version: int) -> None:
    control.run(control.broker.group_places.make_offsets_topic())
    part = produce(control, batch(codec="gzip"), version=version, topic="__consumer_offsets")
    assert (part.error_code, part.base_offset) == (17, -1)


# Replicas


def test_acks_all_asks_for_enough_replicas_before_and_after(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    (log,) = control.create("t").logs
    log.lead(1, 1, [2, 3], [2], 3)
    part = produce(control, batch("a"))
    assert (part.error_code, log.log_end_offset) == (19, 0)
    log.set_in_sync(1, [2, 3], [], 3)
    assert produce(control, batch("a"), timeout_ms=50).error_code == 7
    durable = control.broker.log_writes.durable

    async def one_leaves(log: Any, *given: Any) -> None:
        log.set_in_sync(1, [2], [], 3)
        await durable(log, *given)

    with monkeypatch.context() as patch:
        patch.setattr(control.broker.log_writes, "durable", one_leaves)  # when it is appended
        part = produce(control, batch("b"), timeout_ms=50)
    assert (part.error_code, part.base_offset) == (20, -1)
    assert produce(control, batch("c"), acks=1).error_code == 0


def test_who_does_not_lead_takes_nothing(control: Control) -> None:
    (log,) = control.create("t").logs
    log.follow(1, 2)
    for acks in (-1, 1):
        part = produce(control, batch("a"), acks=acks)
        assert (part.error_code, log.log_end_offset) == (6, 0)
