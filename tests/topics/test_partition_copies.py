"""What a move copies while the partition is changed, and on a disk that takes a part of it."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from appliance._log import Log
from appliance.broker.broker import Broker
from appliance.data_dir.partition_move import MoveCancelled, PartitionMove
from appliance.errors import LogFailed, StorageIoFailed
from appliance.record import _batch_builder
from tests.support.logs import NOW, batch, everything, log_config, until
from tests.support.moves import facts, fill_with_all, finish, move
from tests.support.several_dirs import live


def test_retention_and_compaction_go_on_meanwhile(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        topic = await broker.topics.create("t", 1, {"cleanup.policy": "compact"})
        log = topic.log(0)
        for each in range(4):
            log.append_durable(batch(*(f"{each}.{i}" for i in range(50))))
            log.roll()
        copy = move_of(broker, log)
        copy.begin()
        copy.round()
        log.flush()
        broker.log_dir.checkpoint()
        log.configure(log_config(cleanup_policy="compact", min_cleanable_dirty_ratio=0.0))
        assert log.compact()
        before = facts(log)
        target = broker.log_dir.named(str(copy.target.path))
        new = copy.switch(lambda: broker.log_dir.moved(("t", 0), target), log_config())
        assert facts(new) == before
        topic.put_log(0, new)

    live(tmp_path, use)


def test_a_segment_that_compaction_replaced_is_copied_anew(tmp_path: Path) -> None:
    """Also where the new file is longer, and has the number that the old one had: with two rounds
    of compaction between two of the copy that happens, as numbers are used again at once."""

    async def use(broker: Broker) -> None:
        topic = await broker.topics.create("t", 1, {"cleanup.policy": "compact"})
        log = topic.log(0)
        log.configure(log_config(cleanup_policy="compact", min_cleanable_dirty_ratio=0.0))
        keyed(log, 0, 20)
        copy = move_of(broker, log)
        copy.begin()
        copy.round()
        keyed(log, 10, 60)
        log.flush()
        broker.log_dir.checkpoint()
        assert log.compact()
        first = log.segments()[0]
        stamp = copy._stamps[Path(first.path).name]
        assert first.size > stamp.size > 0
        number = os.stat(first.path).st_ino
        copy._stamps[Path(first.path).name] = stamp._replace(inode=number)
        before = facts(log)
        target = broker.log_dir.named(str(copy.target.path))
        new = copy.switch(lambda: broker.log_dir.moved(("t", 0), target), log_config())
        copy.discard()
        assert facts(new) == before
        topic.put_log(0, new)

    live(tmp_path, use)


def test_a_compaction_that_could_not_finish_is_finished_before_the_move(tmp_path: Path) -> None:
    """Until then the log's segment is in a file that has not its name yet."""

    async def use(broker: Broker) -> None:
        topic = await broker.topics.create("t", 1, {"cleanup.policy": "compact"})
        log = topic.log(0)
        log.configure(log_config(cleanup_policy="compact", min_cleanable_dirty_ratio=0.0))
        for each in range(3):
            keyed(log, 10 * each, 10 * each + 20)
        log.flush()
        broker.log_dir.checkpoint()
        unfinished(log)
        before = facts(log)
        copy = move_of(broker, log)
        copy.begin()
        target = broker.log_dir.named(str(copy.target.path))

        def decide() -> None:
            broker.log_dir.moved(("t", 0), target)

        with pytest.raises(LogFailed, match="a compaction of it is not finished"):
            copy.switch(decide, log_config())
        copy.discard()
        again = copy.source.log("t", 0)
        assert everything(again) == before[0]
        copy = move_of(broker, again)
        copy.begin()
        new = copy.switch(decide, log_config())
        copy.discard()
        assert everything(new) == before[0]
        topic.put_log(0, new)

    live(tmp_path, use)


def test_a_log_that_lacks_a_file_is_not_closed(tmp_path: Path) -> None:
    """What was deleted can be read, and put back, until then."""

    async def use(broker: Broker) -> None:
        log = await fill_with_all(broker)
        before = facts(log)
        os.unlink(log.segments()[0].path)
        await move(broker)
        await broker.moves._move(("t", 0), broker.moves.under_way["t", 0])
        assert "00000000000000000000.log is gone" in broker.moves.under_way["t", 0].why
        assert broker.topics["t"].log(0) is log
        assert facts(log) == before

    live(tmp_path, use)


@pytest.mark.parametrize("which", [0, 1], ids=["source", "target"])
def test_a_directory_that_is_let_go_of_ends_the_move(tmp_path: Path, which: int) -> None:
    """Whose file is open holds up who wants to unmount it, for hours at a low rate."""

    async def use(broker: Broker) -> None:
        log = await fill_with_all(broker)
        copy = move_of(broker, log)
        copy._bytes_per_s = lambda: 1
        copy.begin()
        with ThreadPoolExecutor(1) as pool:
            copying = pool.submit(copy.copy)
            try:
                until(lambda: copy.copied_bytes)
                (copy.source, copy.target)[which].let_go()
                with pytest.raises(MoveCancelled):
                    copying.result(10)
            finally:
                copy._is_cancelled.set()
        copy.discard()

    live(tmp_path, use, is_killed=True)


def unfinished(log: Log) -> None:
    """A compaction whose new segment cannot take the old one's place."""
    first = Path(log.segments()[0].path)
    kept = first.with_suffix(".kept")
    first.rename(kept)
    first.mkdir()
    with pytest.raises(StorageIoFailed):
        log.compact()
    first.rmdir()
    kept.rename(first)


def test_a_write_that_takes_a_part_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a disk that was full in that moment."""
    write = os.pwrite

    async def use(broker: Broker) -> None:
        before = facts(await fill_with_all(broker))
        monkeypatch.setattr(os, "pwrite", lambda file, data, at: write(file, data[:100], at))
        await move(broker)
        await finish(broker)
        assert facts(broker.topics["t"].log(0)) == before

    live(tmp_path, use)


def keyed(log: Log, first: int, end: int) -> None:
    """A segment with a record of each key."""
    for each in range(first, end):
        log.append_durable(_batch_builder.batch([(NOW, f"k{each}".encode(), b"v" * 20)]))
    log.roll()


def move_of(broker: Broker, log: Log) -> PartitionMove:
    source, target = (each.opened() for each in broker.log_dir.directories)
    if not source.holds(log.topic, log.partition):
        source, target = target, source
    return PartitionMove(log, source, target, lambda: 0, threading.Event())
