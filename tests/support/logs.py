"""Small logs for tests: batches from strings, one way to open a directory, waiting on others."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from appliance._log import Log
from appliance.config import LogConfig, StorageConfig
from appliance.data_dir.log_dir import LogDir
from appliance.record import _batch, _batch_builder

NOW = 1_700_000_000_000  # of records whose time does not matter; fits no wall clock by chance
LONG = (1 << 63) - 1
DAY_MS = 86_400_000

# No timer checkpoints, no reserve, no low water: a test says when, and needs no free disk.
STORAGE = StorageConfig(
    checkpoint_interval_ms=3_600_000,
    reserve_bytes=0,
    low_water_bytes=0,
    sync_threads=2,
    recovery_threads=2,
)


def log_config(**given: Any) -> LogConfig:
    """Nothing is flushed, rolled or deleted but on demand."""
    quiet = {
        "flush_ms": DAY_MS,
        "flush_messages": LONG,
        "retention_ms": -1,
        "segment_ms": 1000 * DAY_MS,
        "message_timestamp_after_max_ms": LONG,
    }
    return LogConfig(**{**quiet, **given})


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """A write beyond fails, as on a disk that does."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)


def batch(*values: str | bytes, timestamp: int = NOW, step: int = 0, **given: Any) -> bytes:
    """One record a value, `step` ms apart."""
    raw = [each.encode() if isinstance(each, str) else each for each in values or ("v",)]
    records = [(timestamp + step * i, b"k", value) for i, value in enumerate(raw)]
    return _batch_builder.batch(records, **given)


def produced(
    sequence: int, count: int = 1, pid: int = 7, epoch: int = 0, txn: bool = False, **given: Any
) -> bytes:
    """A batch of an idempotent or transactional producer; its values name their sequence."""
    values = [f"{pid}.{epoch}.{sequence + i}" for i in range(count)]
    return batch(
        *values,
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=txn,
        **given,
    )


def marker(kind: str, pid: int = 7, epoch: int = 0, coordinator_epoch: int = 0) -> bytes:
    return _batch_builder.control_batch(kind, pid, epoch, coordinator_epoch, NOW)


def end_txn(log: Log, kind: str, pid: int = 7, epoch: int = 0, coordinator_epoch: int = 0) -> int:
    """The offset of the marker."""
    data = marker(kind, pid, epoch, coordinator_epoch)
    return log.append(data, origin="coordinator").base_offset


@contextmanager
def opened(path: Path, **given: Any) -> Iterator[LogDir]:
    """Every log found with the settings `given`; a clean stop at the end, unless abandoned."""
    config = log_config(**given)
    log_dir = LogDir.open(path, STORAGE, log_config=lambda topic, partition: config)
    try:
        yield log_dir
    except BaseException:
        log_dir.abandon()
        raise
    log_dir.close()


@contextmanager
def one_log(path: Path, **given: Any) -> Iterator[Log]:
    """The log t-0 of a directory, made if it is not there."""
    with opened(path, **given) as log_dir:
        log = log_dir.logs().get(("t", 0))
        yield log or log_dir.create("t", 0, log_config(**given))


def reopened(log_dir: LogDir, cleanly: bool, **given: Any) -> LogDir:
    if cleanly:
        log_dir.close()
    else:
        log_dir.abandon()
    config = log_config(**given)
    return LogDir.open(log_dir.path, STORAGE, log_config=lambda topic, partition: config)


def everything(log: Log, up_to: str = "end") -> list[bytes]:
    """All batches from the log start on, each as its bytes."""
    found: list[bytes] = []
    offset = log.log_start_offset
    while data := log.read(offset, 1 << 20, up_to):
        found += split(data)
        offset = _batch.headers(found[-1])[0].last_offset + 1
    return found


def split(data: bytes) -> list[bytes]:
    return [data[info.position : info.position + info.size] for info in _batch.headers(data)]


def values(data: bytes | list[bytes]) -> list[str]:
    raw = data if isinstance(data, bytes) else b"".join(data)
    return [(record.value or b"").decode() for record in _batch.records(raw)]


def bases(data: bytes) -> list[int]:
    return [info.base_offset for info in _batch.headers(data)]


def segment_bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments()]


def copied(source: Path, target: Path) -> Path:
    """A data directory as it lies on disk now; sockets and pipes in it are not."""
    shutil.copytree(source, target, symlinks=True)
    return target


def until(condition: Callable[[], Any], deadline_s: float = 20.0) -> Any:
    """Its first true value; asked again and again, for what another thread will bring about: late
    by a tenth of the time that it took, since who asks of a broker is a load for it."""
    begin = time.monotonic()
    pause = threading.Event()
    while not (value := condition()):
        waited_s = time.monotonic() - begin
        assert waited_s < deadline_s, f"not so after {deadline_s:g} s"
        pause.wait(min(0.001 + waited_s / 10, 0.05))
    return value


def break_file(log: Log) -> None:
    """Its descriptor becomes one that cannot be synced, as on a failed disk (nor read, here)."""
    break_open(Path(log.segments()[-1].path))


def break_open(path: Path, by: Path = Path(os.devnull)) -> None:
    """The same, of any file that is open. `by` a directory it can be neither read nor written."""
    for name in os.listdir("/proc/self/fd"):
        try:
            is_it = os.readlink(f"/proc/self/fd/{name}") == str(path)
        except FileNotFoundError:
            continue
        if is_it:
            other = os.open(by, os.O_RDONLY if by.is_dir() else os.O_RDWR)
            os.dup2(other, int(name))
            os.close(other)
