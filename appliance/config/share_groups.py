"""Share groups: the pace of their members, and how records are given out."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.config.setting import HOUR_MS, SECOND_MS, check_fields, check_range, setting


@dataclass(frozen=True)
class ShareGroupsConfig:
    """Share groups (KIP-932): the pace of their members, and how records are given out."""

    session_timeout_ms: int = setting(
        "group.share.session.timeout.ms",
        45 * SECOND_MS,
        "How long a member may be silent before it is out of its group.",
        unit="ms",
        minimum=1,
        maximum=2**31 - 1,
    )
    min_session_ms: int = setting(
        "group.share.min.session.timeout.ms",
        6 * SECOND_MS,
        "Shortest session timeout that a group may be given, as for other groups. Kafka's 45 s "
        "leave no choice.",
        unit="ms",
        minimum=1,
        maximum=2**31 - 1,
    )
    max_session_ms: int = setting(
        "group.share.max.session.timeout.ms",
        60 * SECOND_MS,
        "Longest session timeout that a group may be given.",
        unit="ms",
        minimum=1,
        maximum=2**31 - 1,
    )
    heartbeat_interval_ms: int = setting(
        "group.share.heartbeat.interval.ms",
        5 * SECOND_MS,
        "How often members are told to send a heartbeat. With it a member hears which partitions "
        "it is to read, so a new one of a topic waits that long.",
        unit="ms",
        minimum=1,
        maximum=2**31 - 1,
    )
    min_heartbeat_ms: int = setting(
        "group.share.min.heartbeat.interval.ms",
        SECOND_MS,
        "Shortest heartbeat interval that a group may be given: each heartbeat is a request of "
        "each member. Kafka's 5 s leave no choice downwards.",
        unit="ms",
        minimum=1,
        maximum=2**31 - 1,
    )
    max_heartbeat_ms: int = setting(
        "group.share.max.heartbeat.interval.ms",
        15 * SECOND_MS,
        "Longest heartbeat interval that a group may be given.",
        unit="ms",
        minimum=1,
        maximum=2**31 - 1,
    )
    max_size: int = setting(
        "group.share.max.size",
        200,
        "Members of one group. All that read a partition wait for its one state in turn, so more "
        "of them would not be faster.",
        minimum=1,
        maximum=1000,
    )
    record_lock_duration_ms: int = setting(
        "group.share.record.lock.duration.ms",
        30 * SECOND_MS,
        "How long a record that was given to a consumer is its own. One that is not acknowledged "
        "by then is given to another.",
        unit="ms",
        minimum=1,
        maximum=HOUR_MS,
    )
    min_record_lock_ms: int = setting(
        "group.share.min.record.lock.duration.ms",
        SECOND_MS,
        "Shortest record lock that a group may be given. Kafka's 15 s make jobs of a moment wait.",
        unit="ms",
        minimum=1,
        maximum=HOUR_MS,
    )
    max_record_lock_ms: int = setting(
        "group.share.max.record.lock.duration.ms",
        HOUR_MS,
        "Longest record lock that a group may be given. Kafka's 60 s are short for jobs of "
        "minutes; a lock is let go at once when its consumer closes its connection.",
        unit="ms",
        minimum=1,
        maximum=HOUR_MS,
    )
    delivery_count_limit: int = setting(
        "group.share.delivery.count.limit",
        5,
        "How often a record is given out at most. One that nobody could process is then passed "
        "over, so that it does not come back for ever.",
        minimum=1,
        maximum=2**15 - 1,  # the count in the record of the state is an int16
    )
    min_delivery_count_limit: int = setting(
        "group.share.min.delivery.count.limit",
        2,
        "Smallest delivery count limit that a group may be given: with one the death of a "
        "consumer would lose the records that it had.",
        minimum=1,
        maximum=2**15 - 1,
    )
    max_delivery_count_limit: int = setting(
        "group.share.max.delivery.count.limit",
        10,
        "Largest delivery count limit that a group may be given.",
        minimum=1,
        maximum=2**15 - 1,
    )
    partition_max_record_locks: int = setting(
        "group.share.partition.max.record.locks",
        2000,
        "Records of one partition that a group may have in flight: the state of each is in memory, "
        "and in the records of __share_group_state.",
        minimum=100,
        maximum=100_000,
    )
    min_partition_max_record_locks: int = setting(
        "group.share.min.partition.max.record.locks",
        100,
        "Smallest partition.max.record.locks that a group may be given: a batch is locked as a "
        "whole, so fewer would hardly be used.",
        minimum=100,
        maximum=100_000,
    )
    max_partition_max_record_locks: int = setting(
        "group.share.max.partition.max.record.locks",
        4000,
        "Largest partition.max.record.locks that a group may be given.",
        minimum=100,
        maximum=100_000,
    )
    max_share_sessions: int = setting(
        "group.share.max.share.sessions",
        2000,
        "Members of all share groups that may fetch at a time: the partitions of each are in "
        "memory. One more is told so after it has waited as long as it would have for records.",
        minimum=1,
        maximum=100_000,
    )
    max_session_partitions: int = setting(
        "group.share.max.session.partitions",
        2000,
        "Partitions that one member may fetch: each of its requests looks at all of them, on the "
        "event loop, at some microseconds each.",
        minimum=1,
        maximum=100_000,
    )
    # Of one group only; there is no setting for all, as in Kafka.
    auto_offset_reset: str = "latest"
    isolation_level: str = "read_uncommitted"
    renew_acknowledge_enable: bool = True

    def __post_init__(self) -> None:
        check_fields(self)
        for name, low, value, high in (
            ("session.timeout.ms", self.min_session_ms, self.session_timeout_ms,
             self.max_session_ms),
            ("heartbeat.interval.ms", self.min_heartbeat_ms, self.heartbeat_interval_ms,
             self.max_heartbeat_ms),
            ("record.lock.duration.ms", self.min_record_lock_ms, self.record_lock_duration_ms,
             self.max_record_lock_ms),
            ("delivery.count.limit", self.min_delivery_count_limit, self.delivery_count_limit,
             self.max_delivery_count_limit),
            ("partition.max.record.locks", self.min_partition_max_record_locks,
             self.partition_max_record_locks, self.max_partition_max_record_locks),
        ):
            check_range("share", name, low, value, high)
