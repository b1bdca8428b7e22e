"""Groups of Kafka Streams (KIP-1071), in which the broker assigns tasks."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.config.group_config_limits import OfGroups, heartbeat_interval, session_timeout
from appliance.config.setting import HOUR_MS, SettingInvalid, setting


@dataclass(frozen=True)
class StreamsGroupsConfig(OfGroups):
    session_timeout_ms: int = session_timeout(
        "streams", "How long a member may be silent before its tasks go to others."
    )
    heartbeat_interval_ms: int = heartbeat_interval(
        "streams",
        "Interval of members' heartbeats. A task moves with the heartbeats of its old and its new "
        "owner, so this is the pace of rebalances.",
    )
    max_size: int = setting(
        "group.streams.max.size",
        10_000,
        "Members of one group: threads of all its applications. Each needs its own connection, so "
        "the limit is the connections'.",
        minimum=1,
        maximum=2**31 - 1,
    )
    num_standby_replicas: int = setting(
        "group.streams.num.standby.replicas",
        0,
        "Copies of each task's state on other processes, which take over without reading its "
        "changelog from the start.",
        minimum=0,
        maximum=1000,
        of_group=True,
    )
    max_standby_replicas: int = setting(
        "group.streams.max.standby.replicas",
        2,
        "Largest number of such copies that a group may ask for: each reads all changelogs once "
        "more.",
        minimum=0,
        maximum=1000,
    )
    initial_rebalance_delay_ms: int = setting(
        "group.streams.initial.rebalance.delay.ms",
        200,
        "How long the first member of an empty group waits for others before tasks are assigned: "
        "threads that start together get theirs at once. Kafka's 3 s are for a fleet of machines.",
        minimum=0,
        maximum=HOUR_MS,
        of_group=True,
    )
    max_tasks: int = setting(
        "group.streams.max.tasks",
        10_000,
        "Active tasks of one group. Who gets which is computed on the event loop, in up to twenty "
        "microseconds each.",
        minimum=1,
        maximum=1_000_000,
    )
    max_internal_topics: int = setting(
        "group.streams.max.internal.topics",
        1000,
        "Internal topics of one topology, which its members make the broker create.",
        minimum=1,
        maximum=100_000,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_standby_replicas > self.max_standby_replicas:
            raise SettingInvalid(
                f"group.streams.num.standby.replicas: got {self.num_standby_replicas}, wanted at "
                "most group.streams.max.standby.replicas, which is "
                f"{self.max_standby_replicas}"
            )

    @property
    def shortest_heartbeat_ms(self) -> int:
        """Of one group, at least."""
        return int(vars(self)["min_heartbeat_interval_ms"])
