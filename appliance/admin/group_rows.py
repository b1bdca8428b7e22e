"""What the REST API says of consumer groups."""

from __future__ import annotations

from typing import TypedDict


class GroupRow(TypedDict):
    group: str
    protocol: str  # classic, consumer, share, streams, zookeeper
    state: str
    members: int
    topics: list[str]  # with committed offsets, or in a subscription
    lag_records: int
    no_commit_records: int  # part of the lag: from the log's start in partitions without a commit
    no_commit_partitions: int
    lag_seconds: float | None  # age of the oldest unconsumed record; None: unknown yet
    unknown_partitions: int  # in no sum: other brokers do not tell the end, or where it is


class GroupList(TypedDict):
    total: int  # before `limit`
    groups: list[GroupRow]


class MemberRow(TypedDict):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None  # of the newer protocol
    partitions: dict[str, list[int]]
    target: dict[str, list[int]] | None  # target assignment, in the newer protocol
    tasks: dict[str, list[str]] | None  # of Kafka Streams, by role: active, standby, warmup


class OffsetRow(TypedDict):
    topic: str
    partition: int
    committed: int | None  # None: no commit
    no_commit_yet: bool  # the lag counts from the log's start: auto.offset.reset is the consumer's
    metadata: str
    committed_ms: int | None  # None: unknown for share groups
    start: int | None  # None: the partition no longer exists
    end: int | None  # end for the group's readers
    end_unknown: bool  # or where the group is: another broker does not tell
    lag_records: int | None  # None: unknown, or the partition no longer exists
    lag_seconds: float | None
    lost_records: int | None  # part of the lag: deleted before they were read
    member_id: str | None  # of the reader


class GroupAnswer(GroupRow):
    assignor: str
    generation: int
    member_rows: list[MemberRow]
    offsets: list[OffsetRow]
    unread: list[dict[str, str | int]]  # partitions of its topics without a reader
    allowed: list[str]  # operations of who asks; its topics are those with DESCRIBE


class LagSampleRow(TypedDict):
    at_ms: int
    records: int
    seconds: float | None


class LagAnswer(TypedDict):
    interval_s: int
    topics: dict[str, list[LagSampleRow]]  # oldest first
