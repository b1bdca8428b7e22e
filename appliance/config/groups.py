"""Consumer groups of both protocols, and their offsets."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.config.group_config_limits import OfGroups, heartbeat_interval, session_timeout
from appliance.config.setting import HOUR_MS, MIB, SECOND_MS, Part, SettingInvalid, setting


@dataclass(frozen=True)
class GroupsConfig(Part):
    initial_rebalance_delay_ms: int = setting(
        "group.initial.rebalance.delay.ms",
        200,
        "How long an empty group waits for more members after the first. Consumers that start "
        "together join in one rebalance; otherwise the first would notice the second only with "
        "its next heartbeat, seconds later. Kafka's 3 s is for a fleet of machines.",
        minimum=0,
        maximum=HOUR_MS,
    )
    min_session_ms: int = setting(
        "group.min.session.timeout.ms",
        6 * SECOND_MS,
        "Shortest session timeout of a consumer: with a shorter one any hiccup loses its "
        "partitions.",
        minimum=1,
        maximum=2**31 - 1,
    )
    max_session_ms: int = setting(
        "group.max.session.timeout.ms",
        1800 * SECOND_MS,
        "Longest session timeout of a consumer: its partitions have no reader for that long after "
        "it died.",
        minimum=1,
        maximum=2**31 - 1,
    )
    max_size: int = setting(
        "group.max.size",
        10_000,
        "Members of one group. Each needs its own connection, so the limit is the connections'.",
        minimum=1,
        maximum=2**31 - 1,
    )
    metadata_max_bytes: int = setting(
        "offset.metadata.max.bytes",
        4096,
        "Largest text that a consumer may commit with an offset: it stays in memory.",
        minimum=0,
        maximum=2**15 - 1,  # the length of a text in the record is an int16
    )
    offsets_partitions: int = setting(
        "offsets.topic.num.partitions",
        1,
        "Partitions of __consumer_offsets at its creation. Concurrent commits share one sync of "
        "one file; Kafka's 50 spread groups over brokers.",
        minimum=1,
        maximum=1000,
    )
    offsets_segment_bytes: int = setting(
        "offsets.topic.segment.bytes",
        8 * MIB,
        "Segment size of __consumer_offsets at its creation. Only sealed segments are compacted, "
        "and a start reads the rest: Kafka's 100 MiB would be a million records.",
        minimum=MIB,
        maximum=2**31 - 1,
    )
    commit_timeout_ms: int = setting(
        "offsets.commit.timeout.ms",
        5 * SECOND_MS,
        "How long a commit may wait for the disk before its client gets a retriable error.",
        minimum=1,
        maximum=HOUR_MS,
    )
    retention_minutes: int = setting(
        "offsets.retention.minutes",
        -1,
        "How long offsets are kept for a group without members, and for a topic that its members "
        "no longer read. -1 keeps them: a yearly job continues at its offset.",
        minimum=-1,
        maximum=2**31 - 1,
    )
    memberless_retention_minutes: int = setting(
        "offsets.memberless.retention.minutes",
        90 * 24 * 60,
        "How long offsets of a group that never had a member are kept after their last commit: "
        "anybody who reaches the port can create such groups. Consumers with assigned partitions "
        "have them, too; new commits extend the time. -1 keeps them; a shorter "
        "offsets.retention.minutes applies to them as well.",
        minimum=-1,
        maximum=2**31 - 1,
    )
    retention_check_ms: int = setting(
        "offsets.retention.check.interval.ms",
        600 * SECOND_MS,
        "How often expired offsets are deleted, and groups without members and offsets, or that "
        "no member ever read.",
        minimum=1,
    )
    lag_interval_s: int = setting(
        "group.lag.interval.seconds",
        10,
        "How often the lag of groups is measured. A partition takes ten microseconds, and a small "
        "read if its group has advanced and still has lag.",
        minimum=1,
        maximum=3600,
    )
    lag_samples_max: int = setting(
        "group.lag.samples.max",
        360,
        "Samples of lag per group and topic, 24 bytes each: an hour, with one every ten seconds. "
        "A restart loses them.",
        minimum=1,
        maximum=100_000,
    )
    lag_series_max: int = setting(
        "group.lag.series.max",
        5000,
        "Groups and topics with a history of lag, and with lag in metrics: 43 MB with 360 samples "
        "each. The console and the REST API show the present lag of the others.",
        minimum=0,
        maximum=1_000_000,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_session_ms > self.max_session_ms:
            raise SettingInvalid(
                f"group.min.session.timeout.ms: got {self.min_session_ms}, wanted at most "
                f"group.max.session.timeout.ms, which is {self.max_session_ms}"
            )


@dataclass(frozen=True)
class ConsumerGroupsConfig(OfGroups):
    """Groups of the newer protocol (KIP-848), in which the broker assigns and sets the pace."""

    session_timeout_ms: int = session_timeout(
        "consumer", "How long a member may be silent before its partitions go to others."
    )
    heartbeat_interval_ms: int = heartbeat_interval(
        "consumer",
        "Interval of members' heartbeats. A partition moves with the heartbeats of its old and "
        "its new owner, so this is the pace of rebalances.",
    )
    max_size: int = setting(
        "group.consumer.max.size",
        10_000,
        "Members of one group. Each needs its own connection, so the limit is the connections'.",
        minimum=1,
        maximum=2**31 - 1,
    )
    assignors: str = setting(
        "group.consumer.assignors",
        "uniform,range",
        "Assignors that members may choose; the first is the default.",
        choices=("uniform,range", "range,uniform", "uniform", "range"),
    )
    migration_policy: str = setting(
        "group.consumer.migration.policy",
        "bidirectional",
        "Whether a classic group with members is converted when the first member of the newer "
        "protocol joins (upgrade), and back when the last one has left (downgrade). A group "
        "without members takes the protocol of its next member.",
        choices=("bidirectional", "upgrade", "downgrade", "disabled"),
    )

    @property
    def may_upgrade(self) -> bool:
        return self.migration_policy in ("bidirectional", "upgrade")

    @property
    def may_downgrade(self) -> bool:
        return self.migration_policy in ("bidirectional", "downgrade")
