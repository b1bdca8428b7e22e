"""The start of all directories of records, each in a thread of its own: one that reads for long, or
fails, does not hold up the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from appliance.catalog.loss_ledger import Damage
from appliance.data_dir.partition_names import Key
from appliance.data_dir.record_dir import RecordDir
from appliance.data_dir.recovery import LogConfigs, RecoveryProgress
from appliance.data_dir.recovery_report import RecoveryReport
from appliance.errors import ApplianceError


@dataclass
class StartReport:
    """What each directory's recovery found, and what is to be told of all."""

    of: list[tuple[Path, RecoveryReport]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # differences between directories and catalog

    def take(self, reports: list[tuple[Path, RecoveryReport]]) -> None:
        self.of = reports
        if len(reports) == 1:
            self.notes = reports[0][1].notes

    @property
    def is_new(self) -> bool:
        return all(report.is_new for _, report in self.of)

    @property
    def was_clean(self) -> bool:
        return all(report.was_clean for _, report in self.of)

    @property
    def losses(self) -> list[Damage]:
        return [each for _, report in self.of for each in report.losses]

    @property
    def failures(self) -> list[str]:
        return [each for _, report in self.of for each in report.failures]

    def text(self) -> str:
        """In plain words."""
        if len(self.of) == 1:
            return self.of[0][1].text()
        return "\n".join([*(f"{path}: {report.text()}" for path, report in self.of), *self.notes])


class SharedProgress:
    """The sum over all directories."""

    def __init__(self, progress: RecoveryProgress) -> None:
        self._progress = progress
        self._lock = threading.Lock()
        self._of: dict[RecordDir, tuple[int, int]] = {}
        self.stop: BaseException | None = None  # the start is to end

    def of(self, directory: RecordDir) -> RecoveryProgress:
        def note(done: int, found: int) -> None:
            with self._lock:
                self._of[directory] = (done, found)
                if self.stop is not None:
                    raise self.stop
                try:
                    self._progress(*map(sum, zip(*self._of.values(), strict=True)))
                except BaseException as error:
                    self.stop = error
                    raise

        return note


def recover_all(
    directories: Sequence[RecordDir],
    progress: RecoveryProgress,
    log_config: LogConfigs,
    is_elsewhere: Callable[[RecordDir, Key], bool],
) -> list[tuple[RecordDir, Exception]]:
    """Those that could not be recovered, and why."""
    shared = SharedProgress(progress)

    def recover(directory: RecordDir) -> None:
        directory.opened().recover(
            shared.of(directory), log_config, lambda key: is_elsewhere(directory, key)
        )

    failed: list[tuple[RecordDir, Exception]] = []
    with ThreadPoolExecutor(len(directories), "directory") as pool:
        begun: list[Future[None]] = [pool.submit(recover, each) for each in directories]
        for directory, each in zip(directories, begun, strict=True):
            try:
                each.result()
            except (ApplianceError, OSError) as error:
                failed.append((directory, error))
    if shared.stop is not None:
        raise shared.stop
    return failed
