"""Backups of a broker under load, with `kill -9` of backup, broker and restore at random moments:
what was acknowledged before the point is there, and a processor that reads, writes and commits in
transactions goes on where it was.

BACKUP_ROUNDS has more rounds, BACKUP_SEED other moments.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from appliance.data_dir.unfinished_restore import RestoreUnfinished
from appliance.testing import running_broker
from tests.support.backups import DEADLINE_S, QUIET, Backups, transactional, values
from tests.support.release import in_release
from tests.support.serving import Serving

ROUNDS = int(os.environ.get("BACKUP_ROUNDS", "20"))
SEED = int(os.environ.get("BACKUP_SEED", "1"))
PARTITIONS = 2
GROUP = "processor"
PADDING = "." * 200


class Load:
    """A producer that notes what was acknowledged when, and a processor that moves what it wrote to
    another topic, each record once."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.acknowledged: list[tuple[float, int, str]] = []  # when, partition, value
        self.life = 0  # of the broker
        self.guard = threading.Lock()
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=each) for each in (self._produce, self._process)]
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        self._is_over.set()
        for each in self._threads:
            each.join()

    def _produce(self) -> None:
        producer = ck.Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5,
                                "enable.idempotence": True, "batch.num.messages": 100,
                                **QUIET})  # fmt: skip

        def note(error: ck.KafkaError | None, message: ck.Message) -> None:
            if error is None:
                text = message.value().decode()
                self.acknowledged.append((time.time(), message.partition(), text))

        number = 0
        while not self._is_over.is_set():
            for partition in range(PARTITIONS):
                value = f"{number:08d}{PADDING}"
                producer.produce("in", value, partition=partition, on_delivery=note)
            number += 1
            producer.poll(0.002)
        producer.flush(DEADLINE_S)

    def _process(self) -> None:
        while not self._is_over.is_set():
            with suppress(ck.KafkaException, Abandoned):
                self._process_until_killed(self.life)

    def _process_until_killed(self, life: int) -> None:
        processor = Processor(self.bootstrap)
        with closing(processor):
            while not self._is_over.is_set():
                processor.step(lambda: self.committing(life))

    @contextmanager
    def committing(self, life: int) -> Iterator[None]:
        """The broker is not killed inside: librdkafka 2.16 waits for ever for the answer to offsets
        of a transaction that it had begun to send to the broker that is gone."""
        with self.guard:
            if life != self.life:
                raise Abandoned
            yield


class Abandoned(Exception):
    """Another processor goes on, and fences this one."""


class Processor:
    """Reads partition 0 of "in" from where the group is, writes to "out", commits both together."""

    def __init__(self, bootstrap: str) -> None:
        # first: it ends what its predecessor left open, for which offsets would be waited
        self._producer = transactional(bootstrap, "processor")
        self._consumer = ck.Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP,
                                      "enable.auto.commit": False, **QUIET})  # fmt: skip
        self._whose = self._consumer.consumer_group_metadata()
        (place,) = self._consumer.committed([ck.TopicPartition("in", 0)], timeout=DEADLINE_S)
        self.at = max(place.offset, 0)
        self._consumer.assign([ck.TopicPartition("in", 0, self.at)])

    def step(self, committing: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        rows = [each for each in self._consumer.consume(50, 0.1) if not each.error()]
        if not rows:
            return
        self._producer.begin_transaction()
        for each in rows:
            self._producer.produce("out", each.value(), partition=0)
        at = rows[-1].offset() + 1
        with committing():
            place = ck.TopicPartition("in", 0, at)
            self._producer.send_offsets_to_transaction([place], self._whose, DEADLINE_S)
        self._producer.commit_transaction(DEADLINE_S)
        self.at = at

    def close(self) -> None:
        self._consumer.close()
        self._producer.purge()


class Site:
    """A broker that is killed and started again at its ports, with load."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.serving = Serving(folder)
        self.ports = self.serving.kafka[1], int(self.serving.admin.rpartition(":")[2])
        self.bootstrap = f"127.0.0.1:{self.ports[0]}"
        admin = AdminClient({"bootstrap.servers": self.bootstrap, **QUIET})
        small = {"segment.bytes": str(64 << 10)}
        wanted = [NewTopic("in", PARTITIONS, config=small), NewTopic("out", 1, config=small)]
        for each in admin.create_topics(wanted).values():
            each.result(DEADLINE_S)
        self.load = Load(self.bootstrap)

    def kill(self) -> None:
        port, admin_port = self.ports
        with self.load.guard:
            self.load.life += 1
            self.serving.stop(signal.SIGKILL)
            self.serving = Serving(self.folder, port=port, admin_port=admin_port)

    def stop(self) -> None:
        self.load.stop()
        self.serving.stop(signal.SIGKILL)


def begun(*words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "appliance", "backup", *words]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def killed(process: subprocess.Popen[bytes], after_s: float) -> None:
    with suppress(subprocess.TimeoutExpired):
        process.wait(after_s)
    process.kill()
    process.communicate()


def done(process: subprocess.Popen[bytes]) -> None:
    _, told = process.communicate(timeout=120)
    assert process.returncode == 0, told.decode()[-2000:]


@pytest.mark.parametrize("rounds", [1, *in_release("the same, more often", [ROUNDS])])
def test_kills_at_random_moments_lose_nothing(tmp_path: Path, rounds: int) -> None:
    dice, backups = random.Random(SEED), Backups(tmp_path)
    site = Site(tmp_path / "site")
    where = ("--target", backups.target, "--admin", site.serving.admin)
    try:
        for number in range(rounds):
            killed(begun("create", *where), dice.uniform(0.2, 1.5))
            running = begun("create", *where, "--rate", "500k", "--keep", "3")
            time.sleep(dice.uniform(0.4, 1.2))
            site.kill()
            done(running)
            code, found = backups.verify()
            assert (code, found["damaged"]) == (0, []), number
            made = backups.list()[-1]
            assert made["is_whole"], made
            check_restored(backups, made["at_ms"], site.load.acknowledged, dice)
    finally:
        site.stop()


def check_restored(
    backups: Backups, at_ms: int, acknowledged: list[tuple[float, int, str]], dice: random.Random
) -> None:
    data = backups.folder / f"data-{at_ms}"
    where = ("restore", "--target", backups.target, "--data-dir", str(data))
    killed(begun(*where), dice.uniform(0.3, 1.0))
    if (data / "restoring").exists():
        with pytest.raises(RestoreUnfinished, match="has not ended"), running_broker(data):
            pass
    if not data.exists() or (data / "restoring").exists():
        done(begun(*where))
    with running_broker(data) as broker:
        for partition in range(PARTITIONS):
            there = values(broker, "in", partition)
            wanted = [text for when, number, text in list(acknowledged)
                      if number == partition and when * 1000 < at_ms]  # fmt: skip
            assert there[: len(wanted)] == wanted
        there = values(broker, "in", 0)
        with closing(Processor(broker.bootstrap)) as processor:
            # exactly once: as many as the group has read, and then the rest
            assert values(broker, "out") == there[: processor.at]
            while processor.at < len(there):
                processor.step()
        assert values(broker, "out") == there
