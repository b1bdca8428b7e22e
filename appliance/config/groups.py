"""Consumer groups of both protocols, and their offsets."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.config.of_groups import OfGroups, heartbeat_interval, session_timeout
from appliance.config.setting import HOUR_MS, MIB, SECOND_MS, Part, SettingInvalid, setting


@dataclass(frozen=True)
class GroupsConfig(Part):
    """Consumer groups, and where their offsets are kept."""

    initial_rebalance_delay_ms: int = setting(
        "group.initial.rebalance.delay.ms",
        200,
        "How long an empty group waits for more members after one came. Consumers that start "
        "together join in one rebalance; without it the first would notice the second only with "
        "its next heartbeat, seconds later. Kafka's 3 s is for a fleet of machines.",
        minimum=0,
        maximum=HOUR_MS,
    )
    min_session_ms: int = setting(
        "group.min.session.timeout.ms",
        6 * SECOND_MS,
        "Shortest session timeout a consumer may ask for: a shorter one loses its partitions to "
        "any hiccup.",
        minimum=1,
        maximum=2**31 - 1,
    )
    max_session_ms: int = setting(
        "group.max.session.timeout.ms",
        1800 * SECOND_MS,
        "Longest session timeout a consumer may ask for: its partitions stand still that long "
        "after it died.",
        minimum=1,
        maximum=2**31 - 1,
    )
    max_size: int = setting(
        "group.max.size",
        10_000,
        "Members of one group. Each has a connection of its own, of which there are no more.",
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
        "Partitions of __consumer_offsets when it is made. Commits that come together share one "
        "sync of one file; Kafka's 50 are for spreading groups over brokers.",
        minimum=1,
        maximum=1000,
    )
    offsets_segment_bytes: int = setting(
        "offsets.topic.segment.bytes",
        8 * MIB,
        "Segment size of __consumer_offsets when it is made. Only sealed segments are compacted, "
        "and a start reads what is left: Kafka's 100 MiB would be a million records.",
        minimum=MIB,
        maximum=2**31 - 1,
    )
    commit_timeout_ms: int = setting(
        "offsets.commit.timeout.ms",
        5 * SECOND_MS,
        "How long a commit may wait for the disk before its client is told to try again.",
        minimum=1,
        maximum=HOUR_MS,
    )
    retention_minutes: int = setting(
        "offsets.retention.minutes",
        -1,
        "How long the offsets of a group without members are kept, and of a topic that its members "
        "no longer read. -1 keeps them: a job that runs once a year goes on where it was.",
        minimum=-1,
        maximum=2**31 - 1,
    )
    memberless_retention_minutes: int = setting(
        "offsets.memberless.retention.minutes",
        90 * 24 * 60,
        "How long the offsets of a group that never had a member are kept after they were last "
        "committed: whoever reaches the port can make such groups. Consumers with assigned "
        "partitions have them, too; what they commit again stays. -1 keeps them; where "
        "offsets.retention.minutes is shorter, it holds for them as well.",
        minimum=-1,
        maximum=2**31 - 1,
    )
    retention_check_ms: int = setting(
        "offsets.retention.check.interval.ms",
        600 * SECOND_MS,
        "How often offsets are looked through for those to expire, and groups for empty ones "
        "without offsets, or of which no member ever read, which are forgotten.",
        minimum=1,
    )
    lag_interval_s: int = setting(
        "group.lag.interval.seconds",
        10,
        "How often it is measured how far groups are behind. A partition takes ten microseconds, "
        "and a small read where its group has moved and is still behind.",
        minimum=1,
        maximum=3600,
    )
    lag_samples_max: int = setting(
        "group.lag.samples.max",
        360,
        "Samples of lag that are kept of each group and topic, 24 bytes each: an hour, with one "
        "every ten seconds. They are gone after a restart.",
        minimum=1,
        maximum=100_000,
    )
    lag_series_max: int = setting(
        "group.lag.series.max",
        5000,
        "Groups and topics of which lag is kept over time, and shown in metrics: 43 MB with 360 "
        "samples each. The rest has its lag of now, in the console and the REST API.",
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
        "How often members are told to send a heartbeat. A partition moves with the heartbeats of "
        "its old and its new owner, so this is the pace of rebalances.",
    )
    max_size: int = setting(
        "group.consumer.max.size",
        10_000,
        "Members of one group. Each has a connection of its own, of which there are no more.",
        minimum=1,
        maximum=2**31 - 1,
    )
    assignors: str = setting(
        "group.consumer.assignors",
        "uniform,range",
        "Which assignors members may ask for; the first is for those who ask for none.",
        choices=("uniform,range", "range,uniform", "uniform", "range"),
    )
    migration_policy: str = setting(
        "group.consumer.migration.policy",
        "bidirectional",
        "Whether a group with members goes over to the newer protocol with the first member of it "
        "that joins (upgrade), and back when the last one has left (downgrade). One without "
        "members takes the protocol of whoever comes next.",
        choices=("bidirectional", "upgrade", "downgrade", "disabled"),
    )

    @property
    def may_upgrade(self) -> bool:
        return self.migration_policy in ("bidirectional", "upgrade")

    @property
    def may_downgrade(self) -> bool:
        return self.migration_policy in ("bidirectional", "downgrade")
