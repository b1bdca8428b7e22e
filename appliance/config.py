"""Every setting in one table: the fields below, each with its name, unit, limits and reason.

Names are Kafka's where Kafka has the setting. A value comes, later ones winning, from the default, a
TOML file, the environment (`APPLIANCE_LOG_SEGMENT_BYTES`), `--set log.segment.bytes=...` and flags.
`docs/operations.md` is printed from this table by `python -m appliance.config`.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from appliance.errors import ApplianceError

LONG_MAX = 2**63 - 1
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SECOND_MS, HOUR_MS, DAY_MS = 1000, 3_600_000, 86_400_000

ENVIRONMENT_PREFIX = "APPLIANCE_"
# read by setup.py and the crash tests, not settings of a running broker
ENVIRONMENT_OF_BUILDS = {"DEBUG", "SANITIZE", "MUTANTS", "MUTANT", "BUILD_TAG"}


class SettingInvalid(ApplianceError):
    """A setting that does not exist or cannot have this value; the text says which, got, wanted."""

    kafka_code = 40


def setting(
    name: str,
    default: Any,
    reason: str,
    *,
    unit: str = "",
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
    default_text: str = "",
) -> Any:
    """A dataclass field that is a setting. A callable default is asked on the machine it runs on."""
    facts = {
        "name": name,
        "reason": reason,
        "unit": unit,
        "minimum": minimum,
        "maximum": maximum,
        "choices": choices,
        "default_text": default_text,
    }
    if callable(default):
        return field(default_factory=default, metadata=facts)
    return field(default=default, metadata=facts)


@dataclass(frozen=True)
class StorageConfig:
    """How the data directory as a whole is kept: commit, recovery, space."""

    checkpoint_interval_ms: int = setting(
        "checkpoint.interval.ms",
        SECOND_MS,
        "How often recovery points are saved. After a crash at most what was written since is read again.",
        unit="ms",
        minimum=10,
    )
    reserve_bytes: int = setting(
        "storage.reserve.bytes",
        64 * MIB,
        "A file that holds space back, so that recovery and deletes work with 0 bytes free.",
        unit="bytes",
        minimum=0,
    )
    low_water_bytes: int = setting(
        "storage.low.water.bytes",
        256 * MIB,
        "Below this much free space writes are refused with a retriable error; reads, deletes and "
        "retention go on, and writes resume by themselves.",
        unit="bytes",
        minimum=0,
    )
    sync: str = setting(
        "commit.sync",
        "auto",
        "How a group commit reaches the disk: fdatasync per file, one syncfs, or whichever measures better.",
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
        lambda: os.cpu_count() or 1,
        "Partitions recovered at the same time at start.",
        minimum=1,
        maximum=256,
        default_text="number of cores",
    )
    write_behind_bytes: int = setting(
        "write.behind.bytes",
        MIB,
        "Unwritten bytes of a segment after which the kernel is asked to start writing, so that the "
        "final sync is short. 0 leaves it to the kernel.",
        unit="bytes",
        minimum=0,
    )
    sealed_files_idle_ms: int = setting(
        "sealed.files.idle.ms",
        30 * SECOND_MS,
        "Sealed segment files not read for this long are closed: open files stay far below the limit.",
        unit="ms",
        minimum=0,
    )
    scrub_bytes_per_s: int = setting(
        "scrub.bytes.per.s",
        0,
        "Pace at which sealed segments are read in the background to find damage early. 0 is off.",
        unit="bytes per second",
        minimum=0,
    )

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class LogConfig:
    """What one partition's log keeps and when. `name` is the broker's default for all topics; a topic's
    own setting is the field's name with dots, as in Kafka (`segment_bytes` is `segment.bytes`)."""

    segment_bytes: int = setting(
        "log.segment.bytes",
        GIB,
        "Size at which a segment is sealed. Retention and compaction work on sealed segments.",
        unit="bytes",
        minimum=61,  # one batch header: no record fits a smaller file
        maximum=2**31 - 1,  # positions in Kafka's offset index are 4 bytes
    )
    segment_ms: int = setting(
        "log.roll.ms",
        7 * DAY_MS,
        "Age at which a segment is sealed even if small.",
        unit="ms",
        minimum=1,
    )
    segment_index_bytes: int = setting(
        "log.index.size.max.bytes",
        10 * MIB,
        "Size at which an index is full and its segment is sealed.",
        unit="bytes",
        minimum=24,
        maximum=2**31 - 1,
    )
    index_interval_bytes: int = setting(
        "log.index.interval.bytes",
        4 * KIB,
        "Log bytes between two index entries: a read scans at most this much to find its start.",
        unit="bytes",
        minimum=0,
        maximum=2**31 - 1,
    )
    retention_ms: int = setting(
        "log.retention.ms",
        7 * DAY_MS,
        "Records older than this are deleted, a segment at a time. -1 keeps them for ever.",
        unit="ms",
        minimum=-1,
    )
    retention_bytes: int = setting(
        "log.retention.bytes",
        -1,
        "Size above which a partition's oldest segments are deleted. -1 is no limit.",
        unit="bytes",
        minimum=-1,
    )
    flush_messages: int = setting(
        "log.flush.interval.messages",
        10_000,
        "Records after which a partition is synced: the most that a power cut can take from acks=1.",
        unit="records",
        minimum=1,
    )
    flush_ms: int = setting(
        "log.flush.interval.ms",
        SECOND_MS,
        "Time after which a partition is synced, counted from its oldest unsynced record: the most "
        "that a power cut can take from acks=1.",
        unit="ms",
        minimum=0,
    )
    cleanup_policy: str = setting(
        "log.cleanup.policy",
        "delete",
        "Delete old segments, keep the last record of each key, or both.",
        choices=("delete", "compact", "compact,delete", "delete,compact"),
    )
    min_cleanable_dirty_ratio: float = setting(
        "log.cleaner.min.cleanable.ratio",
        0.5,
        "Share of a log not yet compacted at which it is: lower saves disk, higher saves work.",
        minimum=0,
        maximum=1,
    )
    delete_retention_ms: int = setting(
        "log.cleaner.delete.retention.ms",
        DAY_MS,
        "How long a tombstone stays, so that a reader from the start still learns of the delete.",
        unit="ms",
        minimum=0,
    )
    min_compaction_lag_ms: int = setting(
        "log.cleaner.min.compaction.lag.ms",
        0,
        "Age below which a record is never compacted away.",
        unit="ms",
        minimum=0,
    )
    max_compaction_lag_ms: int = setting(
        "log.cleaner.max.compaction.lag.ms",
        LONG_MAX,
        "Age at which a record makes its log due for compaction whatever the ratio.",
        unit="ms",
        minimum=1,
        default_text="no limit",
    )
    max_message_bytes: int = setting(
        "message.max.bytes",
        MIB + 12,
        "Largest record batch accepted, as sent (compressed).",
        unit="bytes",
        minimum=61,
        maximum=2**31 - 1,
    )
    message_timestamp_type: str = setting(
        "log.message.timestamp.type",
        "CreateTime",
        "Whose clock stamps a record: the producer's or ours.",
        choices=("CreateTime", "LogAppendTime"),
    )
    producer_id_expiration_ms: int = setting(
        "producer.id.expiration.ms",
        DAY_MS,
        "How long an idle idempotent producer is remembered; after that a repeat of its last batch "
        "is not recognised.",
        unit="ms",
        minimum=1,
    )
    visibility: str = setting(
        "log.visibility",
        "durable",
        "How far consumers may read: only what a power cut cannot take back, or all that is written.",
        choices=("durable", "appended"),
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise SettingInvalid(
                f"log.cleaner.min.compaction.lag.ms: got {self.min_compaction_lag_ms}, wanted at most "
                f"log.cleaner.max.compaction.lag.ms, which is {self.max_compaction_lag_ms}"
            )


def wanted(kind: type, facts: Mapping[str, Any]) -> str:
    """What a setting accepts, in words."""
    if facts["choices"]:
        return "one of " + ", ".join(repr(choice) for choice in facts["choices"])
    if kind not in (int, float):
        return {Path: "a path", bool: "true or false"}.get(kind, "text")
    words = "a whole number" if kind is int else "a number"
    low, high = facts["minimum"], facts["maximum"]
    if low is not None and high is not None:
        words += f" from {low} to {high}"
    elif low is not None:
        words += f" of at least {low}"
    return words + (f" ({facts['unit']})" if facts["unit"] else "")


def is_allowed(value: Any, kind: type, facts: Mapping[str, Any]) -> bool:
    if kind in (int, float):
        if isinstance(value, bool) or not isinstance(value, (int, kind)):
            return False
        low, high = facts["minimum"], facts["maximum"]
        high = LONG_MAX if high is None else high  # Kafka's longs; the core holds 64 bits
        return (low is None or value >= low) and value <= high
    if not isinstance(value, kind):
        return False
    return not facts["choices"] or value in facts["choices"]


@cache
def kinds_of(config: type) -> dict[str, type]:
    return get_type_hints(config)


def check_fields(config: Any) -> None:
    """Also a config made in Python is held to the table."""
    kinds = kinds_of(type(config))
    for each in fields(config):
        value = getattr(config, each.name)
        if "name" in each.metadata and not is_allowed(value, kinds[each.name], each.metadata):
            raise SettingInvalid(
                f"{each.metadata['name']}: got {value!r}, wanted {wanted(kinds[each.name], each.metadata)}"
            )
