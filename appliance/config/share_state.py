"""The topic in which share groups keep what became of their records."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.config.setting import HOUR_MS, MIB, SECOND_MS, Part, setting


@dataclass(frozen=True)
class ShareStateConfig(Part):
    """What share groups have done, record by record, and where it is kept."""

    partitions: int = setting(
        "share.coordinator.state.topic.num.partitions",
        1,
        "Partitions of __share_group_state at its creation. Concurrent acknowledgements share one "
        "sync of one file; Kafka's 50 spread groups over brokers.",
        minimum=1,
        maximum=1000,
    )
    segment_bytes: int = setting(
        "share.coordinator.state.topic.segment.bytes",
        8 * MIB,
        "Segment size of __share_group_state at its creation. Whole segments are deleted when all "
        "their records are obsolete, and a start reads the rest.",
        minimum=MIB,
        maximum=2**31 - 1,
    )
    write_timeout_ms: int = setting(
        "share.coordinator.write.timeout.ms",
        5 * SECOND_MS,
        "How long an acknowledgement may wait for the disk before its client gets an error.",
        minimum=1,
        maximum=HOUR_MS,
    )
    updates_per_snapshot: int = setting(
        "share.coordinator.snapshot.update.records.per.snapshot",
        500,
        "Number of change records after which the whole state of a share partition is written: "
        "earlier changes need not be kept, nor read at a start.",
        minimum=0,
        maximum=100_000,
    )
    prune_interval_ms: int = setting(
        "share.coordinator.state.topic.prune.interval.ms",
        300 * SECOND_MS,
        "How often obsolete records of __share_group_state are deleted.",
        minimum=1,
    )
    cold_interval_ms: int = setting(
        "share.coordinator.cold.partition.snapshot.interval.ms",
        300 * SECOND_MS,
        "Time after which the whole state of a rarely changing share partition is written, so "
        "that its old records do not keep others from deletion.",
        minimum=1,
    )
