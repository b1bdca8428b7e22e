"""What a Fetch is answered with, and that the control plane has no part in it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import UUID, uuid4

import pytest

from appliance.api.handlers import fetch as handler
from appliance.config import LogConfig
from appliance.protocol.codec import decode
from appliance.protocol.messages.fetch import FetchRequest, FetchResponse
from appliance.record._batch import headers, records
from tests.api import test_handlers_captured as corpus
from tests.support.data_plane import Plane, make
from tests.support.logs import batch, end_txn, produced
from tests.support.wire_client import TOPIC_ID, frame_of

__all__ = ["make"]

FIRST, LAST = handler.VERSIONS


@pytest.fixture
def plane(make: Any) -> Plane:
    return make()  # type: ignore[no-any-return]


def fetch(
    plane: Plane,
    *offsets: int,
    version: int = LAST,
    topic: str = "t",
    topic_id: UUID = TOPIC_ID,
    room: int = 1 << 20,
    total: int = 1 << 20,
    epoch: int = -1,
    isolation: int = 0,
) -> Any:
    """A row for each offset, asked of the partitions from 0 on."""
    parts = [
        FetchRequest.FetchPartition(
            partition=i,
            fetch_offset=offset,
            partition_max_bytes=room,
            current_leader_epoch=epoch,
        )
        for i, offset in enumerate(offsets)
    ]
    asked = FetchRequest(
        max_wait_ms=10,
        min_bytes=1,
        max_bytes=total,
        isolation_level=isolation,
        topics=[FetchRequest.FetchTopic(topic, topic_id, parts)],
    )
    with plane.client() as client:
        client.send(frame_of(asked, handler.KEY, version))
        answer = client.answer(FetchResponse, handler.KEY, version)
    assert (answer.error_code, answer.session_id) == (0, 0)
    assert plane.data_plane.counters()["punted_requests"] == 0
    (found,) = answer.responses
    return found.partitions


@pytest.mark.parametrize("version", range(FIRST, LAST + 1))
def test_records_are_fetched_from_within_a_batch(plane: Plane, version: int) -> None:
    log = plane.logs[0]
    log.append_durable(batch("a", "b"))
    log.append_durable(batch("c", "d"))
    (part,) = fetch(plane, 3, version=version)
    assert [each.value for each in records(part.records)] == [b"c", b"d"]
    assert (part.error_code, part.high_watermark, part.last_stable_offset) == (0, 4, 4)
    assert part.log_start_offset == (0 if version >= 5 else -1)
    assert part.aborted_transactions is None
    (part,) = fetch(plane, 4, version=version)
    assert (part.error_code, part.records) == (0, b"")


def test_the_first_batch_comes_whole_and_later_ones_if_they_fit(plane: Plane) -> None:
    size = len(batch("v" * 100))
    for log in plane.logs:
        log.append_durable(batch("v" * 100))
        log.append_durable(batch("v" * 100))

    def sizes(**limits: int) -> list[int]:
        return [len(each.records) for each in fetch(plane, 0, 0, 0, **limits)]

    assert sizes() == [2 * size, 2 * size, 2 * size]
    assert sizes(total=1) == [size, 0, 0]
    assert sizes(room=1) == [size, 0, 0]
    assert sizes(room=size) == [size, size, size]
    assert sizes(total=3 * size) == [2 * size, size, 0]
    assert sizes(total=0, room=0) == [size, 0, 0]


def test_an_empty_partition_leaves_its_right_to_the_next(plane: Plane) -> None:
    plane.logs[1].append_durable(batch("v"))
    assert [len(each.records) > 0 for each in fetch(plane, 0, 0, room=1)] == [False, True]


def test_aborted_transactions_are_listed_for_whom_it_concerns(plane: Plane) -> None:
    log = plane.logs[0]
    log.append_durable(produced(0, txn=True))
    end_txn(log, "abort")
    log.append_durable(produced(1, txn=True))
    log.flush()
    (part,) = fetch(plane, 0)
    assert (part.aborted_transactions, len(headers(part.records))) == (None, 3)
    (part,) = fetch(plane, 0, isolation=1)
    assert [(each.producer_id, each.first_offset) for each in part.aborted_transactions] == [(7, 0)]
    assert (part.last_stable_offset, len(headers(part.records))) == (2, 2)
    (part,) = fetch(plane, 2, isolation=1)
    assert (part.aborted_transactions, part.records) == ([], b"")


def test_what_cannot_be_fetched_has_an_error_of_its_own(plane: Plane) -> None:
    for log in plane.logs:
        log.append_durable(batch("v"), leader_epoch=2)
    for version in (12, 18):  # by name, and by the id of a topic that has no fourth partition
        rows = fetch(plane, 0, 99, -1, 0, version=version)
        assert [each.error_code for each in rows] == [0, 1, 1, 3]
    assert (rows[1].high_watermark, rows[1].log_start_offset, rows[1].records) == (-1, -1, b"")
    codes = [fetch(plane, 0, epoch=each)[0].error_code for each in (1, 2, 3)]
    assert codes == [74, 0, 75]
    assert fetch(plane, 0, topic="missing", version=12)[0].error_code == 3
    assert fetch(plane, 0, topic_id=uuid4())[0].error_code == 100


def test_the_answer_is_that_of_kafka(plane: Plane) -> None:
    topic_id = uuid4()
    logs = [plane.log_dir.create(corpus.TOPIC, each, LogConfig()) for each in range(5)]
    plane.data_plane.put_topic(corpus.TOPIC, topic_id.bytes, list(logs))
    requests, answers = corpus.captured("request"), corpus.captured("response")
    sent, asked, answer = requests[0], requests[handler.KEY], answers[handler.KEY]
    (topic,) = decode(sent.message, sent.body, sent.version).topic_data
    logs[2].append_durable(topic.partition_data[0].records)
    request = corpus.place(decode(asked.message, asked.body, asked.version), topic_id)
    with plane.client() as client:
        client.send(frame_of(request, handler.KEY, asked.version))
        ours = client.answer(FetchResponse, handler.KEY, asked.version)
    kafkas = decode(answer.message, answer.body, answer.version)
    ours.session_id = kafkas.session_id  # one broker's own
    assert corpus.facts(asdict(ours)) == corpus.facts(asdict(kafkas))
