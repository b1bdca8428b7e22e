"""What a topic is, and which names and numbers it may have: Kafka's rules and error codes.

A partition that cannot be opened is neither gone nor empty. Nobody may take it for deleted: a
transaction that wrote to it is not complete without its marker there, and what a group committed
for it still counts. Nor may anybody take it for unread: what only its records tell, offsets of
groups, transactions and what they wrote, is not known until it is open, which may be at any time.
The other partitions of its topic are served.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from appliance._log import Log
from appliance.config import LogConfig, TopicsConfig
from appliance.config.topic_config import SOURCE
from appliance.data_dir.partition_names import TopicNameInvalid
from appliance.errors import ApplianceError, NotLeader

DEFAULT = -1  # partitions: as many as the broker's setting says

# Kafka keeps its own metadata under this name, in a directory that we leave alone.
METADATA = "__cluster_metadata"
OFFSETS = "__consumer_offsets"
TRANSACTIONS = "__transaction_state"
SHARE_STATE = "__share_group_state"
INTERNAL = frozenset({OFFSETS, TRANSACTIONS, SHARE_STATE})

SHOWN_MAX = 100  # characters of a wrong name that an error repeats

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class TopicUnknown(ApplianceError):
    kafka_code = 3


class TopicExists(ApplianceError):
    kafka_code = 36


class TopicInternal(ApplianceError):
    """It is the broker's own: made when it is needed, and not for clients to change."""

    kafka_code = 17


class PartitionsInvalid(ApplianceError):
    kafka_code = 37


class LimitExceeded(ApplianceError):
    """More than a setting allows, so a matter of policy."""

    kafka_code = 44


class TopicMirrored(ApplianceError):
    """Its records come from a mirror, with their offsets: nobody else can add one."""

    kafka_code = 44


class TopicDeletionDisabled(ApplianceError):
    kafka_code = 73


class TopicUnavailable(ApplianceError):
    """A partition cannot be opened, or what is left of a deletion still has the name."""

    kafka_code = 56


@dataclass
class Topic:
    name: str
    id: uuid.UUID
    configs: dict[str, str] = field(default_factory=dict)  # its own; the rest is the broker's
    logs: Sequence[Log | None] = ()  # by partition; None: it is there and cannot be opened
    created_ms: int = 0
    unserved: dict[int, str] = field(default_factory=dict)  # why, of each None; for people
    here: frozenset[int] | None = None  # of a cluster's topic: what this broker has; None: all
    # Of a cluster's topic, by partition: node and epoch of who leads what is not here.
    leaders: Sequence[tuple[int, int] | None] = ()

    @property
    def is_replicated(self) -> bool:
        """It is the cluster's, and ZooKeeper says who leads."""
        return self.here is not None

    @property
    def open_logs(self) -> list[Log]:
        return [each for each in self.logs if each is not None]

    def all_logs(self) -> list[Log]:
        """By partition; raises where one is not open: half of a topic must not look whole."""
        return [self.log(each) for each in range(len(self.logs))]

    def log(self, partition: int) -> Log:
        """Of a partition that it has; raises where that cannot be opened."""
        log = self.logs[partition]
        if log is None and self.here is not None and partition not in self.here:
            raise NotLeader(f"{self.name}-{partition} is on other brokers")
        if log is None:
            # `put_log` may come between the two looks: this is called on threads, too
            why = self.unserved.get(partition, "it is being opened")
            raise TopicUnavailable(f"{self.name}-{partition} is not served: {why}")
        return log

    def put_log(self, partition: int, log: Log) -> None:
        """From now on it is the partition's. Whoever has the list keeps what it had."""
        if self.is_replicated:
            log.hold()  # until whoever knows the election is told of it
        self.logs = [*self.logs[:partition], log, *self.logs[partition + 1 :]]
        self.unserved.pop(partition, None)

    def configure_logs(self, config: LogConfig) -> None:
        for log in self.open_logs:
            log.configure(config)

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL

    @property
    def mirror_source(self) -> str:
        """Whose records and offsets it repeats, as CLUSTER/TOPIC-ID; "" for a topic of its own."""
        return self.configs.get(SOURCE, "")


def check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or name in (".", ".."):
        shown = repr(name[:SHOWN_MAX]) + f"... ({len(name)} characters)" * (len(name) > SHOWN_MAX)
        raise TopicNameInvalid(
            f"{shown} is not a topic name: wanted 1 to 249 characters out of a-z A-Z 0-9 . _ -, "
            "and neither '.' nor '..'"
        )
    if name == METADATA:
        raise TopicNameInvalid(f"{name} is Kafka's own; wanted another name")


def check_own(name: str) -> None:
    """Whether a client may make, extend or delete it."""
    if name in INTERNAL:
        raise TopicInternal(f"{name} is internal: it is the broker's to make and to keep")


def check_writer(topic: Topic, mirror_source: str) -> None:
    """Whether it is for the mirror of `mirror_source` to write to; "" is everybody else."""
    if topic.mirror_source == mirror_source:
        return
    if not mirror_source:
        raise TopicMirrored(f"{topic.name} is written by the mirror of {topic.mirror_source} alone")
    raise TopicMirrored(
        f"{topic.name} has {SOURCE} {topic.mirror_source!r}, this mirror's is {mirror_source!r}"
    )


def clashing(name: str, taken: Collection[str]) -> str | None:
    """Names that differ in `.` and `_` only are one name in many a tool for metrics."""
    if name in taken:
        return name
    alike = name.replace(".", "_")
    if alike == name and "_" not in name:
        return None
    return next((each for each in taken if each.replace(".", "_") == alike), None)


def check_new_name(name: str, taken: Collection[str]) -> None:
    check_name(name)
    found = clashing(name, taken)
    if found == name:
        raise TopicExists(f"topic {name} exists already")
    if found is not None:
        raise TopicNameInvalid(f"{name} collides with {found}: '.' and '_' count as one")


def check_more(name: str, total: int, count: int) -> None:
    if total <= count:
        raise PartitionsInvalid(f"{name}: got {total} partitions, wanted more than its {count}")


def check_partitions(name: str, partitions: int, others: int, limits: TopicsConfig) -> int:
    """How many the topic is to have, next to `others` of all other topics. The broker's own topics
    are made even when users have as many as they may: without them nobody could commit an offset.
    """
    count = limits.num_partitions if partitions == DEFAULT else partitions
    if count <= 0:
        raise PartitionsInvalid(f"{name}: got {count} partitions, wanted at least 1")
    if count > limits.partitions_per_topic_max:
        raise LimitExceeded(
            f"{name}: got {count} partitions, wanted at most {limits.partitions_per_topic_max} "
            "(max.partitions.per.topic)"
        )
    if name not in INTERNAL and others + count > limits.partitions_max:
        raise LimitExceeded(
            f"{name}: got {count} partitions beside {others} of other topics, wanted at most "
            f"{limits.partitions_max} together (max.partitions.total)"
        )
    return count
