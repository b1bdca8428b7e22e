"""The data directory as a whole: commit, recovery, space."""

from __future__ import annotations

import os
from dataclasses import dataclass

from appliance.config.setting import DAY_MS, MIB, SECOND_MS, Part, setting


@dataclass(frozen=True)
class StorageConfig(Part):
    checkpoint_interval_ms: int = setting(
        "checkpoint.interval.ms",
        SECOND_MS,
        "How often recovery points are saved. After a crash at most the data since the last one "
        "is read again.",
        minimum=10,
    )
    reserve_bytes: int = setting(
        "storage.reserve.bytes",
        64 * MIB,
        "A file that reserves space, so that recovery and deletes work with 0 bytes free.",
        minimum=0,
    )
    low_water_bytes: int = setting(
        "storage.low.water.bytes",
        256 * MIB,
        "Below this much free space writes are refused with a retriable error; reads, deletes and "
        "retention continue, and writes resume by themselves.",
        minimum=0,
    )
    file_system_accepted: str = setting(
        "storage.file.system.accepted",
        "",
        "The name of an unproven file system that you accept, such as zfs. Then health is not "
        "degraded because of it; the start still warns. A mount that does not flush (nobarrier) "
        "is never accepted.",
    )
    sync: str = setting(
        "commit.sync",
        "auto",
        "How a group commit reaches the disk: fdatasync per file, one syncfs, or whichever "
        "measures better. One syncfs only on ext4 and XFS, where it is proven.",
        choices=("auto", "files", "filesystem"),
    )
    sync_threads: int = setting(
        "commit.threads",
        4,
        "Files synced at the same time by one group commit. A journaling file system merges them.",
        minimum=1,
        maximum=64,
    )
    recovery_threads: int = setting(
        "recovery.threads",
        min(os.cpu_count() or 1, 256),
        "Partitions recovered at the same time at start.",
        minimum=1,
        maximum=256,
        default_words="number of cores",
    )
    write_behind_bytes: int = setting(
        "write.behind.bytes",
        4 * MIB,
        "Unwritten bytes of a segment after which the kernel is asked to start writing, so that "
        "the final sync is short. 0 leaves it to the kernel.",
        minimum=0,
    )
    sealed_files_idle_ms: int = setting(
        "sealed.files.idle.ms",
        30 * SECOND_MS,
        "Sealed segment files not read for this long are closed: open files stay far below "
        "the limit.",
        minimum=0,
    )

    move_bytes_per_second: int = setting(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        64 * MIB,
        "How fast partitions are copied when they move to another directory of log.dirs, all "
        "together. A disk of 150 MB/s has as much left for clients. 0: as fast as the disks are.",
        unit="bytes",
        minimum=0,
    )
    scrub_bytes_per_second: int = setting(
        "scrub.bytes.per.second",
        8 * MIB,
        "How fast segments are verified in the background, from the disk: length, checksum and "
        "offsets of every batch, indexes, missing files. A terabyte takes a day and a half, and "
        "hardly slows a disk of 100 MB/s. 0: never.",
        unit="bytes",
        minimum=0,
    )
    scrub_interval_ms: int = setting(
        "scrub.interval.ms",
        7 * DAY_MS,
        "Time between the starts of two rounds of verifying all segments. Decay of a disk should "
        "be detected while a backup or a mirror still has the data.",
        minimum=SECOND_MS,
    )
