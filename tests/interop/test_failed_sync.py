"""A sync fails under clients, and the broker restarts on the disk as it is then.

It is unknown whether unsynced records are on the disk. The broker drops them, so its error to
clients, KAFKA_STORAGE_ERROR, is true: they were not written. Each client resends them in its way,
librdkafka also under a new epoch, and the log has every record once.
docs/decisions/failed-sync-answer.md has the effects of other errors.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from appliance.client.producer import Producer
from appliance.client.producer_config import ProducerConfig
from appliance.topics.reopening import RETRY_MIN_MS
from tests.interop import kafka_jars
from tests.interop.clients import CLIENTS, Client, Record
from tests.interop.kafka_tools import TOOLS
from tests.interop.test_transactions import DEADLINE_S, values
from tests.support.frame_relay import FrameRelay
from tests.support.logs import until
from tests.support.release import gate_has
from tests.support.warm_broker import WarmBroker as Broker

SOURCE = Path(__file__).with_name("failing_sync.c")
PRODUCE = b"\0\0"
TOPIC = "t"


def library() -> Path:
    named = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    made = kafka_jars.CACHE / f"failing_sync-{named}.so"
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        part = made.with_suffix(f".{os.getpid()}")
        flags = ("-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")
        subprocess.run(["gcc", *flags, "-o", part, SOURCE, "-ldl"], check=True)
        part.rename(made)
    return made


class Failing:
    """One data directory, one address, and a disk that fails on command."""

    def __init__(self, path: Path) -> None:
        self._path, self._waits, self._fails = path / "data", path / "waits", path / "fails"
        self.produced = 0  # requests
        self._relay = FrameRelay(self._count)
        self.address = f"127.0.0.1:{self._relay.port}"
        self._start(
            LD_PRELOAD=str(library()),
            SYNC_WAITS=str(self._waits),
            SYNC_FAILS=str(self._fails),
            SYNC_BELOW=f"/{TOPIC}-0/",
        )
        admin = AdminClient({"bootstrap.servers": self.address})
        admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(DEADLINE_S)

    def _count(self, frame: bytes) -> None:
        self.produced += frame[:2] == PRODUCE

    def _start(self, **environment: str) -> None:
        advertised = ("--set", f"advertised.listeners={self.address}")
        self._broker = Broker(
            self._path, *advertised, "--set", "commit.sync=files", **environment
        )
        host, port = self._broker.kafka.split(":")
        self._relay.broker = (host, int(port))

    def hold_syncs(self) -> None:
        self._waits.touch()

    def fail(self, error: int = errno.EIO) -> None:
        """Makes the disk fail, with waiting requests."""
        part = self._fails.with_suffix(".part")
        part.write_text(f"{error}")
        part.rename(self._fails)
        self._waits.unlink(missing_ok=True)

    def mend(self) -> None:
        self._fails.unlink()

    @property
    def has_failed(self) -> bool:
        return self._log()["failed"] is not None

    def findings(self) -> list[str]:
        """Of logs, by health."""
        found = self._broker.get("/api/v1/health")[1]["findings"]
        return [each["text"] for each in found if each["area"] == "logs"]

    @property
    def end_offset(self) -> int:
        return int(self._log()["log_end_offset"])

    def _log(self) -> dict[str, object]:
        logs = self._broker.get("/api/v1/logs")[1]["logs"]
        (row,) = [each for each in logs if each["topic"] == TOPIC]
        return dict(row)

    def restart(self) -> None:
        """Restarts without a reboot, on a disk that works again."""
        self._broker.end(signal.SIGKILL)
        self._start()

    def close(self) -> None:
        self._relay.close()
        self._broker.end(signal.SIGKILL)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Failing]:
    with closing(Failing(tmp_path)) as made:
        yield made


def fail_under(broker: Failing, what: object) -> None:
    """Fails while records arrive, and restarts after a client has received the error."""
    until(lambda: broker.end_offset > 0, DEADLINE_S)
    broker.fail()
    until(lambda: broker.has_failed, DEADLINE_S)
    asked = broker.produced
    until(lambda: broker.produced > asked, DEADLINE_S)  # it tries again
    broker.restart()


class Slowly(Sequence[Record]):
    """Produces for some seconds, so that the disk fails meanwhile."""

    COUNT, PAUSE_S = 2000, 0.001

    def __len__(self) -> int:
        return self.COUNT

    def __getitem__(self, index: object) -> Record:  # type: ignore[override]
        assert isinstance(index, int)
        if not 0 <= index < self.COUNT:
            raise IndexError(index)
        pause(self.PAUSE_S)
        return Record(None, b"%d" % index)


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)


@pytest.mark.parametrize(
    "client", gate_has(CLIENTS[:1], "a failed sync under a second and a third client", CLIENTS),
    ids=lambda client: client.name,
)
def test_an_idempotent_producers_records_are_there_once(broker: Failing, client: Client) -> None:
    with ThreadPoolExecutor(1) as thread:
        told = thread.submit(client.produce, broker.address, TOPIC, Slowly(), is_idempotent=True)
        fail_under(broker, told)
        assert told.result(DEADLINE_S) == list(range(Slowly.COUNT))
    assert values(broker.address, TOPIC) == [str(each) for each in range(Slowly.COUNT)]


@pytest.mark.release("a failed sync under a fourth client")
def test_apache_kafkas_producers_records_are_there_once(broker: Failing) -> None:
    count = 6000
    tool = ("--bootstrap-server", broker.address, "--topic", TOPIC, "--num-records", str(count),
            "--record-size", "100", "--throughput", str(count // 3))
    with ThreadPoolExecutor(1) as thread:
        said = thread.submit(kafka_jars.must_run, TOOLS["kafka-producer-perf-test"], *tool)
        fail_under(broker, said)
        assert re.search(rf"^{count} records sent", said.result(DEADLINE_S), re.MULTILINE)
    assert broker.end_offset == count


def test_our_own_producers_records_are_there_once(broker: Failing) -> None:
    config = ProducerConfig(broker_list=broker.address, idempotence=True)
    wanted = [str(each) for each in range(500)]

    def send() -> None:
        with closing(Producer(config)) as producer:
            for each in wanted:
                producer.send(TOPIC, [each.encode()])

    with ThreadPoolExecutor(1) as thread:
        told = thread.submit(send)
        fail_under(broker, told)
        told.result(DEADLINE_S)
    assert values(broker.address, TOPIC) == wanted


class Told:
    """librdkafka's report of each record."""

    def __init__(self, broker: Failing, **given: object) -> None:
        self.acknowledged: list[str] = []
        self.failed: list[str] = []
        settings = {"bootstrap.servers": broker.address, "linger.ms": 20, "log_level": 0}
        self.producer = ck.Producer({**settings, "reconnect.backoff.max.ms": 200, **given})

    def send(self, *values: str) -> None:
        for each in values:
            self.producer.produce(TOPIC, each.encode(), partition=0, on_delivery=self._hear)

    def _hear(self, error: ck.KafkaError | None, message: ck.Message) -> None:
        (self.failed if error else self.acknowledged).append(message.value().decode())

    def has(self, what: list[str], count: int) -> bool:
        self.producer.poll(0.01)
        return len(what) >= count


def test_what_librdkafka_sends_again_under_a_new_epoch_is_there_once(broker: Failing) -> None:
    """The older batch times out, so librdkafka renumbers the newer one under the next epoch."""
    told = Told(broker, **{"enable.idempotence": True, "message.timeout.ms": 11_000})
    told.send("a")
    until(lambda: told.has(told.acknowledged, 1), DEADLINE_S)
    broker.hold_syncs()
    told.send("b", "c")
    until(lambda: broker.end_offset == 3, DEADLINE_S)
    pause(8)
    told.send("d", "e")
    until(lambda: broker.end_offset == 5, DEADLINE_S)
    broker.fail()
    until(lambda: told.has(told.failed, 2), DEADLINE_S)
    broker.restart()
    told.send("f")
    assert told.producer.flush(DEADLINE_S) == 0
    assert told.failed[:2] == ["b", "c"]
    assert values(broker.address, TOPIC) == told.acknowledged


def test_what_a_full_disk_has_failed_is_opened_again_when_there_is_room(broker: Failing) -> None:
    """Without a restart and without a word. The producer numbers nothing, and sends all again: what
    it was told as not written must not come back."""
    told = Told(broker, **{"acks": "all", "max.in.flight": 1})
    told.send("a")
    until(lambda: told.has(told.acknowledged, 1), DEADLINE_S)
    broker.hold_syncs()
    told.send("b", "c")
    until(lambda: told.has([], 0) and broker.end_offset == 3, DEADLINE_S)
    broker.fail(errno.ENOSPC)
    found: list[str] = until(broker.findings, DEADLINE_S)
    assert "ENOSPC" in found[0]
    broker.mend()
    told.send("d")
    assert told.producer.flush(DEADLINE_S) == 0
    assert (told.acknowledged, told.failed) == (["a", "b", "c", "d"], [])
    assert values(broker.address, TOPIC) == told.acknowledged
    until(lambda: broker.findings() == [], DEADLINE_S)


def test_what_an_io_error_has_failed_waits_for_a_person(broker: Failing) -> None:
    told = Told(broker, **{"message.timeout.ms": 1000 * int(DEADLINE_S)})
    broker.hold_syncs()
    told.send("a")
    until(lambda: told.has([], 0) and broker.end_offset == 1, DEADLINE_S)
    broker.fail()
    until(lambda: broker.has_failed, DEADLINE_S)
    broker.mend()
    pause(3 * RETRY_MIN_MS / 1000)
    assert broker.has_failed
    assert "EIO" in broker.findings()[0]


@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
def test_a_transaction_over_a_failed_sync_is_there_once_or_not_at_all(
    is_commit: bool, broker: Failing
) -> None:
    told = Told(broker, **{"transactional.id": "x"})
    told.producer.init_transactions(DEADLINE_S)
    told.producer.begin_transaction()
    broker.hold_syncs()
    told.send("a", "b")
    until(lambda: told.has([], 0) and broker.end_offset == 2, DEADLINE_S)
    broker.fail()
    until(lambda: broker.has_failed, DEADLINE_S)
    broker.restart()
    end = told.producer.commit_transaction if is_commit else told.producer.abort_transaction
    end(DEADLINE_S)
    told.producer.begin_transaction()
    told.send("c")
    told.producer.commit_transaction(DEADLINE_S)
    assert values(broker.address, TOPIC) == (["a", "b", "c"] if is_commit else ["c"])
