"""Followers of something that is no leader, or a broken one."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from appliance._log import Log
from appliance.protocol import codec
from appliance.protocol.messages.fetch import FetchRequest, FetchResponse
from appliance.replication._replica_fetcher import Fetcher
from tests.support.logs import batch, one_log, until
from tests.support.replica_site import REPLICATION
from tests.support.wire_client import TOPIC_ID

Answer = Callable[[FetchRequest], bytes]
Follow = Callable[[Answer], tuple["FalseLeader", Fetcher, Log]]


class FalseLeader:
    """Answers each request with the bytes of `answer`, behind its length."""

    def __init__(self, answer: Answer) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.answer = answer
        self.connections = 0
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self) -> None:
        while True:
            connection, _ = self.listener.accept()
            self.connections += 1
            with suppress(OSError), connection, connection.makefile("rb") as stream:
                while len(head := stream.read(4)) == 4:
                    frame = stream.read(struct.unpack(">i", head)[0])
                    if not frame:
                        return
                    answer = self.answer(codec.decode(FetchRequest, frame[18:], 17))
                    connection.sendall(answer.replace(b"CORR", frame[4:8]))

    def stop(self) -> None:
        with socket.create_connection(("127.0.0.1", self.port)) as client:
            client.sendall(struct.pack(">i", 0))
        self.thread.join()
        self.listener.close()


def framed(answer: FetchResponse) -> bytes:
    body = b"CORR\0" + codec.encode(answer, 17)
    return struct.pack(">i", len(body)) + body


def about(session: int = 5, **part: object) -> Answer:
    """Always the same of `t`-0."""
    data = FetchResponse.PartitionData(partition_index=0, error_code=0, high_watermark=0,
                                       log_start_offset=0, **part)  # type: ignore[arg-type]
    topic = FetchResponse.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])
    return lambda asked: framed(FetchResponse(session_id=session, responses=[topic]))


@pytest.fixture
def follow(tmp_path: Path) -> Iterator[Follow]:
    ends: list[Callable[[], object]] = []
    with one_log(tmp_path) as log:
        log.append_durable(batch("own"))

        def begin(answer: Answer) -> tuple[FalseLeader, Fetcher, Log]:
            leader = FalseLeader(answer)
            log.follow(1, 1)
            fetcher = Fetcher(1, "127.0.0.1", leader.port, 2, 7, REPLICATION)
            fetcher.add(TOPIC_ID.bytes, "t", 0, log)
            fetcher.start()
            ends.extend([lambda: fetcher.stop(5000), leader.stop])
            return leader, fetcher, log

        yield begin
        for end in ends:
            end()


GARBAGE: dict[str, Answer] = {
    "another protocol": lambda asked: b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "an answer to another request": lambda asked: struct.pack(">ii", 4, 77),
    "half a head": lambda asked: struct.pack(">i", 6) + b"CORR\0\0",
    "more topics than bytes": lambda asked: struct.pack(">i", 16) + b"CORR\0" + bytes(10) + b"\x7f",
    "a negative size": lambda asked: struct.pack(">i", -1) + b"CORR",
}


@pytest.mark.parametrize("answer", GARBAGE.values(), ids=GARBAGE)
def test_what_is_no_answer_ends_the_connection(follow: Follow, answer: Answer) -> None:
    """It is tried again, ever more slowly."""
    leader, fetcher, log = follow(answer)
    until(lambda: leader.connections >= 3)
    assert fetcher.failure == "what came is no answer to a Fetch"
    assert log.log_end_offset == 1


def test_a_session_that_is_lost_is_begun_anew(follow: Follow) -> None:
    lost = FetchResponse(error_code=70)
    begun = FetchResponse(session_id=5)
    leader, fetcher, _ = follow(lambda asked: framed(lost if asked.session_epoch else begun))
    until(lambda: leader.connections >= 3)
    assert fetcher.failure == "FETCH_SESSION_ID_NOT_FOUND"


def test_a_leader_that_refuses_all_is_asked_more_slowly(follow: Follow) -> None:
    leader, fetcher, _ = follow(lambda asked: framed(FetchResponse(error_code=42)))
    until(lambda: leader.connections >= 3)
    assert fetcher.failure == "INVALID_REQUEST"


def broken(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def stamped(data: bytes, offset: int, epoch: int = 1) -> bytes:
    return struct.pack(">q", offset) + data[8:12] + struct.pack(">i", epoch) + data[16:]


RECORDS = {
    "a wrong checksum": broken(stamped(batch("a"), 1), 65),
    "another format": broken(stamped(batch("a"), 1), 16),
    "an epoch that is to come": stamped(batch("a"), 1, epoch=2),
    "from the middle of what is here": stamped(batch("a", "b"), 0),
}


@pytest.mark.parametrize("data", RECORDS.values(), ids=RECORDS)
def test_records_that_cannot_be_the_leaders_are_refused(follow: Follow, data: bytes) -> None:
    """The partition alone is left out; the connection stays."""
    leader, fetcher, log = follow(about(records=data))
    (state,) = until(lambda: [each for each in fetcher.states() if each.error])
    assert state.reason
    assert (log.log_end_offset, leader.connections) == (1, 1)


def test_a_divergence_that_is_none_cuts_nothing(follow: Follow) -> None:
    end = FetchResponse.EpochEndOffset(epoch=0, end_offset=5)
    _, fetcher, log = follow(about(diverging_epoch=end))
    until(lambda: [each for each in fetcher.states() if each.error])
    assert log.log_end_offset == 1


def test_partitions_that_were_not_asked_for_are_passed_over(follow: Follow) -> None:
    def answer(asked: FetchRequest) -> bytes:
        parts = [FetchResponse.PartitionData(partition_index=each, error_code=0, high_watermark=0,
                                             records=batch("a")) for each in (1, -1)]  # fmt: skip
        topic = FetchResponse.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=parts)
        return framed(FetchResponse(session_id=5, responses=[topic]))

    _, fetcher, log = follow(answer)
    until(lambda: fetcher.counters()["requests"] > 5)
    (state,) = fetcher.states()
    assert (state.error, log.log_end_offset) == (0, 1)
