"""One partition's log: segments, retention, compaction, what it accepts."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.config.setting import (
    DAY_MS,
    GIB,
    HOUR_MS,
    KIB,
    LONG_MAX,
    MIB,
    SECOND_MS,
    Part,
    SettingInvalid,
    setting,
)


@dataclass(frozen=True)
class LogConfig(Part):
    """What one partition's log keeps and when. A field's setting is the broker's default for all
    topics; a topic's own is the field's name with dots, as in Kafka (`segment.bytes`)."""

    segment_bytes: int = setting(
        "log.segment.bytes",
        GIB,
        "Size at which a segment is sealed. Retention and compaction work on sealed segments.",
        minimum=61,  # one batch header: no record fits a smaller file
        maximum=2**31 - 1,  # positions in Kafka's offset index are 4 bytes
    )
    segment_ms: int = setting(
        "log.roll.ms",
        7 * DAY_MS,
        "Age at which a segment is sealed even if small.",
        minimum=1,
    )
    segment_index_bytes: int = setting(
        "log.index.size.max.bytes",
        10 * MIB,
        "Size at which an index is full and its segment is sealed.",
        minimum=24,
        maximum=2**31 - 1,
    )
    index_interval_bytes: int = setting(
        "log.index.interval.bytes",
        4 * KIB,
        "Log bytes between two index entries: a read scans at most this much to find its start.",
        minimum=0,
        maximum=2**31 - 1,
    )
    retention_ms: int = setting(
        "log.retention.ms",
        7 * DAY_MS,
        "Records older than this are deleted, a segment at a time. -1 keeps them for ever.",
        minimum=-1,
    )
    retention_bytes: int = setting(
        "log.retention.bytes",
        -1,
        "Size above which a partition's oldest segments are deleted. -1 is no limit.",
        minimum=-1,
    )
    flush_messages: int = setting(
        "log.flush.interval.messages",
        10_000,
        "Records after which a partition is synced: the most that a power cut can take "
        "from acks=1.",
        unit="records",
        minimum=1,
    )
    flush_ms: int = setting(
        "log.flush.interval.ms",
        SECOND_MS,
        "Time after which a partition is synced, counted from its oldest unsynced record: the most "
        "that a power cut can take from acks=1.",
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
        "Share of uncompacted bytes at which a log is compacted: lower saves disk, higher saves "
        "work.",
        minimum=0,
        maximum=1,
    )
    delete_retention_ms: int = setting(
        "log.cleaner.delete.retention.ms",
        DAY_MS,
        "How long a tombstone stays, so that a reader from the start still sees the delete.",
        minimum=0,
    )
    min_compaction_lag_ms: int = setting(
        "log.cleaner.min.compaction.lag.ms",
        0,
        "Age below which a record is never compacted away.",
        minimum=0,
    )
    max_compaction_lag_ms: int = setting(
        "log.cleaner.max.compaction.lag.ms",
        LONG_MAX,
        "Age at which a record makes its log due for compaction whatever the ratio.",
        minimum=1,
        default_words="no limit",
    )
    max_message_bytes: int = setting(
        "message.max.bytes",
        MIB + 12,
        "Largest record batch accepted, as sent (compressed).",
        minimum=61,
        maximum=2**31 - 1,
    )
    message_timestamp_type: str = setting(
        "log.message.timestamp.type",
        "CreateTime",
        "Whose clock stamps a record: the producer's or the broker's.",
        choices=("CreateTime", "LogAppendTime"),
    )
    message_timestamp_before_max_ms: int = setting(
        "log.message.timestamp.before.max.ms",
        LONG_MAX,
        "How far in the past a producer's timestamp may be.",
        minimum=0,
        default_words="no limit",
    )
    message_timestamp_after_max_ms: int = setting(
        "log.message.timestamp.after.max.ms",
        HOUR_MS,
        "How far in the future a producer's timestamp may be: one wrong clock must not keep a "
        "segment from retention for years.",
        minimum=0,
    )
    producer_id_expiration_ms: int = setting(
        "producer.id.expiration.ms",
        DAY_MS,
        "How long an idle idempotent producer is remembered; after that a repeat of its last batch "
        "is not recognised.",
        minimum=1,
    )
    visibility: str = setting(
        "log.visibility",
        "durable",
        "How far consumers may read: only what survives a power cut, or everything written.",
        choices=("durable", "appended"),
    )

    mirror_source: str = ""  # no setting: only a topic can say whose mirror it is

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise SettingInvalid(
                f"log.cleaner.min.compaction.lag.ms: got {self.min_compaction_lag_ms}, wanted at "
                f"most log.cleaner.max.compaction.lag.ms, which is {self.max_compaction_lag_ms}"
            )
