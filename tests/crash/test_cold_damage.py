"""A real server, and damage in its stored data while it runs. From the moment when any reader is
refused, health is not ok. The ledger soon has the damage, without a scrub on demand, and keeps it
after a kill, until an operator acknowledges it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from appliance.admin.bulk_read import PREFIX
from appliance.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from appliance.record import _batch_builder
from tests.support.rest import Rest
from tests.support.serving import Serving
from tests.support.warm_serving import WarmServing
from tests.support.wire_client import WireClient, frame_of

DEADLINE_S = 60.0
BEGAN_MS = 1_700_000_000_000
CORRUPT = (2, 56)  # CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR
# No background scrub: only readers detect damage.
QUIET = {"scrub.bytes.per.second": 0, "log.cleaner.backoff.ms": 100}
SIZE = 3000  # of a record; a segment has two of them
LARGE = 300_000  # of one that is sent from the page cache by sendfile
COUNT = 6


@dataclass
class Box:
    serving: Serving
    rest: Rest

    def client(self) -> WireClient:
        return WireClient(self.serving.kafka)

    def health(self) -> tuple[str, str]:
        answer = self.rest.raw("GET", "/healthz")
        return answer.body["status"], " | ".join(answer.body["reasons"])

    def entries(self) -> list[Any]:
        """Open entries, as soon as they are stored and have an id."""
        found: list[Any] = self.rest.get("/ledger")["entries"]
        return [each for each in found if each["id"] and each["acknowledged_ms"] is None]

    def segments(self) -> list[Path]:
        return sorted((self.serving.data / "t-0").glob("*.log"))

    def refused(self) -> float:
        page = self.rest.raw("GET", "/metrics").body
        lines = (page if isinstance(page, str) else page.decode()).splitlines()
        (line,) = (each for each in lines if each.startswith("appliance_reads_refused"))
        return float(line.split()[-1])


@contextmanager
def serving(folder: Path, stop: signal.Signals = signal.SIGKILL) -> Iterator[Box]:
    found = WarmServing(folder, **QUIET)
    try:
        yield Box(found, Rest(found.admin.removeprefix("http://")))
    finally:
        found.stop(stop)


def written(box: Box, size: int = SIZE, **configs: str) -> None:
    with box.client() as client:
        segment_bytes = 2 * size + 1000
        client.create_topic("t", segment_bytes=str(segment_bytes), **configs)
        for number in range(COUNT):
            row = (BEGAN_MS + number, f"{number}".encode(), os.urandom(size))
            (part,) = client.produce(_batch_builder.batch([row]), acks=-1)
            assert part.error_code == 0


def until(done: Callable[[], Any]) -> Any:
    end = time.monotonic() + DEADLINE_S
    while not (found := done()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


# Damage: of the second segment, which holds offsets 2 and 3


def flip_magic(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(16)
        file.write(b"\x7f")


def flip_record(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(200)
        byte = file.read(1)
        file.seek(200)
        file.write(bytes([byte[0] ^ 1]))


def cut(path: Path) -> None:
    os.truncate(path, 100)  # within the first record, after its header


def remove(path: Path) -> None:
    path.unlink()


# Readers


def fetch(box: Box) -> None:
    """A response whose length was already sent ends early."""
    with box.client() as client, suppress(EOFError):
        assert client.fetch_one(2, partition_max_bytes=1).error_code in CORRUPT


def fetch_in_a_session(box: Box) -> None:
    with box.client() as client:
        answer = client.fetch(2, session=(0, 0))
        assert answer.responses[0].partitions[0].error_code in CORRUPT


def list_offsets(box: Box) -> None:
    part = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=BEGAN_MS + 2)
    row = ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[part])
    with box.client() as client:
        client.send(frame_of(ListOffsetsRequest(replica_id=-1, topics=[row]), 2, 5))
        (topic,) = client.answer(ListOffsetsResponse, 2, 5).topics
    assert topic.partitions[0].error_code in CORRUPT, topic


def browse(box: Box) -> None:
    answer = box.rest.ask("GET", "/topics/t/messages", **{"from": "offset:2", "limit": 1})
    assert answer.body["problems"], answer


def export(kind: str) -> Callable[[Box], None]:
    def read(box: Box) -> None:
        """Batches end with the connection, what is decoded is told."""
        path = f"{PREFIX}/topics/t/partitions/0/batches?start=2&end=4&format={kind}"
        with suppress(OSError, HTTPException):
            answer = box.rest.raw("GET", path)
            assert (answer.status, kind) == (503, "jsonl")

    return read


CASES = {
    "a fetch, a header": (flip_magic, fetch, SIZE),
    "a fetch, a file that was cut": (cut, fetch, SIZE),
    "a fetch by sendfile, a file that was cut": (cut, fetch, LARGE),
    "a fetch, no file": (remove, fetch, SIZE),
    "a fetch in a session": (flip_magic, fetch_in_a_session, SIZE),
    "offsets by time, a header": (flip_magic, list_offsets, SIZE),
    "offsets by time, no file": (remove, list_offsets, SIZE),
    "the messages of the console, a record": (flip_record, browse, SIZE),
    "the messages of the console, a header": (flip_magic, browse, SIZE),
    "bulk export, a file that was cut": (cut, export("batches"), SIZE),
    "bulk export decoded, a record": (flip_record, export("jsonl"), SIZE),
}


@pytest.mark.parametrize("name", CASES)
def test_a_refused_read_is_healths_at_once_and_the_ledgers_until_it_was_seen(
    name: str, tmp_path: Path
) -> None:
    damage, read, size = CASES[name]
    with serving(tmp_path, signal.SIGTERM) as box:
        written(box, size)
    with serving(tmp_path) as box:
        assert box.health() == ("ok", "")
        damage(box.segments()[1])
        read(box)
        status, reasons = box.health()
        assert status == "degraded", reasons
        assert "t-0" in reasons
        (entry,) = until(box.entries)
        assert (entry["topic"], entry["partition"]) == ("t", 0)
        assert 2 <= entry["first_offset"] <= entry["last_offset"] <= 3, entry
        for _ in range(3):  # the same damage is one entry
            fetch(box)
        assert box.entries() == [entry]
    with serving(tmp_path) as box:
        assert box.health()[0] == "degraded"
        assert box.entries() == [entry]
        box.rest.post("/ledger/acknowledge", {"ids": [entry["id"]]})
        box.rest.post("/topics/t/partitions/0/repair", {"action": "skip", "dry_run": False})
        until(lambda: box.health()[0] == "ok")


def test_a_compacted_partition_without_a_file_is_not_passed_over(tmp_path: Path) -> None:
    """Compacted logs may lack offsets, but the next segment must not replace a lost one."""
    with serving(tmp_path, signal.SIGTERM) as box:
        written(box, cleanup_policy="compact", min_cleanable_dirty_ratio="0")
        until(lambda: "compaction" in box.serving.log)
    with serving(tmp_path) as box:
        damaged = box.segments()[0]
        remove(damaged)
        with box.client() as client:
            assert client.fetch_one(0).error_code in CORRUPT
        assert box.health()[0] == "degraded"
        assert until(box.entries)[0]["first_offset"] == 0


def test_what_was_gone_at_the_second_look_is_told_all_the_same(tmp_path: Path) -> None:
    with serving(tmp_path, signal.SIGTERM) as box:
        written(box)
    with serving(tmp_path) as box:
        path = box.segments()[1]
        path.rename(path.with_suffix(".away"))
        path.mkdir()  # opening it fails with EISDIR, which counts as a read error of the disk
        fetch(box)
        assert box.health()[0] == "degraded"
        path.rmdir()
        path.with_suffix(".away").rename(path)
        status, reasons = box.health()
        assert status == "degraded"
        assert "EISDIR" in reasons
        assert box.refused() >= 1
