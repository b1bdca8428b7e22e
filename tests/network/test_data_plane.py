"""The data plane as a whole: the order of answers, what it passes on, its threads and its stop."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from appliance.protocol.messages.fetch import FetchRequest
from appliance.record import _batch_builder
from appliance.record._records import Record
from tests.support import own_threads
from tests.support.data_plane import Plane, batch, client, make, plane
from tests.support.logs import until
from tests.support.wire_client import WireClient, frame_of, produce_frame, with_length

__all__ = ["client", "make", "plane"]


# Order

def test_answers_keep_the_order_of_requests(client: WireClient) -> None:
    """A fetch that waits does not stop the produce behind it, but its answer goes first."""
    client.send_fetch(0, wait_ms=400)
    client.send_produce(batch(b"after"), acks=1)
    client.send(frame_of(FetchRequest(), 1, 12,
                         correlation_id=77))
    assert b"after" in client.receive()
    client.receive()
    assert client.receive()[:4] == struct.pack(">i", 77)


def test_a_thousand_requests_in_one_write(client: WireClient, plane: Plane) -> None:
    for _ in range(1000):
        client.send_produce(batch(), acks=-1)
    for i in range(1000):
        frame = client.receive()
        assert struct.pack(">q", i) in frame
    assert plane.logs[0].durable_offset == 1000


def test_more_requests_than_may_be_in_flight(make: Any) -> None:
    plane = make(requests_per_connection=4)
    with plane.client() as client:
        for _ in range(50):
            client.send_produce(batch(), acks=-1)
        assert [struct.pack(">q", i) in client.receive() for i in range(50)] == [True] * 50


# The control plane's side

def test_other_requests_are_passed_on(client: WireClient, plane: Plane) -> None:
    client.send(struct.pack(">hhih", 18, 0, 42, -1))
    client.send_fetch(0)
    plane.wait_for("punted_requests", 1)
    (punt,), _ = plane.data_plane.punts()
    assert punt.peer == "127.0.0.1"
    assert punt.frame[:2] == b"\0\x12"
    plane.data_plane.reply_all([(punt.connection, punt.slot, b"answer")])
    assert client.receive() == b"answer"
    client.receive()
    plane.data_plane.reply_all([(punt.connection, punt.slot, b"twice is once")])
    plane.data_plane.close(punt.connection)
    with pytest.raises(EOFError):
        client.receive()


def test_an_answer_alone_is_sent_by_who_gives_it(client: WireClient, plane: Plane) -> None:
    """In the place of a network thread that sleeps, which would have to be woken."""
    threads = own_threads.named("processor")
    for number in range(1, 21):
        client.send(struct.pack(">hhih", 18, 0, 42, -1))
        plane.wait_for("punted_requests", number)
        until(lambda: all(map(is_asleep, threads)))
        (punt,), _ = plane.data_plane.punts()
        plane.data_plane.reply_all([(punt.connection, punt.slot, b"%d" % number)])
        assert client.receive() == b"%d" % number
    assert plane.data_plane.counters()["processor_visits"] >= 10


def is_asleep(thread: Path) -> bool:
    """Or has ended, as one of a plane before."""
    try:
        text = (thread / "stat").read_text()
    except OSError:
        return True
    return text.rpartition(")")[2].split()[0] == "S"


@pytest.mark.alone
def test_a_request_that_stood_back_goes_on_with_the_answer_to_the_one_before(make: Any) -> None:
    """Its network thread runs it, woken by who gave that answer; the sweep comes 0.2 s later."""
    plane = make(control_requests_per_connection=1)
    took = []
    with plane.client() as client:
        for number in range(1, 31):
            asked = with_length(struct.pack(">hhih", 18, 0, 42, -1))
            client.socket.sendall(asked + produce_frame(batch()))  # read at once, so it is held
            plane.wait_for("punted_requests", number)
            time.sleep(0.01)
            assert plane.logs[0].log_end_offset == number - 1
            (punt,), _ = plane.data_plane.punts()
            begin = time.monotonic()
            plane.data_plane.reply_all([(punt.connection, punt.slot, b"answer")])
            assert client.receive() == b"answer"
            client.receive()
            took.append(time.monotonic() - begin)
    assert plane.logs[0].log_end_offset == len(took)
    assert sum(each > 0.1 for each in took) <= 3


def test_a_compacted_topic_gets_keys_itself_and_passes_on_what_lacks_them(make: Any) -> None:
    plane = make(cleanup_policy="compact")
    keyless = bytes(_batch_builder.batch([Record(0, b"k", b"v"), Record(1, None, b"v")]))
    with plane.client() as client:
        assert client.produce(batch())[0].error_code == 0
        assert client.produce(batch()[:-1])[0].error_code == 2
        assert plane.data_plane.counters()["punted_requests"] == 0
        for number, data in enumerate([keyless, batch(codec="gzip")], 1):
            client.send_produce(data)
            plane.wait_for("punted_requests", number)
            (punt,), _ = plane.data_plane.punts()
            plane.data_plane.reply_all([(punt.connection, punt.slot, b"answer")])
            assert client.receive() == b"answer"
    assert plane.logs[0].log_end_offset == 1


def test_a_transaction_is_begun_by_the_control_plane_and_goes_on_here(
    client: WireClient, plane: Plane
) -> None:
    def part(sequence: int, epoch: int = 0) -> bytes:
        return batch(
            producer_id=7, producer_epoch=epoch, base_sequence=sequence, transactional=True
        )

    def is_passed_on(data: bytes, number: int) -> bool:
        client.send_produce(data)
        plane.wait_for("punted_requests", number)
        (punt,), _ = plane.data_plane.punts()
        plane.data_plane.reply_all([(punt.connection, punt.slot, b"answer")])
        return client.receive() == b"answer"

    assert is_passed_on(part(0), 1)
    plane.logs[0].append(part(0))
    assert [client.produce(part(n))[0].error_code for n in (1, 2)] == [0, 0]
    assert is_passed_on(part(0, epoch=1), 2)
    plane.logs[0].append(_batch_builder.control_batch("commit", 7, 0, 0, 0), origin="coordinator")
    assert is_passed_on(part(3), 3)
    plain = batch(producer_id=7, producer_epoch=0, base_sequence=3)
    assert client.produce(plain)[0].error_code == 0


def test_no_produce_overtakes_one_that_was_passed_on(make: Any) -> None:
    plane = make(cleanup_policy="compact")
    with plane.client() as client:
        client.send_produce(batch(codec="gzip"))
        client.send_produce(batch(), partition=1)
        client.send_produce(batch())
        plane.wait_for("punted_requests", 3)
        for punt in plane.data_plane.punts()[0]:
            assert [log.log_end_offset for log in plane.logs] == [0, 0, 0]
            plane.data_plane.reply_all([(punt.connection, punt.slot, b"answer")])
            assert client.receive() == b"answer"
        assert client.produce(batch())[0].base_offset == 0


# Life

@pytest.mark.alone
def test_a_stop_answers_what_waits(make: Any) -> None:
    plane = make()
    with plane.client() as client:
        client.send_fetch(0, wait_ms=60_000)
        time.sleep(0.1)
        begin = time.monotonic()
        plane.data_plane.stop(5000)
        assert client.receive()
        assert time.monotonic() - begin < 2
        with pytest.raises(EOFError):
            client.receive()


CHILD = """
import os, sys
from tests.support.wire_client import WireClient
from tests.support.data_plane import batch
with WireClient((sys.argv[1], int(sys.argv[2]))) as client:
    sent, count = batch(), 0
    while not os.path.exists(sys.argv[3]):
        offset = client.produce(sent, acks=-1)[0].base_offset
        assert client.fetch_one(offset).records
        count += 1
    print(count)
"""
HELD_S = 1.5
HELD_TIMES_MAX = 10  # the machine may be busy with other tests, and the disk slow


def test_no_thread_of_the_data_plane_takes_the_gil(plane: Plane, tmp_path: Path) -> None:
    """This process's GIL is never let go while another process produces, waits for the disk, and
    fetches: a single acquisition would stop all of it."""
    folders = ":".join(each for each in sys.path if each)
    is_over, during = tmp_path / "is_over", list[int]()
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, *map(str, plane.address), str(is_over)],
        stdout=subprocess.PIPE, cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": folders})
    try:
        plane.wait_for("produce_requests", 1)
        while len(during) < HELD_TIMES_MAX and max(during, default=0) <= 20:
            during.append(produced_while_the_gil_is_held(plane))
    finally:
        is_over.touch()
        output, _ = child.communicate(timeout=30)
    assert child.returncode == 0
    told = f"{during} produce requests while the GIL was held, {output!r} in all"
    assert max(during) > 20, told


def produced_while_the_gil_is_held(plane: Plane) -> int:
    old, before = sys.getswitchinterval(), plane.data_plane.counters()["produce_requests"]
    sys.setswitchinterval(1000)  # whoever asks for the GIL waits for the end of the loop
    try:
        end = time.monotonic() + HELD_S
        while time.monotonic() < end:
            pass
        return plane.data_plane.counters()["produce_requests"] - before
    finally:
        sys.setswitchinterval(old)
