"""The real process: started, asked, stopped, killed, started again."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance import config
from appliance.broker.broker import Broker as Control
from appliance.data_dir.log_dir import LogDir
from appliance.errors import ApplianceError, StorageFull
from appliance.process.interval import Interval
from appliance.protocol.messages.create_topics import CreateTopicsRequest
from appliance.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from appliance.protocol.messages.metadata import MetadataRequest
from appliance.record import _batch_builder
from appliance.server import Server
from loadtest.ports import lasting_port
from tests.support.broker import with_broker
from tests.support.wire_client import WireClient, frame_of

DEADLINE_S = 20.0
SMALL = {"storage.low.water.bytes": "0", "storage.reserve.bytes": "1048576"}


class Broker:
    """`appliance serve` on a free port, up to its ready line."""

    def __init__(self, data: Path, *options: str, **environment: str) -> None:
        command = [sys.executable, "-m", "appliance", "serve", "--data-dir", str(data)]
        command += ["--admin", "127.0.0.1:0", "--listen", "127.0.0.1:0", *options]
        for name, value in SMALL.items():
            if not any(each.startswith(f"{name}=") for each in options):
                command += ["--set", f"{name}={value}"]
        self.process = self._start(command, environment)
        assert self.process.stdout is not None
        self.ready = self.process.stdout.readline().strip()
        facts = dict(word.split("=", 1) for word in shlex.split(self.ready)[1:])
        self.kafka = facts.get("kafka", "")
        self.admin, self.data = facts.get("admin", ""), facts.get("data", "")
        self.export = facts.get("export", "")

    def _start(self, command: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **environment},
        )  # fmt: skip

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: object) -> None:
        self.end(signal.SIGKILL)

    def end(self, number: signal.Signals) -> tuple[int, str]:
        self.process.send_signal(number)
        _, told = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, told

    def get(self, path: str) -> tuple[int, Any]:
        return get(f"http://{self.admin}{path}")


def get(url: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def batch(count: int) -> bytes:
    return _batch_builder.batch([(1_700_000_000_000, b"k%d" % i, b"v" * 100) for i in range(count)])


def fill(data: Path, topic: str, count: int) -> None:
    storage = config.StorageConfig(low_water_bytes=0, reserve_bytes=1 << 20)
    logs = LogDir.open(data, storage)
    logs.create(topic, 0, config.LogConfig()).append_durable(batch(count))
    logs.close()


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_an_empty_directory_serves_and_stops_cleanly(tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker:
        assert broker.ready == (
            f"ready kafka={broker.kafka} admin={broker.admin} "
            f"export={broker.export} data={tmp_path / 'data'}"
        )
        status, health = broker.get("/healthz")
        assert (status, health["status"], health["partitions"]) == (200, "ok", 0), health
        assert broker.get("/livez") == (200, {"status": "alive"})
        assert broker.get("/api/v1/logs") == (200, {"logs": []})
        code, told = broker.end(signal.SIGTERM)
    assert code == 0
    assert "stopping signal=SIGTERM" in told
    assert told.rstrip().endswith("stopped")


def test_an_interrupt_at_the_terminal_is_a_clean_stop(tmp_path: Path) -> None:
    with Broker(tmp_path / "my data") as broker:
        assert broker.ready.endswith(f" data='{tmp_path / 'my data'}'"), "a script reads one word"
        code, told = broker.end(signal.SIGINT)
    assert code == 0
    assert "Traceback" not in told


def test_after_kill_9_it_serves_what_it_had(tmp_path: Path) -> None:
    fill(tmp_path, "orders", 7)
    for _ in range(3):
        with Broker(tmp_path) as broker:
            (log,) = broker.get("/api/v1/logs")[1]["logs"]
            assert (log["topic"], log["partition"], log["failed"]) == ("orders", 0, None)
            assert log["log_start_offset"] == 0
            assert log["log_end_offset"] == log["durable_offset"] == 7
            assert log["size_bytes"] == len(batch(7))
            broker.end(signal.SIGKILL)


def test_a_second_broker_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    with Broker(tmp_path), Broker(tmp_path) as second:
        assert second.ready == ""
        _, told = second.process.communicate(timeout=DEADLINE_S)
        assert second.process.returncode == 1
        assert str(tmp_path) in told
        assert "Traceback" not in told


def test_a_taken_port_ends_the_start_with_one_line(tmp_path: Path) -> None:
    with Broker(tmp_path / "a") as first, Broker(tmp_path / "b", "--admin", first.admin) as second:
        _, told = second.process.communicate(timeout=DEADLINE_S)
        assert second.process.returncode == 1
        assert "address already in use" in told
        assert "Traceback" not in told


def test_health_says_that_the_disk_is_low(tmp_path: Path) -> None:
    with Broker(tmp_path, "--set", f"storage.low.water.bytes={1 << 60}") as broker:
        status, health = broker.get("/healthz")
        assert (status, health["status"]) == (503, "failing")
        assert "wanted (storage.low.water.bytes); writes are refused" in health["reasons"][0]


def test_an_error_has_one_shape(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        wanted = {"error": {"code": "not_found", "message": "GET /nowhere: Not Found"}}
        assert broker.get("/nowhere") == (404, wanted)


def test_systemd_is_told(tmp_path: Path) -> None:
    fill(tmp_path / "data", "orders", 1)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "notify"))
        channel.settimeout(DEADLINE_S)
        with Broker(tmp_path / "data", NOTIFY_SOCKET=str(tmp_path / "notify")) as broker:
            told = [channel.recv(4096).decode()]
            while not told[-1].startswith("READY=1"):
                told.append(channel.recv(4096).decode())
            assert told[0].startswith("EXTEND_TIMEOUT_USEC=")
            broker.end(signal.SIGTERM)
            assert channel.recv(4096) == b"STOPPING=1"


@pytest.mark.skipif(os.geteuid() != 0, reason="this process is not root, of whom it is told")
def test_root_is_told(tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker:
        status, health = broker.get("/healthz")
        assert (status, health["status"], health["runs_as_root"]) == (200, "ok", True)
        _, told = broker.end(signal.SIGTERM)
    assert "running as root" in told


def test_while_it_recovers_it_is_alive_and_not_healthy(tmp_path: Path) -> None:
    fill(tmp_path, "orders", 1)
    address = config.Address("127.0.0.1", lasting_port())
    server = Server(config.BrokerConfig(data_dir=tmp_path, admin_address=address))
    seen = []

    def progress(done: int, found: int) -> None:
        seen.append((get(f"http://{address}/livez")[0], get(f"http://{address}/healthz")))
        os.kill(os.getpid(), signal.SIGTERM)

    asyncio.run(server.run(progress))
    alive, (status, health) = seen[0]
    assert (alive, status, health["status"]) == (200, 503, "recovering")


@pytest.mark.parametrize("error", [StorageFull("no room"), ZeroDivisionError("not foreseen")])
def test_a_failing_timer_shows_until_it_succeeds(error: Exception, tmp_path: Path) -> None:
    runs: list[Exception | None] = [error, None]
    seen = []

    def job() -> int:
        seen.append(dict(server.faults))
        fault = runs.pop(0) if runs else None
        if len(seen) == 3:
            server.stopping.set()
        if fault:
            raise fault
        return 1

    async def main() -> None:
        await server._every("retention", Interval(1), job)

    server = Server(config.BrokerConfig(data_dir=tmp_path))
    asyncio.run(main())
    told = str(error) if isinstance(error, ApplianceError) else repr(error)
    assert seen == [{}, {"retention": told}, {}]


def test_retention_runs_by_itself(tmp_path: Path) -> None:
    """The records are years old: they go as soon as they are there."""
    asked = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name="orders")], allow_auto_topic_creation=True
    )
    with Broker(tmp_path, "--set", "log.retention.check.interval.ms=10") as broker:
        host, port = broker.kafka.split(":")
        with WireClient((host, int(port))) as client:
            client.send(frame_of(asked, 3, 12))
            client.receive()
            (part,) = client.produce(batch(3), topic="orders", acks=-1)
        assert part.error_code == 0
        until(lambda: broker.get("/api/v1/logs")[1]["logs"][0]["log_start_offset"] == 3)


def test_an_interval_that_is_changed_counts_for_the_turn_that_is_waited_for(tmp_path: Path) -> None:
    """Compaction would look once an hour; a client sets the moment when there is work for it."""
    an_hour = "log.cleaner.backoff.ms=3600000"
    due = {"cleanup.policy": "compact", "segment.bytes": "500", "min.cleanable.dirty.ratio": "0"}
    topic = CreateTopicsRequest.CreatableTopic("t", 1, 1, configs=[
        CreateTopicsRequest.CreatableTopicConfig(*each) for each in due.items()])
    sooner = IncrementalAlterConfigsRequest.AlterableConfig("log.cleaner.backoff.ms", 0, "10")
    change = IncrementalAlterConfigsRequest([
        IncrementalAlterConfigsRequest.AlterConfigsResource(4, "1", [sooner])])

    def size() -> int:
        try:
            return sum(each.stat().st_size for each in tmp_path.glob("t-0/*.log"))
        except FileNotFoundError:  # compaction is putting another in its place
            return sys.maxsize

    with Broker(tmp_path, "--set", an_hour) as broker:
        host, port = broker.kafka.split(":")
        with WireClient((host, int(port))) as client:
            client.send(frame_of(CreateTopicsRequest([topic]), 19, 7))
            client.receive()
            for _ in range(3):
                (part,) = client.produce(batch(3), topic="t", acks=-1)
                assert part.error_code == 0
            was = size()
            client.send(frame_of(change, 44, 1))
            client.receive()
        until(lambda: size() < was)


def test_what_the_start_found_shows_in_health(tmp_path: Path) -> None:
    async def make(broker: Control) -> None:
        await broker.topics.create("orders", 2)

    with_broker(tmp_path, make)
    segment = tmp_path / "orders-1" / f"{0:020d}.log"
    segment.unlink()
    segment.mkdir()
    with Broker(tmp_path) as broker:
        status, health = broker.get("/healthz")
        assert (status, health["topics"], health["partitions"]) == (503, 1, 1)
        assert any(each.startswith("not opened: orders-1: ") for each in health["reasons"])
