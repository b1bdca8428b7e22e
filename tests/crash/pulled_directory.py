"""One of two directories of records is pulled under load, and put back without a restart.

    gone    the disk answers no request any more, loses what it had not flushed, and comes back
    error   every request fails with EIO for a while, and the file system is checked by its mount
    stopped ext4 is shut down by its ioctl, as when the device vanishes, and mounted again
    full    another file takes all of its room, and is removed
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
import time
from pathlib import Path
from typing import Any

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.logs import until
from tests.support.rest import Rest
from tests.support.serving import Serving

from .bad_disk import BadDisk
from .full_disk import fill
from .loop_disk import NO_LOG_FLUSH, SHUTDOWN, LoopDisk

TOPIC = "t"
PARTITIONS = 8
KINDS = ("gone", "error", "stopped", "full")
GAP_S_MAX = 5.0  # between two acknowledgements on the disk that is well
DEADLINE_S = 60.0
VALUE = b"x" * 400


class Load:
    """A producer (acks=all, idempotent) and a consumer on some partitions."""

    def __init__(self, address: str, partitions: list[int], is_patient: bool) -> None:
        self.partitions = partitions
        self.acknowledged: dict[int, list[tuple[int, int]]] = {each: [] for each in partitions}
        self.errors: list[str] = []
        self.consumed: dict[int, list[tuple[int, int]]] = {each: [] for each in partitions}
        self.phase = ""  # of the round, for a look at what was lost
        self.phases: dict[int, str] = {}  # in which each was acknowledged
        self.gap_s = 0.0  # the longest between two acknowledgements
        self._told_at = time.monotonic()
        self._number = 0
        self._ends = threading.Event()
        # One that gives up soon is told at once of every refusal, and sends the next.
        timeout = {} if is_patient else {"message.timeout.ms": 2000}
        self._producer = ck.Producer({
            "bootstrap.servers": address, "acks": "all", "linger.ms": 5, "log_level": 0,
            "enable.idempotence": is_patient, "retry.backoff.max.ms": 200,
            "reconnect.backoff.max.ms": 200, **timeout,
        })  # fmt: skip
        self._consumer = ck.Consumer({
            "bootstrap.servers": address, "group.id": f"of-{partitions[0]}", "log_level": 0,
            "auto.offset.reset": "earliest", "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 200,
        })  # fmt: skip
        self._consumer.assign([ck.TopicPartition(TOPIC, each, 0) for each in partitions])
        self._threads = [threading.Thread(target=it) for it in (self._produce, self._consume)]
        for each in self._threads:
            each.start()

    @property
    def count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    @property
    def consumed_count(self) -> int:
        return sum(map(len, self.consumed.values()))

    def forget_gap(self) -> None:
        self.gap_s, self._told_at = 0.0, time.monotonic()

    def _produce(self) -> None:
        while not self._ends.is_set():
            partition = self.partitions[self._number % len(self.partitions)]
            try:
                self._producer.produce(
                    TOPIC, b"%d %s" % (self._number, VALUE), partition=partition,
                    on_delivery=self._hear,
                )  # fmt: skip
                self._number += 1
            except BufferError:
                pass
            self._producer.poll(0.002)
        self._producer.flush(DEADLINE_S)

    def _hear(self, error: ck.KafkaError | None, message: ck.Message) -> None:
        if error is not None:
            self.errors.append(str(error))
            return
        now = time.monotonic()
        self.gap_s, self._told_at = max(self.gap_s, now - self._told_at), now
        number = int(message.value().split()[0])
        self.acknowledged[message.partition()].append((message.offset(), number))
        self.phases[number] = self.phase

    def _consume(self) -> None:
        while not self._ends.is_set():
            for each in self._consumer.consume(500, 0.05):
                if each.error() is None:
                    number = int(each.value().split()[0])
                    self.consumed[each.partition()].append((each.offset(), number))

    def end(self) -> None:
        """Also a second time."""
        if not self._ends.is_set():
            self._ends.set()
            for each in self._threads:
                each.join()
            self._consumer.close()


class Site:
    """A broker with a directory on a good disk and one on a bad disk."""

    def __init__(self, place: Path, well: LoopDisk, disk: BadDisk) -> None:
        self.disk = disk
        self.good, self.bad = well.root / "records", disk.root / "records"
        self.broker = Serving(
            place / "broker",
            **{
                "log.dirs": f"{self.good},{self.bad}", "storage.low.water.bytes": 4 << 20,
                "log.segment.bytes": 1 << 20,
            },
        )  # fmt: skip
        self.rest = Rest(self.broker.admin)
        self.address = ":".join(map(str, self.broker.kafka))
        admin = AdminClient({"bootstrap.servers": self.address})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(DEADLINE_S)
        placed = [[int(each.name[2:]) for each in folder.glob("t-*")]
                  for folder in (self.good, self.bad)]  # fmt: skip
        assert sorted(map(len, placed)) == [4, 4]
        self.well = Load(self.address, sorted(placed[0]), is_patient=True)
        self.hurt = Load(self.address, sorted(placed[1]), is_patient=False)

    def state(self) -> dict[str, Any]:
        rows = self.rest.get("/log-dirs")["log_dirs"]
        (found,) = [each for each in rows if each["path"] == str(self.bad)]
        return dict(found)

    def health(self) -> str:
        return str(self.rest.ask("GET", "/health").body["status"])

    def round(self, kind: str, seed: int) -> None:
        until(lambda: self.hurt.count > 0 and self.well.count > 0, DEADLINE_S)
        self.well.forget_gap()
        began, before, refused = time.monotonic(), self.well.count, len(self.hurt.errors)
        self.hurt.phase = f"{seed} {kind} hurting"
        self._hurt(kind)
        self.hurt.phase = f"{seed} {kind} hurt"
        until(lambda: len(self.hurt.errors) > refused, DEADLINE_S)
        beside = self.well.count
        until(lambda: self.well.count > beside + 50, DEADLINE_S)  # goes on meanwhile
        assert self.health() == "failing"
        self.hurt.phase = f"{seed} {kind} mending"
        self._mend(kind, seed)
        self.hurt.phase = f"{seed} {kind} mended"
        hurt, consumed = self.hurt.count, self.hurt.consumed_count
        until(lambda: self.hurt.count > hurt + 20, DEADLINE_S)
        until(lambda: self.hurt.consumed_count > consumed, DEADLINE_S)
        until(lambda: self.health() != "failing", DEADLINE_S)
        print(f"{kind}: {time.monotonic() - began:.1f} s, {self.well.count - before} beside it, "
              f"gap {self.well.gap_s:.2f} s, {len(self.hurt.errors) - refused} refused")
        assert self.well.count > before
        assert self.well.errors == []
        assert self.well.gap_s < GAP_S_MAX, f"nothing was acknowledged for {self.well.gap_s:.1f} s"

    def _hurt(self, kind: str) -> None:
        if kind == "full":
            fill(self.disk.root / "filler")
        elif kind == "stopped":
            descriptor = os.open(self.disk.root, os.O_RDONLY)
            try:
                fcntl.ioctl(descriptor, SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
            finally:
                os.close(descriptor)
        else:
            self.disk.die()

    def _mend(self, kind: str, seed: int) -> None:
        if kind == "full":
            (self.disk.root / "filler").unlink()
            return
        answer = self.rest.ask("POST", "/log-dirs/reopen", {"path": str(self.bad)})
        assert answer.status == 503, answer.body  # the disk is as it was: it is let go of
        assert self.state()["state"] == "offline"
        until(self._is_unmounted, DEADLINE_S)  # nobody holds it for long any more
        if kind == "gone":
            self.disk.cut_the_power(seed, is_mounted=False)
        else:
            self.disk.heal()
            self.disk.mount()
        if seed % 2:  # by itself, or on a word
            self.rest.post("/log-dirs/reopen", {"path": str(self.bad)})
        until(lambda: self.state()["state"] == "open", DEADLINE_S)

    def _is_unmounted(self) -> bool:
        """The broker looks at the directory for a moment, now and then."""
        try:
            self.disk.unmount()
        except RuntimeError as error:
            if "busy" not in str(error):
                raise
            return False
        return True

    def end(self) -> None:
        self.well.end()
        self.hurt.end()

    def stop(self) -> int:
        return self.broker.stop()

    def check(self) -> None:
        """Everything acknowledged is there, at its offset."""
        for load in (self.well, self.hurt):
            stored = self._stored(load.partitions)
            for partition, told in load.acknowledged.items():
                found = dict(stored[partition])
                lost = [each for each in told if found.get(each[0]) != each[1]]
                assert lost == [], (
                    f"{TOPIC}-{partition}: {len(lost)} of {len(told)} are lost: "
                    f"{[(*each, found.get(each[0]), load.phases[each[1]]) for each in lost[:10]]}"
                )
        for partition, told in self.well.acknowledged.items():
            numbers = [number for _, number in sorted(told)]
            assert numbers == sorted(numbers), "out of order"
            stored_numbers = [number for _, number in self._stored([partition])[partition]]
            assert stored_numbers == numbers, "one is there twice, or one more"

    def _stored(self, partitions: list[int]) -> dict[int, list[tuple[int, int]]]:
        found: dict[int, list[tuple[int, int]]] = {each: [] for each in partitions}
        reader = ck.Consumer({
            "bootstrap.servers": self.address, "group.id": "check", "log_level": 0,
            "enable.auto.commit": False,
        })  # fmt: skip
        try:
            for each in partitions:
                wanted = ck.TopicPartition(TOPIC, each)
                low, high = reader.get_watermark_offsets(wanted, DEADLINE_S)
                assert low == 0
                reader.assign([ck.TopicPartition(TOPIC, each, 0)])
                while not found[each] or found[each][-1][0] < high - 1:
                    for message in reader.consume(1000, 0.3):
                        assert message.error() is None, message.error()
                        number = int(message.value().split()[0])
                        found[each].append((message.offset(), number))
        finally:
            reader.close()
        return found
