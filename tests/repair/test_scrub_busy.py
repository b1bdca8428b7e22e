"""The scrub beside all that changes a log: writers, retention, compaction, truncation, deletion and
repair. What is whole is never called damaged, and what is served stays as it was."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

from appliance._log import Log
from appliance.data_dir.log_dir import LogDir
from appliance.errors import ApplianceError, LogClosed
from appliance.record import _batch, _batch_builder
from appliance.repair._scrub import ScrubFinding, SegmentScan
from tests.support.beside import beside
from tests.support.logs import NOW, batch, everything, log_config, opened, until

ROUNDS = 12  # of the scrub over a log that never stands still
SEGMENTS_MAX = 50
SMALL = {"segment_bytes": 4096, "index_interval_bytes": 256}


def round_over(log: Log) -> list[ScrubFinding]:
    found: list[ScrubFinding] = []
    for segment in log.segments():
        try:
            scan = SegmentScan(log, segment.base_offset)
            while scan.step(1024):
                pass
            found += scan.settle()
            scan.mark()
        except LogClosed:
            break
    return found


def written(log: Log) -> Callable[[], object]:
    chance = random.Random(7)

    def write() -> None:
        key = f"{chance.randrange(20)}".encode()
        log.append(_batch_builder.batch([(NOW, key, bytes(chance.randrange(400)))]))
        if chance.random() < 0.2:
            log.flush()

    return write


def test_beside_writers_and_retention(tmp_path: Path) -> None:
    config = {**SMALL, "retention_bytes": 20_000}
    with opened(tmp_path, **config) as log_dir:
        log = log_dir.create("t", 0, log_config(**config))
        with beside(written(log), log_dir.retain, log_dir.checkpoint, lambda: log.rest(0)):
            until(lambda: log.log_start_offset > 0)
            found = [each for _ in range(ROUNDS) for each in round_over(log)]
        assert found == []
        assert log.holes() == []


def test_beside_compaction(tmp_path: Path) -> None:
    config = {**SMALL, "cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.0}
    with opened(tmp_path, **config) as log_dir:
        log = log_dir.create("t", 0, log_config(**config))
        rounds = 0

        def compact() -> None:
            nonlocal rounds
            log_dir.checkpoint()
            rounds += log_dir.compact()

        write = written(log)

        def write_for_a_while() -> None:
            """What is not compacted yet has its end: the scrub looks at all of it in each round."""
            if len(log.segments()) < SEGMENTS_MAX:
                write()
            else:
                time.sleep(0.001)

        with beside(write_for_a_while, compact):
            until(lambda: rounds > 0)
            found = [each for _ in range(ROUNDS) for each in round_over(log)]
            until(lambda: rounds > 2)
        assert found == []
        assert log.holes() == []
        log.flush()
        offsets = [_batch.headers(each)[0].base_offset for each in everything(log)]
        assert offsets == sorted(set(offsets))


def test_beside_truncation(tmp_path: Path) -> None:
    with opened(tmp_path, **SMALL) as log_dir:
        log = log_dir.create("t", 0, log_config(**SMALL))
        write = written(log)

        def cut() -> None:
            for _ in range(30):
                write()
            log.flush()
            log.truncate(log.log_end_offset - 20)

        with beside(cut):
            until(lambda: log.log_end_offset > 60)
            found = [each for _ in range(ROUNDS) for each in round_over(log)]
        assert found == []
        assert log.holes() == []


def test_beside_creation_and_deletion(tmp_path: Path) -> None:
    with opened(tmp_path, **SMALL) as log_dir:

        def come_and_go() -> None:
            log = log_dir.create("t", 0, log_config(**SMALL))
            for _ in range(30):
                log.append(batch(bytes(400)))
            log.flush()
            log_dir.delete("t", 0)

        rounds, found = 0, list[ScrubFinding]()
        with beside(come_and_go):
            while rounds < ROUNDS:
                log = log_dir.logs().get(("t", 0))
                if log is not None:
                    found += closed_or(log)
                    rounds += 1
        assert found == []
        assert [name for name in log_dir.engine.known() if name not in names(log_dir)] == []


def closed_or(log: Log) -> list[ScrubFinding]:
    """A log that is deleted meanwhile may refuse to be looked at, and is not damaged."""
    try:
        return round_over(log)
    except ApplianceError:
        assert log_is_gone(log)
        return []


def log_is_gone(log: Log) -> bool:
    try:
        log.flush()
    except ApplianceError:
        return True
    return False


def names(log_dir: LogDir) -> list[str]:
    return [f"{topic}-{partition}" for topic, partition in log_dir.logs()]
