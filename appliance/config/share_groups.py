"""Share groups: the pace of their members, and how records are given out."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.config.group_config_limits import OfGroups, heartbeat_interval, session_timeout
from appliance.config.setting import HOUR_MS, SECOND_MS, own, setting


@dataclass(frozen=True)
class ShareGroupsConfig(OfGroups):
    """Share groups (KIP-932): the pace of their members, and how records are given out."""

    session_timeout_ms: int = session_timeout(
        "share", "How long a member may be silent before it is removed from its group."
    )
    heartbeat_interval_ms: int = heartbeat_interval(
        "share",
        "Interval of members' heartbeats. Members get their partitions with it, so a new "
        "partition waits that long.",
    )
    max_size: int = setting(
        "group.share.max.size",
        200,
        "Members of one group. All readers of a partition wait for its one state in turn, so more "
        "of them would not be faster.",
        minimum=1,
        maximum=1000,
    )
    record_lock_duration_ms: int = setting(
        "group.share.record.lock.duration.ms",
        30 * SECOND_MS,
        "How long a delivered record is locked for its consumer. Without an acknowledgement by "
        "then it is delivered to another.",
        minimum=1,
        maximum=HOUR_MS,
        least=(
            SECOND_MS,
            "Shortest record lock of a group. Kafka's 15 s delay the retry of short jobs.",
        ),
        most=(
            HOUR_MS,
            "Longest record lock of a group. Kafka's 60 s are short for jobs of minutes; a lock "
            "ends at once when its consumer closes its connection.",
        ),
    )
    delivery_count_limit: int = setting(
        "group.share.delivery.count.limit",
        5,
        "Largest number of deliveries of a record. After that it is skipped, so that a record "
        "that nobody can process does not return for ever.",
        minimum=1,
        maximum=2**15 - 1,  # the count in the record of the state is an int16
        least=(
            2,
            "Smallest delivery count limit of a group: with one, the death of a consumer would "
            "lose its records.",
        ),
        most=(10, "Largest delivery count limit of a group."),
    )
    partition_max_record_locks: int = setting(
        "group.share.partition.max.record.locks",
        2000,
        "Records in flight of a group per partition: the state of each is in memory, and in the "
        "records of __share_group_state.",
        minimum=100,
        maximum=100_000,
        least=(
            100,
            "Smallest partition.max.record.locks of a group: a batch is locked as a whole, so "
            "fewer would hardly be used.",
        ),
        most=(4000, "Largest partition.max.record.locks of a group."),
    )
    max_share_sessions: int = setting(
        "group.share.max.share.sessions",
        2000,
        "Members of all share groups that may fetch at a time: the partitions of each are in "
        "memory. A further one gets an error after the usual wait for records.",
        minimum=1,
        maximum=100_000,
    )
    max_session_partitions: int = setting(
        "group.share.max.session.partitions",
        2000,
        "Partitions of one member's session: each request checks all of them, on the event loop, "
        "in some microseconds each.",
        minimum=1,
        maximum=100_000,
    )
    auto_offset_reset: str = own(
        "share.auto.offset.reset",
        "latest",
        "Where a share group begins in a partition that it has not read before: earliest, latest, "
        "or by_duration:PT1H, an hour ago.",
    )
    isolation_level: str = own(
        "share.isolation.level",
        "read_uncommitted",
        "With read_committed the records of transactions that were aborted are passed over.",
        choices=("read_uncommitted", "read_committed"),
    )
    renew_acknowledge_enable: bool = own(
        "share.renew.acknowledge.enable",
        True,
        "Whether a consumer may ask for more time for a record that it has.",
    )
