"""A real server with wrong transaction indexes. The file has no checksum; the start compares it
with the log where it can, and the scrub compares all of it. Readers of committed records then get
exactly those, and the ledger has the fault.
"""

from __future__ import annotations

import shutil
import signal
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import confluent_kafka as ck
import pytest

from tests.crash.test_damaged_server import WELL, Box, serving
from tests.support.serving import Serving

ENTRY = struct.Struct(">hqqqq")
ROUNDS = 4
# Committed, aborted, committed ... by one producer. "one" is one segment, "many" has a few.
TOPICS = {"one": "1048576", "many": "1024"}


def write(serving: Serving) -> None:
    address = "{}:{}".format(*serving.kafka)
    producer = ck.Producer({"bootstrap.servers": address, "transactional.id": "writer",
                            "linger.ms": 0})
    producer.init_transactions(30)
    for number in range(ROUNDS):
        for word in ("committed", "aborted"):
            producer.begin_transaction()
            for topic in TOPICS:
                producer.produce(topic, f"{word} {number} {'x' * 300}".encode())
            producer.flush(30)
            if word == "committed":
                producer.commit_transaction(30)
            else:
                producer.abort_transaction(30)


def committed(serving: Serving, topic: str) -> list[str]:
    """The records for a reader of committed records, up to the end."""
    address = "{}:{}".format(*serving.kafka)
    consumer = ck.Consumer({"bootstrap.servers": address, "group.id": "g",
                            "enable.auto.commit": False, "enable.partition.eof": True,
                            "isolation.level": "read_committed"})
    found = []
    with closing(consumer):
        consumer.assign([ck.TopicPartition(topic, 0, 0)])
        while message := consumer.poll(60):
            if message.error():
                assert message.error().code() == ck.KafkaError._PARTITION_EOF, message.error()
                return found
            found.append(" ".join(message.value().decode().split()[:2]))
    raise AssertionError(f"no end within 60 s: {found}")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("txn-index")
    with serving(folder, signal.SIGTERM) as box:
        for topic, segment_bytes in TOPICS.items():
            box.rest.post("/topics", {"name": topic, "configs": {"segment.bytes": segment_bytes}})
        write(box.serving)
        assert committed(box.serving, "one") == WANTED
    return folder / "data"


WANTED = [f"committed {number}" for number in range(ROUNDS)]


def changed(column: int, to: Callable[[int], int]) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        data = bytearray(path.read_bytes())
        row = [*ENTRY.unpack_from(data)]
        row[column] = to(row[column])
        ENTRY.pack_into(data, 0, *row)
        path.write_bytes(data)

    return spoil


def zeroed(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(bytes(ENTRY.size) + data[ENTRY.size :])


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: -ENTRY.size])


def cut_within(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def stale(path: Path) -> None:
    """Replaces the index by the last other one of the topic, or by one of the other topic."""
    others = sorted({*path.parent.glob("*.txnindex")} - {path})
    others += sorted(path.parent.parent.glob("many-0/*.txnindex"))[1:]
    shutil.copy(others[-1] if path.parent.name == "many-0" else others[0], path)


def empty(path: Path) -> None:
    path.write_bytes(b"")


SPOILS: dict[str, Callable[[Path], None]] = {
    "zeroed": zeroed,
    "version": changed(0, lambda _: 1),
    "producer": changed(1, lambda was: was + 1000),
    "first offset before": changed(2, lambda _: 0),
    "first offset after": changed(2, lambda was: was + 1),
    "marker": changed(3, lambda was: was + 1),
    "last stable offset": changed(4, lambda was: was - 1),
    "cut by an entry": cut,
    "cut within an entry": cut_within,
    "stale": stale,
    "empty": empty,
    "gone": Path.unlink,
}


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=[*SPOILS])
def test_a_spoiled_transaction_index_is_put_right_and_told(
    spoil: Callable[[Path], None], made: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    shutil.copytree(made, data)
    paths = [sorted((data / f"{topic}-0").glob("*.txnindex"))[0] for topic in TOPICS]
    right = [path.read_bytes() for path in paths]
    for path in paths:
        spoil(path)
    with serving(tmp_path, signal.SIGTERM) as box:
        scrubbed = box.run("scrub", *TOPICS)
        for topic in TOPICS:
            assert committed(box.serving, topic) == WANTED, topic
        assert is_told(box, scrubbed.output), scrubbed.output
    assert [path.read_bytes() for path in paths] == right
    with serving(tmp_path, signal.SIGTERM) as box:
        for topic in TOPICS:
            assert committed(box.serving, topic) == WANTED, topic
        assert box.run("health").exit_code == WELL


def is_told(box: Box, scrubbed: str) -> bool:
    return "transaction index" in scrubbed or "transaction-index" in box.serving.log


def test_a_whole_transaction_index_is_no_finding(made: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(made, data)
    with serving(tmp_path, signal.SIGTERM) as box:
        scrubbed = box.run("scrub")
        assert scrubbed.exit_code == WELL
        assert not is_told(box, scrubbed.output), scrubbed.output
