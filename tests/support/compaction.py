"""A small compacted log, and rounds of compaction when a test asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from appliance._log import Log
from appliance.data_dir.log_dir import LogDir
from appliance.record import _batch_builder
from tests.support.logs import NOW, end_txn, log_config, opened

HOUR_MS = 3_600_000
LATER = NOW + HOUR_MS


def settings(**given: Any) -> dict[str, Any]:
    eager = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.0, "segment_bytes": 4096}
    return {**eager, **given}


@contextmanager
def compacted(path: Path, **given: Any) -> Iterator[tuple[LogDir, Log]]:
    with opened(path, **settings(**given)) as log_dir:
        log = log_dir.logs().get(("t", 0))
        yield log_dir, log or log_dir.create("t", 0, log_config(**settings(**given)))


def put(log: Log, text: str, timestamp: int = NOW, **given: Any) -> int:
    """The text "a=1 b=2 c" is one batch of two values and a tombstone. Its base offset."""
    fields = [each.partition("=") for each in text.split()]
    records = [
        (timestamp, key.encode(), value.encode() if sign else None) for key, sign, value in fields
    ]
    return log.append(_batch_builder.batch(records, **given)).base_offset


def settle(log_dir: LogDir, log: Log) -> None:
    """All so far is in sealed segments, durable, and recovery would begin after it."""
    log.roll()
    log.flush()
    log_dir.checkpoint()


def cleaned(log_dir: LogDir, log: Log, now_ms: int = LATER, **given: Any) -> bool:
    settle(log_dir, log)
    return log.compact(now_ms, **given)


def transaction(log: Log, text: str, sequence: int, kind: str, pid: int = 9) -> int:
    """A transaction of one batch; the offset of its marker."""
    producer = {"producer_id": pid, "producer_epoch": 0, "base_sequence": sequence}
    put(log, text, transactional=True, **producer)
    return end_txn(log, kind, pid)
