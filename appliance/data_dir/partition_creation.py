"""New partitions: directories, logs and names in the journal, all of them or none."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor

from appliance._log import Log
from appliance.config import LogConfig
from appliance.data_dir import descriptor_budget
from appliance.data_dir.durable_directories import remove, storage_error
from appliance.data_dir.locked_dir import LockedDir
from appliance.errors import ApplianceError
from appliance.native import _descriptors
from appliance.process import event_log
from appliance.process.owner_only import make_directory

events = event_log.named("log_dir")

# How long a creation waits for a commit that closes files on a slow disk.
DESCRIPTORS_S = 2.0

# Each waits for the disk, not for a core: concurrent syncs become one write of the file system.
CREATION_THREADS = 16


class LogExists(ApplianceError):
    kafka_code = 36


class DescriptorsExhausted(ApplianceError):
    """A policy violation for clients: waiting does not lift the operator's limit."""

    kafka_code = 44


def create(
    where: LockedDir, names: list[str], config: LogConfig, missing: Collection[str]
) -> list[Log]:
    """Threads sync all of them at once, so the disk is waited for only a few times. Journal entries
    of `missing` partitions survive a failure: they were promised."""
    made: list[str] = []
    logs: list[Log] = []
    _check_descriptors(names)
    try:
        for name in names:
            _make(where, name)
            made.append(name)
        where.engine.sync_directory()
        logs = _open_all(where, names, config)
        # The journal knows them from their first record on: recovery takes unknown directories for
        # foreign, and treats damage in their middle as a hole, not as the end of what was promised.
        where.engine.commit_journal()
    except ApplianceError:
        _take_back(where, made, logs, missing)
        raise
    return logs


def _make(where: LockedDir, name: str) -> None:
    path = where.path / name
    try:
        make_directory(path, exist_ok=True)
        # A failed creation may have left it, empty.
        if any(each.lstat().st_size for each in path.iterdir()):
            raise LogExists(f"{path} exists but is not open; see the recovery report")
    except OSError as error:
        raise storage_error(error, f"{name} cannot be created") from error


def _check_descriptors(names: list[str]) -> None:
    """Fails before half of them exist: new partitions need descriptors at once."""
    wanted = descriptor_budget.BUSY_PARTITION * min(len(names), CREATION_THREADS)
    deadline = time.monotonic() + DESCRIPTORS_S
    while not _descriptors.relieve(wanted):
        if time.monotonic() > deadline:
            files = _descriptors.counters()
            raise DescriptorsExhausted(
                f"{names[0].rpartition('-')[0]}: creating {len(names)} partitions takes {wanted} "
                f"file descriptors at once, and logs that are in use hold {files['open']} of the "
                f"{files['most']} that they may have: raise LimitNOFILE of the service, or try "
                "again when fewer are written"
            )
        time.sleep(0.01)  # a commit closes unsynced files


def _open_all(where: LockedDir, names: list[str], config: LogConfig) -> list[Log]:
    """Opens all of them, or none."""
    if len(names) == 1:
        return [where.open_log(names[0], config)[0]]  # a thread of its own takes longer
    logs: list[Log] = []
    failures: list[ApplianceError] = []
    with ThreadPoolExecutor(CREATION_THREADS, "creation") as pool:
        for each in [pool.submit(where.open_log, name, config) for name in names]:
            try:
                logs.append(each.result()[0])
            except ApplianceError as error:
                failures.append(error)
    if failures:
        _let_go(logs)
        raise failures[0]
    return logs


def _take_back(
    where: LockedDir, names: list[str], logs: list[Log], missing: Collection[str]
) -> None:
    _let_go(logs)
    for name in names:
        remove(where.path / name)
    try:
        where.engine.forget_names([name for name in names if name not in missing])
    except ApplianceError as error:
        events.error("a failed creation is in the journal; the next start removes it",
                     error=error)  # fmt: skip


def _let_go(logs: Iterable[Log]) -> None:
    """Closes the files; no checkpoint that has begun adds them to the journal again."""
    for log in logs:
        log.close()
        log.settle_journal()
