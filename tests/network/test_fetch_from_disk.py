"""Fetches of what the page cache lacks, and readers that take nothing."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path
from typing import Any

import pytest

from appliance._log import Log
from appliance.config import LogConfig
from appliance.protocol.messages.fetch import FetchResponse
from tests.support.data_plane import PARTITIONS, batch, client, make, plane
from tests.support.logs import until

__all__ = ["client", "make", "plane"]


def forget_pages(path: Path) -> bool:
    """Whether the next read of the file comes from the disk: not in a file system in memory."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        try:
            os.preadv(file.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT)
        except BlockingIOError:
            os.preadv(file.fileno(), [bytearray(1)], 0)  # asking began to read it
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return True
        return False


def is_resident(path: Path, position: int) -> bool:
    """Asked of the kernel; a read, even one that does not wait, would begin to read."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    found = ctypes.c_ubyte()
    with path.open("rb") as file:
        first = position // mmap.PAGESIZE * mmap.PAGESIZE
        asked = mmap.PAGESIZE, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), first
        place = libc.mmap(None, *asked)
        assert libc.mincore(ctypes.c_void_p(place), mmap.PAGESIZE, ctypes.byref(found)) == 0
        libc.munmap(ctypes.c_void_p(place), mmap.PAGESIZE)
    return bool(found.value & 1)


def is_open(path: Path) -> bool:
    with os.scandir("/proc/self/fd") as entries:
        return any(os.path.realpath(each.path) == str(path) for each in entries)


def test_behind_what_is_sent_from_the_page_cache_the_disk_is_asked_for_more(
    make: Any, tmp_path: Path
) -> None:
    """Else a reader of old records waits for the disk at every other megabyte."""
    plane, size = make(), 400_000
    with plane.client() as client:
        for _ in range(10):
            client.produce(batch(os.urandom(size)), acks=-1)
        path = next((tmp_path / "0").glob("t-0/*.log"))
        if not forget_pages(path):
            pytest.skip("a file system in memory has nothing to read ahead")
        with path.open("rb") as file:  # these alone are there, for the kernel reads no more
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            os.preadv(file.fileno(), [bytearray(3 * size)], 0)
        behind = 4 * size
        assert not is_resident(path, behind)
        client.fetch_one(0, partition_max_bytes=2 * size + 1000)
        until(lambda: is_resident(path, behind))
        plane.logs[0].close()
        until(lambda: not is_open(path))  # the connection holds it no longer, though it lives on


@pytest.mark.parametrize("size", [1000, 300_000])
def test_what_the_page_cache_lacks_is_read_by_other_threads(
    make: Any, tmp_path: Path, size: int
) -> None:
    """The pipelined fetches are answered in order, and each with all of its bytes."""
    plane = make()
    with plane.client() as client:
        written = [batch(os.urandom(size)) for _ in range(20)]
        for each in written:
            client.produce(each, acks=-1)
        is_cold = forget_pages(next((tmp_path / "0").glob("t-0/*.log")))
        for offset in range(20):
            client.send_fetch(offset, partition_max_bytes=3 * size)
        for offset in range(20):
            (topic,) = client.answer(FetchResponse, 1, 12).responses
            (part,) = topic.partitions
            assert part.error_code == 0
            assert bytes(part.records)[61:300] == written[offset][61:300]
            assert len(part.records) >= len(written[offset])
        assert (plane.data_plane.counters()["cold_reads"] > 0) == is_cold


def test_a_page_in_the_middle_that_the_cache_lacks_is_read_by_other_threads(
    make: Any, tmp_path: Path
) -> None:
    """Samples of the page cache would not notice it, and the network thread would wait."""
    if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 5):
        pytest.skip("this kernel does not count the pages that are cached")
    plane, lost = make(), 50 * mmap.PAGESIZE
    with plane.client() as client:
        client.produce(batch(os.urandom(400_000)), acks=-1)
        path = next((tmp_path / "0").glob("t-0/*.log"))
        if not forget_pages(path):
            pytest.skip("a file system in memory has nothing to lack")
        with path.open("rb") as file:  # the kernel reads no more than is asked for
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            os.preadv(file.fileno(), [bytearray(lost)], 0)
            os.preadv(file.fileno(), [bytearray(400_000)], lost + mmap.PAGESIZE)
        assert [is_resident(path, lost + at) for at in (-1, 0, mmap.PAGESIZE)] == [
            True, False, True]  # fmt: skip
        before = plane.data_plane.counters()["cold_reads"]
        assert len(client.fetch_one(0).records) > 400_000
        assert plane.data_plane.counters()["cold_reads"] == before + 1


def test_a_fetch_that_was_looked_up_on_the_disk_waits_for_what_is_still_to_come(
    make: Any, tmp_path: Path
) -> None:
    plane = make()
    with plane.client() as client, plane.client() as producer:
        producer.produce(batch(b"first"), acks=-1)
        forget_pages(next((tmp_path / "0").glob("t-0/*.log")))
        client.send_fetch(0, min_bytes=150, wait_ms=10_000)
        plane.wait_for("fetch_requests", 1)
        producer.produce(batch(b"second"), acks=-1)
        (topic,) = client.answer(FetchResponse, 1, 12).responses
        assert b"second" in topic.partitions[0].records


def is_cached(path: Path) -> bool:
    """Its first byte; asking may begin to read it."""
    with path.open("rb") as file:
        try:
            return os.preadv(file.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT) == 1
        except BlockingIOError:
            return False


def test_a_fetch_of_many_cold_partitions_is_answered_after_a_few(
    make: Any, tmp_path: Path
) -> None:
    """The others stay on the disk until they are asked for, and come then."""
    plane, count = make(), 200
    logs = [plane.log_dir.create("many", each, LogConfig()) for each in range(count)]
    plane.data_plane.put_topic("many", b"m" * 16, list[Log | None](logs))
    for log in logs:
        log.append_durable(batch(b"v" * 1000))
    files = sorted((tmp_path / "0").glob("many-*/*.log"))
    are_cold = [forget_pages(each) for each in files]
    wanted, answers = set(range(count)), []
    with plane.client() as client:
        while wanted:
            client.send_fetch(0, topic="many", partitions=tuple(sorted(wanted)))
            (topic,) = client.answer(FetchResponse, 1, 12).responses
            if not answers:
                was_read = sum(is_cached(each) for each in files)
            answers.append({part.partition_index for part in topic.partitions if part.records})
            assert answers[-1]
            wanted -= answers[-1]
    if all(are_cold):
        assert len(answers[0]) <= was_read <= 50


def test_what_stands_beside_a_cold_partition_is_not_cut_short(make: Any, tmp_path: Path) -> None:
    """min_bytes of what is cached is an answer; what is cold comes with one of the next."""
    plane = make()
    with plane.client() as client:
        for partition in range(PARTITIONS):
            client.produce(batch(b"v" * 1000), acks=-1, partition=partition)
        forget_pages(next((tmp_path / "0").glob("t-0/*.log")))
        found: set[int] = set()
        while 0 not in found:
            client.send_fetch(0, partitions=(0, 1, 2))
            (topic,) = client.answer(FetchResponse, 1, 12).responses
            found = {part.partition_index for part in topic.partitions if part.records}
            assert found >= {1, 2}
        client.send_fetch(0, partitions=(0, 1, 2), min_bytes=3000, wait_ms=10_000)
        (topic,) = client.answer(FetchResponse, 1, 12).responses
        assert all(len(part.records) > 1000 for part in topic.partitions)


def test_a_reader_that_takes_nothing_holds_little_of_the_kernels_memory(make: Any) -> None:
    """A socket would take megabytes: `SO_SNDBUF` grows as long as nobody limits what is unsent."""
    plane = make()
    with plane.client() as client:
        for _ in range(5):
            client.produce(batch(b"v" * 900_000), acks=-1)
        before = plane.data_plane.counters()["bytes_out"]
        client.send_fetch(0, partition_max_bytes=50 << 20)
        plane.wait_for("bytes_out", before + 1)
        taken = []
        until(lambda: taken.append(plane.data_plane.counters()["bytes_out"])
              or (len(taken) > 20 and len(set(taken[-20:])) == 1))
        assert taken[-1] - before < 1 << 20
