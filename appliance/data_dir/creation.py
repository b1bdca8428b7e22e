"""New partitions: directories, logs and names in the journal, all of them or none."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor

from appliance._log import Log
from appliance.config import LogConfig
from appliance.data_dir import descriptors
from appliance.data_dir.directories import remove, storage_error
from appliance.data_dir.locked_dir import LockedDir
from appliance.errors import ApplianceError
from appliance.native import _descriptors
from appliance.process import event_log
from appliance.process.owner_only import make_directory

events = event_log.named("log_dir")

# How long a creation waits for a commit that lets go of files: a slow disk's.
DESCRIPTORS_S = 2.0

# Each waits for the disk, not for a core: what they sync at once is one write of the file system's.
CREATION_THREADS = 16


class LogExists(ApplianceError):
    kafka_code = 36


class DescriptorsExhausted(ApplianceError):
    """A matter of policy for clients: the operator's limit, which they cannot wait out."""

    kafka_code = 44


def create(
    where: LockedDir, names: list[str], config: LogConfig, missing: Collection[str]
) -> list[Log]:
    """However many they are, the disk is waited for a few times only: what threads sync at once the
    file system writes together. What the journal has of those that are `missing` outlives a
    failure: it was promised."""
    made: list[str] = []
    logs: list[Log] = []
    _check_descriptors(names)
    try:
        for name in names:
            _make(where, name)
            made.append(name)
        where.engine.sync_directory()
        logs = _open_all(where, names, config)
        # Known from its first record on: recovery holds unknown directories for foreign ones,
        # where damage in the middle is a hole, not the end of what was promised.
        where.engine.commit_journal()
    except ApplianceError:
        _take_back(where, made, logs, missing)
        raise
    return logs


def _make(where: LockedDir, name: str) -> None:
    path = where.path / name
    try:
        make_directory(path, exist_ok=True)
        # A creation that failed may have left it, but nothing in it.
        if any(each.lstat().st_size for each in path.iterdir()):
            raise LogExists(f"{path} exists but is not open; see the recovery report")
    except OSError as error:
        raise storage_error(error, f"{name} cannot be created") from error


def _check_descriptors(names: list[str]) -> None:
    """Before half of them is made: those that are opened at once must find room."""
    wanted = descriptors.BUSY_PARTITION * min(len(names), CREATION_THREADS)
    deadline = time.monotonic() + DESCRIPTORS_S
    while not _descriptors.relieve(wanted):
        if time.monotonic() > deadline:
            found = _descriptors.counters()
            raise DescriptorsExhausted(
                f"{names[0].rpartition('-')[0]}: to make {len(names)} partitions takes {wanted} "
                f"file descriptors at once, and logs that are in use hold {found['open']} of the "
                f"{found['most']} that they may have: raise LimitNOFILE of the service, or try "
                "again when fewer are written"
            )
        time.sleep(0.01)  # the files that hold what is not synced were asked for


def _open_all(where: LockedDir, names: list[str], config: LogConfig) -> list[Log]:
    """All of them, or none is open."""
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
        events.error("a creation that failed is in the journal; the next start forgets it",
                     error=error)  # fmt: skip


def _let_go(logs: Iterable[Log]) -> None:
    """No file stays open, and no checkpoint that has begun puts them into the journal again."""
    for log in logs:
        log.close()
        log.settle_journal()
