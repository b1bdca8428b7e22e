"""Readers of a disk that hangs delay no client that does not need it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.protocol.messages.fetch import FetchRequest, FetchResponse
from tests.crash.bad_disk import BadDisk, why_not
from tests.hostile.witness import batch
from tests.support.logs import until
from tests.support.serving import Serving
from tests.support.wire_client import WireClient, frame_of

READERS = 100
BATCHES = 200


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[BadDisk]:
    if reason := why_not():
        pytest.skip(reason)
    with BadDisk(tmp_path, "ext4") as made:
        yield made


@contextlib.contextmanager
def moved(partition: Path, disk: BadDisk) -> Iterator[None]:
    """Moves the files of a partition to their own disk."""
    place = disk.root / partition.name
    shutil.copytree(partition, place)
    subprocess.run(["mount", "--bind", place, partition], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", partition], check=True)


def fill(folder: Path) -> Path:
    """Creates the data directory, with 20 MB in one topic and an empty one."""
    broker = Serving(folder)
    with WireClient(broker.kafka) as client:
        client.create_topic("old")
        client.create_topic("new")
        for _ in range(BATCHES):
            (part,) = client.produce(batch(b"v" * 100_000), topic="old", acks=1)
            assert part.error_code == 0
    assert broker.stop() == 0
    return broker.data


def forget_pages(broker: Serving, topic: str) -> None:
    """Drops the pages, so that the next read is from the disk."""
    for file in broker.data.glob(f"{topic}-*/*.log"):
        fd = os.open(file, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


@contextlib.contextmanager
def hanging(
    tmp_path: Path, disk: BadDisk
) -> Iterator[tuple[Serving, contextlib.ExitStack]]:
    """A broker that must read `old` from a disk that hangs, and recovers meanwhile."""
    data = fill(tmp_path / "first")
    with moved(data / "old-0", disk), contextlib.ExitStack() as stack:
        broker = Serving(tmp_path / "second", data=data)
        stack.callback(broker.stop)
        stack.callback(disk.heal)
        forget_pages(broker, "old")
        disk.hang()
        yield broker, stack
        assert broker.stop() == 0
        assert "Traceback" not in broker.log


def fetch_of_both(reader: WireClient, offset: int, wait_ms: int) -> dict[str, int]:
    """The bytes of each topic in one fetch."""
    asked = FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=50 << 20)
    asked.topics = [
        FetchRequest.FetchTopic(topic=topic, partitions=[FetchRequest.FetchPartition(
            partition=0, fetch_offset=at, partition_max_bytes=200_000)])
        for topic, at in (("old", offset), ("new", 0))
    ]
    reader.send(frame_of(asked, 1, 12))
    answer = reader.answer(FetchResponse, 1, 12)
    return {topic.topic: len(part.records or b"")
            for topic in answer.responses for part in topic.partitions}


def test_what_is_cached_is_answered_beside_what_hangs(tmp_path: Path, disk: BadDisk) -> None:
    with hanging(tmp_path, disk) as (broker, stack):
        reader = stack.enter_context(WireClient(broker.kafka, timeout=30))
        producer = stack.enter_context(WireClient(broker.kafka))
        # There is no record, so it waits for one.
        waiting = threading.Thread(target=producer.produce, args=(batch(),),
                                   kwargs={"topic": "new", "acks": -1})
        waiting.start()
        assert fetch_of_both(reader, 50, 60_000) == {"old": 0, "new": len(batch())}
        waiting.join()
        for _ in range(3):
            assert fetch_of_both(reader, 50, 0) == {"old": 0, "new": len(batch())}
        disk.heal()
        until(lambda: fetch_of_both(reader, 50, 0)["old"] > 100_000)


def test_a_thousand_fetches_from_a_disk_that_hangs(tmp_path: Path, disk: BadDisk) -> None:
    with hanging(tmp_path, disk) as (broker, stack):
        readers = [stack.enter_context(WireClient(broker.kafka)) for _ in range(READERS)]
        for number, reader in enumerate(readers):
            for step in range(10):
                reader.send_fetch((number * 2 + step * 17) % BATCHES, topic="old",
                                  partition_max_bytes=200_000)
        for acks in (1, -1, 1, -1, 1, -1):
            with WireClient(broker.kafka, timeout=30) as producer:
                (part,) = producer.produce(batch(), topic="new", acks=acks)
                assert part.error_code == 0
        disk.heal()
        for reader in readers:
            for _ in range(10):
                assert len(reader.receive()) > 100_000
