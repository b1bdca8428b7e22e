"""File descriptors: who gets how many, and what a broker does that has few of them.

At full size, by hand:

    PARTITIONS=10000 LIMIT=20000 python -m pytest tests/native/test_descriptors.py -k kill
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.catalog import kafka_uuid
from appliance.catalog.catalog import Catalog
from appliance.data_dir import descriptor_budget
from appliance.data_dir.descriptor_budget import DescriptorsTooFew, shares
from appliance.data_dir.partition_creation import DescriptorsExhausted
from appliance.errors import LogClosed
from appliance.native import _descriptors
from appliance.topics.topic_rows import TopicRow, TopicRows
from tests.support.logs import batch, everything, log_config, opened, until, values
from tests.support.wire_client import WireClient

PARTITIONS = int(os.environ.get("PARTITIONS", "500"))
LIMIT = int(os.environ.get("LIMIT", "1000"))
DEADLINE_S = 120.0
RETRIABLE = 56  # no descriptor was free: nothing was written

SETTINGS = ["storage.low.water.bytes=0", "storage.reserve.bytes=1048576"]


# Who gets how many


def test_clients_get_half_at_most_and_the_logs_what_they_leave() -> None:
    found = shares(20_000, 10_000)
    assert found.reserve + found.clients + found.logs == found.limit == 20_000
    assert (found.clients, found.logs) == (9_744, 9_744)
    assert shares(20_000, 100).logs == 20_000 - 512 - 100


def test_the_admin_port_gets_an_eighth_at_most_and_two_for_each_connection() -> None:
    found = shares(20_000, 10_000, 512)
    assert found.reserve + found.admin + found.clients + found.logs == 20_000
    assert (found.admin, found.admin_connections) == (1024, 512)
    few = shares(1024, 10_000, 512)
    assert (few.admin, few.admin_connections) == (112, 56)
    assert few.clients == few.logs == (1024 - few.reserve - few.admin) // 2


def test_with_too_few_there_is_no_start_and_the_error_says_how_many_are_wanted() -> None:
    with pytest.raises(DescriptorsTooFew, match="may have 100 file descriptors, wanted at least"):
        shares(100, 10)
    assert shares(160, 10).logs > 0


# Logs


@pytest.fixture
def most() -> Iterator[int]:
    """What the logs of this process may open from the next `opened` on is put back."""
    yield 0
    descriptor_budget.take()


def few(count: int) -> None:
    _descriptors.limit(_descriptors.counters()["open"] + count)


def test_a_log_that_nobody_uses_holds_no_descriptor(tmp_path: Path, most: int) -> None:
    with opened(tmp_path) as log_dir:
        log_dir.create_all("t", range(50), log_config())
        before = _descriptors.counters()["open"]
        log_dir.log("t", 7).append_durable(batch("a"))
        assert _descriptors.counters()["open"] <= before + 2
        log_dir.abandon()
    with opened(tmp_path) as log_dir:
        assert _descriptors.counters()["open"] <= before
        assert values(everything(log_dir.log("t", 7))) == ["a"]


def test_more_partitions_than_descriptors_take_records_and_give_them_back(
    tmp_path: Path, most: int
) -> None:
    with opened(tmp_path) as log_dir:
        few(12)
        logs = log_dir.create_all("t", range(5), log_config())
        logs += [log_dir.create("t", number, log_config()) for number in range(5, 60)]
        for number, log in enumerate(logs):
            log.append_durable(batch(str(number)))
        assert [values(log.read(0)) for log in logs] == [[str(i)] for i in range(60)]
        for log in logs[:20]:
            log.roll()
            log_dir.checkpoint()
        found = _descriptors.counters()
        assert found["open"] <= found["most"]
        assert found["relieved"] > 0
        log_dir.abandon()
    with opened(tmp_path) as log_dir:
        assert [values(everything(log_dir.log("t", i))) for i in range(60)] == [
            [str(i)] for i in range(60)
        ]


def test_a_file_with_unsynced_bytes_is_not_closed_for_another(tmp_path: Path, most: int) -> None:
    """Whoever closes it before the sync may never hear of a write that failed."""
    with opened(tmp_path) as log_dir:
        logs = [log_dir.create("t", number, log_config()) for number in range(4)]
        few(5)
        for log in logs:
            log.append(batch("a"))
        log_dir.create_all("u", range(2), log_config())
        # Three of their files had to be closed for that: they were synced before.
        assert sum(log.durable_offset for log in logs) >= 3


def test_unsynced_files_are_synced_before_they_hold_all_descriptors(
    tmp_path: Path, most: int
) -> None:
    # Files of earlier tests of this process would count, too: a quarter of all is looked ahead.
    with contextlib.suppress(AssertionError):
        until(lambda: _descriptors.counters()["open"] == 0, 5.0)
    with opened(tmp_path) as log_dir:
        logs = [log_dir.create("t", number, log_config()) for number in range(20)]
        few(24)  # their directories can be closed at any time
        before = _descriptors.counters()["refused"]
        for log in logs[:5]:
            log.append(batch("a"))
        assert [log.durable_offset for log in logs[:5]] == [0] * 5
        for log in logs[5:]:
            log.append(batch("a"))
        # Nobody asks for that: their flush.ms is a day.
        assert until(lambda: sum(log.durable_offset for log in logs) >= 5)
        assert _descriptors.counters()["refused"] == before


def test_creation_says_how_many_descriptors_there_are(
    tmp_path: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("appliance.data_dir.partition_creation.DESCRIPTORS_S", 0.1)
    with opened(tmp_path) as log_dir:
        few(0)
        with pytest.raises(DescriptorsExhausted) as caught:
            log_dir.create_all("t", range(3), log_config())
        assert caught.value.kafka_code == 44
        assert "t: creating 3 partitions takes 6 file descriptors at once" in str(caught.value)
        assert not list(tmp_path.glob("t-*"))


def test_a_deleted_topic_s_log_touches_nothing_of_one_made_anew(tmp_path: Path, most: int) -> None:
    """Its directory is opened by name when it is needed, and the name is another's by then."""
    with opened(tmp_path) as log_dir:
        old = log_dir.create("t", 0, log_config())
        old.append_durable(batch("old"))
        old.rest(0)
        log_dir.delete("t", 0)
        new = log_dir.create("t", 0, log_config())
        new.append_durable(batch("new"))
        assert old.retain(10**15) == 0
        with pytest.raises(LogClosed):
            old.read(0)
        assert values(new.read(0)) == ["new"]


# A broker


class Served:
    """`appliance serve` with so many descriptors."""

    def __init__(self, data: Path, limit: int, *settings: str) -> None:
        command = [sys.executable, "-m", "appliance", "serve", "--data-dir", str(data)]
        command += ["--admin", "127.0.0.1:0", "--listen", "127.0.0.1:0"]
        for each in [*SETTINGS, *settings]:
            command += ["--set", each]
        with (data.parent / "stderr").open("w") as told:
            self.process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=told,
                text=True,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)),
            )
        assert self.process.stdout is not None
        ready = self.process.stdout.readline()
        assert ready.startswith("ready"), (data.parent / "stderr").read_text()
        facts = dict(word.split("=", 1) for word in ready.split()[1:])
        host, port = facts["kafka"].rsplit(":", 1)
        self.kafka, self.admin = (host, int(port)), facts["admin"]

    @property
    def health(self) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(f"http://{self.admin}/healthz", timeout=30) as answer:
                found: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as error:
            found = json.load(error)
        return found

    @property
    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(DEADLINE_S)


@contextlib.contextmanager
def served(data: Path, limit: int, *settings: str) -> Iterator[Served]:
    broker = Served(data, limit, *settings)
    try:
        yield broker
    finally:
        broker.kill()
        broker.process.communicate()


def write_to_all(broker: Served, partitions: int, value: str) -> int:
    """One record to each, in requests of a hundred, and again where it is refused; how often."""
    refused, end = 0, time.monotonic() + DEADLINE_S
    with WireClient(broker.kafka, timeout=DEADLINE_S) as client:
        left = list(range(0, partitions, 100))
        for first in left:
            wanted = range(first, min(first + 100, partitions))
            answers = client.produce(*[batch(value)] * len(wanted), acks=-1, partition=first)
            again = [each.index for each in answers if each.error_code]
            assert {each.error_code for each in answers} <= {0, RETRIABLE}, answers
            while again:
                assert time.monotonic() < end, f"{again} take no record"
                refused += len(again)
                found = [
                    (number, client.produce(batch(value), acks=-1, partition=number)[0].error_code)
                    for number in again
                ]
                assert {code for _, code in found} <= {0, RETRIABLE}
                again = [number for number, code in found if code]
    return refused


@pytest.mark.parametrize("limit", [LIMIT, 256], ids=["enough for a start", "hardly any"])
def test_after_kill_9_many_partitions_start_with_few_descriptors_and_take_records(
    tmp_path: Path, limit: int
) -> None:
    data = tmp_path / "data"
    with opened(data) as log_dir:
        for log in log_dir.create_all("t", range(PARTITIONS), log_config()):
            log.append(batch("before"))
            log.ask_commit()
        for log in log_dir.logs().values():
            log.await_durable(0)
        log_dir.abandon()
    catalog = Catalog.open(data / "catalog.db")
    TopicRows(catalog).settle([TopicRow("t", kafka_uuid.new(), PARTITIONS, {}, 0)], 0)
    catalog.close()
    with served(data, limit) as broker:
        assert broker.health["status"] == "ok", broker.health
        assert broker.descriptors < 128
        write_to_all(broker, PARTITIONS, "during")
        assert broker.descriptors < limit
        found = broker.health
        assert found["partitions"] == PARTITIONS
        # That idle files were closed for others is no trouble; that somebody was refused is.
        assert found["status"] == "ok" or "were refused" in found["reasons"][0], found
    with served(data, limit) as broker:
        assert broker.health["partitions"] == PARTITIONS
    with opened(data) as log_dir:
        assert all(
            values(everything(log_dir.log("t", number))) == ["before", "during"]
            for number in range(PARTITIONS)
        )
