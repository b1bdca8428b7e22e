"""A backup becomes a data directory that a broker starts from.

    1 the mark `restoring`; no broker starts while it is there
    2 segments, put together from pieces that are compared with their names
    3 the catalog
    4 the engine opens all logs as those of an Apache Kafka: it checks every batch, and builds
      indexes and the state of producers; ends, starts and leader epochs are those of the point
    5 a clean stop; topics of a cluster become this box's own, and the mark goes

Who is killed begins the same again: a segment that has its name is whole.
"""

from __future__ import annotations

import os
import pwd
import re
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from appliance.backup.errors import BackupUnknown, RestoreFailed
from appliance.backup.manifest import Manifest, PartitionCopy, Piece
from appliance.backup.restored_catalog import make_own, restore_catalog
from appliance.backup.target import Target
from appliance.catalog import kafka_uuid
from appliance.catalog.catalog import NAME as CATALOG
from appliance.config import StorageConfig
from appliance.data_dir import (
    data_marker,
    durable_directories,
    partition_metadata,
    unfinished_restore,
)
from appliance.data_dir.log_dir import LogDir
from appliance.data_dir.partition_names import directory_name
from appliance.process.owner_only import FILE_MODE, make_directory
from appliance.topics.reconciliation import PRODUCER_IDS_MARGIN
from appliance.topics.topic import INTERNAL, TRANSACTIONS

THREADS = 4
MARK = unfinished_restore.NAME
# Of a file system; of `appliance install`; a lock is left by who looked for a broker here.
NO_CONTENT = {"lost+found", data_marker.NAME, "lock"}
BEGUN = ".begun"  # a segment on the way
NOW = 0  # in the place of a file's time

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Restored:
    backup: str
    at_ms: int
    topics: int
    partitions: int
    records: int
    bytes: int
    absent: tuple[str, ...]  # partitions that the backup does not have
    missing: tuple[str, ...]  # as the backup tells of the topics that were restored
    damaged: tuple[str, ...]


@dataclass
class Restoration:
    target: Target
    manifest: Manifest
    data_dir: Path
    topics: Collection[str] = ()  # these alone; none: all
    progress: Progress = lambda done, total: None

    def run(self) -> Restored:
        partitions = self._wanted()
        self._begin()
        self._write_all(partitions)
        absent = restore_catalog(
            self.data_dir / CATALOG,
            self.target.get(self.manifest.catalog),
            {each.key for each in partitions},
            self._is_wanted,
        )
        seen = self._open(partitions)
        make_own(self.data_dir / CATALOG, self.manifest.cluster_id, seen + 1 + PRODUCER_IDS_MARGIN)
        self._end()
        return Restored(
            backup=self.manifest.id,
            at_ms=self.manifest.at_ms,
            topics=len({each.topic for each in partitions}),
            partitions=len(partitions),
            records=sum(each.records for each in partitions),
            bytes=sum(each.size for each in partitions),
            absent=tuple(absent),
            missing=tuple(filter(self._is_of_wanted, self.manifest.missing)),
            damaged=tuple(filter(self._is_of_wanted, self.manifest.damaged)),
        )

    def _is_of_wanted(self, told: str) -> bool:
        """Each such text begins with the partition's name."""
        return self._is_wanted(re.split("[: ]", told)[0].rpartition("-")[0])

    def _is_wanted(self, topic: str) -> bool:
        """Of single topics their groups go on. Transactions are left out: what is open of one is
        aborted at the start."""
        if topic in self.manifest.gone:
            return False
        return not self.topics or topic in self.topics or topic in INTERNAL - {TRANSACTIONS}

    def _wanted(self) -> list[PartitionCopy]:
        known = {each.topic for each in self.manifest.partitions}
        if missing := sorted({*self.topics} - known):
            raise BackupUnknown(
                f"backup {self.manifest.id} has no topic {missing[0]!r}; it has "
                f"{', '.join(sorted(known - INTERNAL)) or 'none'}"
            )
        return [each for each in self.manifest.partitions if self._is_wanted(each.topic)]

    # The mark

    def _begin(self) -> None:
        facts = {"backup": self.manifest.id, "topics": sorted(self.topics)}
        durable_directories.make(self.data_dir)
        check_user(self.data_dir)
        begun = unfinished_restore.begun(self.data_dir)
        if begun is None:
            self._check_empty()
        elif begun not in ({}, facts):
            raise RestoreFailed(
                f"{self.data_dir}: a restore of backup {begun.get('backup')} has begun here; go on "
                "with that (--backup, --topic), or empty the directory"
            )
        unfinished_restore.begin(self.data_dir, facts)
        durable_directories.sync_name(self.data_dir)

    def _check_empty(self) -> None:
        found = sorted({each.name for each in self.data_dir.iterdir()} - NO_CONTENT)
        if found:
            raise RestoreFailed(
                f"{self.data_dir}: got {len(found)} entries ({', '.join(found[:3])}), wanted an "
                "empty directory"
            )

    def _end(self) -> None:
        durable_directories.sync_name(self.data_dir)
        (self.data_dir / MARK).unlink()
        durable_directories.sync_name(self.data_dir)

    # Segments

    def _write_all(self, partitions: Sequence[PartitionCopy]) -> None:
        total, done, guard = sum(each.size for each in partitions), 0, threading.Lock()

        def on_bytes(size: int) -> None:
            nonlocal done
            with guard:
                done += size
                self.progress(done, total)

        with ThreadPoolExecutor(THREADS, "restore") as threads:
            waits = [threads.submit(self._write, each, on_bytes) for each in partitions]
            try:
                for each in waits:
                    each.result()
            finally:
                threads.shutdown(cancel_futures=True)

    def _write(self, partition: PartitionCopy, on_bytes: Callable[[int], None]) -> None:
        folder = self.data_dir / directory_name(partition.topic, partition.partition)
        make_directory(folder, exist_ok=True)
        segments = list(segments_of(partition))
        for base, pieces, modified_ns in segments:
            self._write_segment(folder / f"{base:020d}.log", pieces, modified_ns, on_bytes)
        if partition.producers is not None:
            first = folder / f"{segments[0][0]:020d}.snapshot"
            write(first, [self.target.get(partition.producers)])
        partition_metadata.write(folder, kafka_uuid.parse(partition.topic_id))
        durable_directories.sync_name(folder)

    def _write_segment(
        self,
        path: Path,
        pieces: Sequence[Piece],
        modified_ns: int,
        on_bytes: Callable[[int], None],
    ) -> None:
        size = sum(each.size for each in pieces)
        if path.exists() and path.stat().st_size == size:
            on_bytes(size)
            return

        def parts() -> Iterator[bytes]:
            for each in pieces:
                yield self.target.get(each.blob)
                on_bytes(each.size)

        write(path, parts(), modified_ns)

    # The engine

    def _open(self, partitions: Sequence[PartitionCopy]) -> int:
        """The largest id of a producer that any log knows; -1: none does."""
        # What is set aside for a full disk is made by the broker's first start.
        log_dir = LogDir.open(self.data_dir, StorageConfig(reserve_bytes=0, low_water_bytes=0))
        try:
            report = log_dir.report
            if report.failures or report.losses:
                told = [*report.failures, *map(str, report.losses)]
                raise RestoreFailed(f"{self.data_dir}: what was restored is damaged: {told[0]}")
            for each in partitions:
                settle(log_dir, each)
            logs = log_dir.logs().values()
            seen = max((it.producer_id for log in logs for it in log.producers()), default=-1)
        except BaseException:
            log_dir.abandon()
            raise
        log_dir.close()
        return seen


def check_user(data_dir: Path) -> None:
    """Before root leaves files there that the broker's user could not open."""
    owner = data_dir.stat().st_uid
    if os.geteuid() == 0 != owner:
        name = name_of(owner)
        raise RestoreFailed(
            f"{data_dir} is {name}'s, who could not open what root restores there: "
            f"sudo -u {name} appliance backup restore ..."
        )


def name_of(user_id: int) -> str:
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:
        return f"#{user_id}"  # as sudo takes it


def segments_of(partition: PartitionCopy) -> Iterator[tuple[int, Sequence[Piece], int]]:
    """With the times of their files: by these the next backup knows them again. The last one begins
    where the log ends if nothing is there before: deleted, or damaged."""
    end = 0
    for each in partition.segments:
        if each.pieces:
            yield each.base, each.pieces, each.modified_ns
            end = each.pieces[-1].end
    if end < partition.end or not partition.segments:
        yield partition.end, (), NOW


def settle(log_dir: LogDir, partition: PartitionCopy) -> None:
    """What files alone do not tell of a log."""
    log = log_dir.log(partition.topic, partition.partition)
    if log.log_end_offset != partition.end:
        raise RestoreFailed(
            f"{log.name}: it ends at {log.log_end_offset}, wanted {partition.end}: what was "
            "restored is not whole"
        )
    log.raise_leader_epoch(partition.leader_epoch + 1)
    if partition.start > log.log_start_offset:
        log.delete_before(partition.start)


def write(
    path: Path, parts: Iterator[bytes] | Sequence[bytes], modified_ns: int = NOW
) -> None:
    """It has its name when it is whole and on disk."""
    begun = path.with_name(path.name + BEGUN)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with open(os.open(begun, flags, FILE_MODE), "wb") as file:
        for each in parts:
            file.write(each)
        file.flush()
        if modified_ns != NOW:
            os.utime(file.fileno(), ns=(modified_ns, modified_ns))
        os.fsync(file.fileno())
    begun.rename(path)
