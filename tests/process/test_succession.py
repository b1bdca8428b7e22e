"""A new process takes over from a broker that serves: no socket closes, nothing acknowledged is
lost, and one that cannot start leaves the old one where it is."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import time
from contextlib import ExitStack
from pathlib import Path

import confluent_kafka as ck
import pytest

from loadtest.ports import lasting_ports
from tests.support.children import children_of
from tests.support.consumed import consumed
from tests.support.logs import until
from tests.support.release import gate_has
from tests.support.serving import Serving

DEADLINE_S = 60.0


class Followed:
    """A broker, and then its successors, which are no children of ours."""

    def __init__(self, folder: Path, admin_host: str = "127.0.0.1") -> None:
        port, admin, export = lasting_ports(3)
        named = {"export.address": f"127.0.0.1:{export}"}
        self.serving = Serving(
            folder, port=port, admin_port=admin, admin_host=admin_host, **named
        )  # fmt: skip
        self.bootstrap = f"127.0.0.1:{port}"
        self.pid = self.serving.process.pid

    def take_over(self) -> int:
        """The process that serves then."""
        told = "another process takes over"
        before = self.serving.log.count(told)
        os.kill(self.pid, signal.SIGUSR2)
        until(lambda: self.serving.log.count(told) > before, DEADLINE_S)
        output = self.serving.process.stdout
        assert output is not None
        assert output.readline().startswith("ready"), self.serving.log
        self.pid = int(re.findall(r"another process takes over pid=(\d+)", self.serving.log)[-1])
        return self.pid

    def stop(self) -> None:
        if self.pid != self.serving.process.pid:
            os.kill(self.pid, signal.SIGTERM)
        self.serving.stop()
        output = self.serving.process.stdout
        assert output is not None
        end = time.monotonic() + DEADLINE_S
        while Path(f"/proc/{self.pid}/fd/1").exists():
            assert time.monotonic() < end, self.serving.log
            time.sleep(0.01)


def test_a_new_process_takes_over_while_a_producer_sends(tmp_path: Path) -> None:
    broker = Followed(tmp_path)
    acknowledged: list[bytes] = []
    refused: list[str] = []

    def told(error: object, message: ck.Message) -> None:
        assert error is None
        acknowledged.append(message.value() or b"")

    producer = ck.Producer({
        "bootstrap.servers": broker.bootstrap, "enable.idempotence": True,
        "error_cb": lambda error: refused.append(str(error)),
    })  # fmt: skip
    first = broker.pid
    for turn in range(3):
        for number in range(300):
            producer.produce("orders", f"{turn} {number}", on_delivery=told)
            producer.poll(0.001)
            if number == 150 and turn:
                assert broker.take_over() != first
    producer.flush(DEADLINE_S)
    assert len(acknowledged) == 900
    found = [each.value for each in consumed(broker.bootstrap, "orders")]
    assert sorted(found) == sorted(acknowledged)
    assert not [each for each in refused if "refused" in each], "somebody always listened"
    assert broker.serving.log.count("after a clean stop") == 2
    broker.stop()


def test_who_connects_before_the_new_one_serves_waits(tmp_path: Path) -> None:
    """Its settings name the same listener, so it is the same socket."""
    broker = Followed(tmp_path)
    host, _, port = broker.bootstrap.rpartition(":")
    os.kill(broker.pid, signal.SIGUSR2)
    broker.serving.wait_for_log("another process takes over")
    with socket.create_connection((host, int(port)), DEADLINE_S) as one:
        one.sendall(bytes.fromhex("0000000a 0012 0000 00000007 0000"))  # ApiVersions
        assert one.recv(8)[4:8] == bytes.fromhex("00000007")
    output = broker.serving.process.stdout
    assert output is not None
    assert output.readline().startswith("ready")
    broker.pid = int(re.findall(r"takes over pid=(\d+)", broker.serving.log)[-1])
    broker.stop()


def test_a_broker_with_more_than_1024_descriptors_is_taken_over(tmp_path: Path) -> None:
    """What it waits for is told by a descriptor above those that select takes."""
    broker = Followed(tmp_path)
    host, _, port = broker.bootstrap.rpartition(":")
    with ExitStack() as connections:
        for _ in range(1024):
            connections.enter_context(socket.create_connection((host, int(port)), DEADLINE_S))
        descriptors = Path(f"/proc/{broker.pid}/fd")
        until(lambda: len([*descriptors.iterdir()]) > 1024)
        broker.take_over()
    broker.stop()


@pytest.mark.parametrize(
    "why", gate_has(["newer data"], "another refusal of the same check", ["newer data", "damage"])
)
def test_one_that_cannot_start_leaves_the_old_one(tmp_path: Path, why: str) -> None:
    broker = Followed(tmp_path)
    format_file = broker.serving.data / "format"
    kept = format_file.read_text()
    if why == "newer data":
        told = {**json.loads(kept), "format": "2.0", "appliance": "9.9"}
        format_file.write_text(json.dumps(told))
    else:
        format_file.write_text("{")
    os.kill(broker.pid, signal.SIGUSR2)
    broker.serving.wait_for_log("no other process takes over, this one goes on")
    wanted = "appliance 9.9 .* wrote it" if why == "newer data" else "does not say which format"
    assert re.search(wanted, broker.serving.log)
    producer = ck.Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("orders", b"still here")
    assert producer.flush(DEADLINE_S) == 0
    # and when that is mended, one takes over
    format_file.write_text(kept)
    broker.take_over()
    assert [each.value for each in consumed(broker.bootstrap, "orders")] == [b"still here"]
    broker.stop()


def test_pages_without_a_password_stay_on_loopback(tmp_path: Path) -> None:
    """The new process is made while the old one has the catalog locked: it looks when it is not."""
    broker = Followed(tmp_path, admin_host="0.0.0.0")
    broker.take_over()
    assert broker.serving.log.count("they and bulk data are on loopback until one is set") == 2
    broker.stop()


def test_who_stops_a_broker_that_hands_over_wants_no_other(tmp_path: Path) -> None:
    """And two signals make one successor, which never gets ready: what it reads has no writer."""
    broker = Followed(tmp_path)
    format_file = broker.serving.data / "format"
    format_file.unlink()
    os.mkfifo(format_file)
    for _ in range(2):
        os.kill(broker.pid, signal.SIGUSR2)
    until(lambda: [*children_of(broker.pid)])
    os.kill(broker.pid, signal.SIGTERM)
    assert broker.serving.process.wait(DEADLINE_S) == 0
    output = broker.serving.process.stdout
    assert output is not None
    assert output.readline() == "", "nobody else has it"
    assert "takes over pid=" not in broker.serving.log
    broker.stop()


def test_a_broker_that_starts_or_stops_does_not_end_by_the_signal(tmp_path: Path) -> None:
    broker = Followed(tmp_path)
    os.kill(broker.pid, signal.SIGTERM)
    os.kill(broker.pid, signal.SIGUSR2)
    assert broker.serving.process.wait(DEADLINE_S) == 0
    assert "takes over" not in broker.serving.log
    broker.stop()
