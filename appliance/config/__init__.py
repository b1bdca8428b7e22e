"""Every setting in one table: the fields below, each with its name, unit, limits and reason.

Names are Kafka's where Kafka has the setting. A value comes, later ones winning, from the default,
a TOML file, the environment (`APPLIANCE_LOG_SEGMENT_BYTES`), `--set log.segment.bytes=...` and
flags. The table in `docs/operations.md` is printed by `python -m appliance.config`.
"""

from __future__ import annotations

import difflib
import os
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

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


ROUND_NUMBERS = [
    ("bytes", GIB, "GiB"),
    ("bytes", MIB, "MiB"),
    ("bytes", KIB, "KiB"),
    ("ms", DAY_MS, "d"),
    ("ms", HOUR_MS, "h"),
    ("ms", SECOND_MS, "s"),
]


@dataclass(frozen=True)
class Address:
    """Where to listen. Port 0 asks the kernel for a free one; `[::1]:80` is IPv6."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        host, _, port = text.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise ValueError(text)
        return cls(host.removeprefix("[").removesuffix("]"), int(port))

    def __str__(self) -> str:
        if self == NO_ADDRESS:
            return ""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


NO_ADDRESS = Address("", 0)


@dataclass(frozen=True)
class Ensemble:
    """The servers of one ZooKeeper, and the path in it under which all our nodes are."""

    servers: tuple[Address, ...] = ()
    root: str = ""

    @classmethod
    def parse(cls, text: str) -> Ensemble:
        servers, slash, path = text.partition("/")
        parts = path.rstrip("/").split("/") if path else []
        if any(part in ("", ".", "..") or not part.isprintable() for part in parts):
            raise ValueError(text)
        addresses = tuple(Address.parse(each.strip()) for each in servers.split(","))
        return cls(addresses, "".join(slash + part for part in parts))

    def __str__(self) -> str:
        return ",".join(map(str, self.servers)) + self.root


PARSED: dict[type, Callable[[str], Any]] = {Address: Address.parse, Ensemble: Ensemble.parse}
NO_ENSEMBLE = Ensemble()
NO_FILE = Path(os.devnull)
EVERY_INTERFACE = ("0.0.0.0", "::", "0:0:0:0:0:0:0:0")


@dataclass(frozen=True)
class Setting:
    """One row of the table, kept in the metadata of its field."""

    name: str
    default: Any
    reason: str
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    default_words: str = ""

    @property
    def kind(self) -> type:
        return Path if isinstance(self.default, Path) else type(self.default)

    @property
    def environment(self) -> str:
        return ENVIRONMENT_PREFIX + self.name.upper().replace(".", "_")

    @property
    def default_text(self) -> str:
        """With the number that a person would say, where there is one."""
        if self.default_words:
            return self.default_words
        for unit, size, word in ROUND_NUMBERS:
            if self.unit == unit and self.default >= size and self.default % size == 0:
                return f"{self.default} ({self.default // size} {word})"
        return self.text(self.default)

    @property
    def wanted(self) -> str:
        """What it accepts, in words."""
        if self.choices:
            return "one of " + ", ".join(repr(choice) for choice in self.choices)
        if self.kind not in (int, float):
            return {
                Path: "a path",
                Address: "HOST:PORT",
                Ensemble: "HOST:PORT[,HOST:PORT...][/PATH]",
                bool: "true or false",
            }[self.kind]
        words = "a whole number" if self.kind is int else "a number"
        if self.maximum is not None:
            words += f" from {self.minimum} to {self.maximum}"
        elif self.minimum is not None:
            words += f" of at least {self.minimum}"
        return words + (f" ({self.unit})" if self.unit else "")

    def from_text(self, text: str) -> Any:
        """The value a person wrote; what cannot be read stays text, and the check refuses it."""
        bare = text.strip()
        if self.kind is bool:
            return {"true": True, "false": False}.get(bare.lower(), text)
        if not bare and self.default in (NO_ADDRESS, NO_ENSEMBLE):
            return self.default
        try:
            return PARSED.get(self.kind, self.kind)(bare)
        except ValueError:
            return text

    @staticmethod
    def text(value: Any) -> str:
        """A value as a person writes it."""
        return str(value).lower() if isinstance(value, bool) else str(value)

    def check(self, value: Any, shown: object) -> None:
        if not self._is_allowed(value):
            raise SettingInvalid(f"{self.name}: got {shown}, wanted {self.wanted}")

    def _is_allowed(self, value: Any) -> bool:
        if isinstance(value, bool) != (self.kind is bool) or not isinstance(value, self.kind):
            return False
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return not self.choices or value in self.choices
        low = -LONG_MAX if self.minimum is None else self.minimum
        high = LONG_MAX if self.maximum is None else self.maximum
        return low <= value <= high


def setting(name: str, default: Any, reason: str, **facts: Any) -> Any:
    """A dataclass field that is a setting."""
    return field(default=default, metadata={"setting": Setting(name, default, reason, **facts)})


def settings_of(config: Any) -> Iterator[tuple[str, Setting]]:
    """The settings of a configuration class, or object, by field."""
    return ((each.name, each.metadata["setting"]) for each in fields(config) if each.metadata)


def check_fields(config: Any) -> None:
    """Also a configuration made in Python is held to the table."""
    for name, row in settings_of(config):
        value = getattr(config, name)
        row.check(value, repr(value))


@dataclass(frozen=True)
class StorageConfig:
    """How the data directory as a whole is kept: commit, recovery, space."""

    checkpoint_interval_ms: int = setting(
        "checkpoint.interval.ms",
        SECOND_MS,
        "How often recovery points are saved. After a crash at most what was written since "
        "is read again.",
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
        "How a group commit reaches the disk: fdatasync per file, one syncfs, or whichever "
        "measures better.",
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
        min(os.cpu_count() or 1, 256),
        "Partitions recovered at the same time at start.",
        minimum=1,
        maximum=256,
        default_words="number of cores",
    )
    write_behind_bytes: int = setting(
        "write.behind.bytes",
        MIB,
        "Unwritten bytes of a segment after which the kernel is asked to start writing, so that "
        "the final sync is short. 0 leaves it to the kernel.",
        unit="bytes",
        minimum=0,
    )
    sealed_files_idle_ms: int = setting(
        "sealed.files.idle.ms",
        30 * SECOND_MS,
        "Sealed segment files not read for this long are closed: open files stay far below "
        "the limit.",
        unit="ms",
        minimum=0,
    )

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class LogConfig:
    """What one partition's log keeps and when. A field's setting is the broker's default for all
    topics; a topic's own is the field's name with dots, as in Kafka (`segment.bytes`)."""

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
        default_words="no limit",
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
    message_timestamp_before_max_ms: int = setting(
        "log.message.timestamp.before.max.ms",
        LONG_MAX,
        "How far in the past a producer's timestamp may lie.",
        unit="ms",
        minimum=0,
        default_words="no limit",
    )
    message_timestamp_after_max_ms: int = setting(
        "log.message.timestamp.after.max.ms",
        HOUR_MS,
        "How far in the future a producer's timestamp may lie: one wrong clock must not keep a "
        "segment from retention for years.",
        unit="ms",
        minimum=0,
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
        "How far consumers may read: only what a power cut cannot take back, or all that "
        "is written.",
        choices=("durable", "appended"),
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise SettingInvalid(
                f"log.cleaner.min.compaction.lag.ms: got {self.min_compaction_lag_ms}, wanted at "
                f"most log.cleaner.max.compaction.lag.ms, which is {self.max_compaction_lag_ms}"
            )


@dataclass(frozen=True)
class NetworkConfig:
    """What the data plane allows its clients."""

    network_threads: int = setting(
        "num.network.threads",
        2,
        "Threads that serve connections. One keeps up with a SATA RAID or a 10 GbE line; the "
        "second keeps a busy connection from delaying the others.",
        minimum=1,
        maximum=64,
    )
    request_max_bytes: int = setting(
        "socket.request.max.bytes",
        100 * MIB,
        "Largest request; a larger claim closes the connection before anything is allocated.",
        unit="bytes",
        minimum=KIB,
        maximum=2**31 - 16,
    )
    control_max_bytes: int = setting(
        "control.request.max.bytes",
        2 * MIB,
        "Largest request other than Produce and Fetch. As objects a request takes up to 35 times "
        "its bytes, and 300 ms a MiB to decode.",
        unit="bytes",
        minimum=KIB,
        maximum=2**31 - 16,
    )
    queued_max_bytes: int = setting(
        "queued.max.request.bytes",
        256 * MIB,
        "Memory promised to requests that are still arriving, and taken by those that the control "
        "plane has not answered, of all connections together. Beyond it sockets are not read, so "
        "that clients wait and nothing is lost.",
        unit="bytes",
        minimum=MIB,
    )
    held_max_bytes: int = setting(
        "queued.max.response.bytes",
        256 * MIB,
        "Memory for answers that clients do not take, of all connections together. Beyond it those "
        "are closed that hold more than their share: a small request can have a large answer.",
        unit="bytes",
        minimum=MIB,
    )
    max_connections: int = setting(
        "max.connections.total",
        10_000,
        "Connections at a time: each costs a few KiB and a file descriptor. Half of those that the "
        "system allows are kept for the logs, so there may be fewer.",
        minimum=1,
    )
    max_connections_per_ip: int = setting(
        "max.connections.per.ip",
        10_000,
        "Connections of one address, so that one broken client cannot take them all.",
        minimum=1,
    )
    requests_per_connection: int = setting(
        "connection.max.requests",
        1024,
        "Requests of one connection in flight; beyond it the connection is not read.",
        minimum=1,
        maximum=1_000_000,
    )
    control_requests_per_connection: int = setting(
        "connection.max.control.requests",
        64,
        "Of these, how many the control plane may have to answer: their answers can be large, and "
        "clients send a few at a time.",
        minimum=1,
        maximum=1_000_000,
    )
    idle_timeout_ms: int = setting(
        "connections.max.idle.ms",
        600 * SECOND_MS,
        "An idle connection is closed after this long.",
        unit="ms",
        minimum=100,
    )
    frame_timeout_ms: int = setting(
        "connection.frame.timeout.ms",
        30 * SECOND_MS,
        "How long a request may take to arrive, beside what its bytes take at the rate below. Then "
        "its connection is closed: it holds memory.",
        unit="ms",
        minimum=100,
    )
    frame_min_bytes_per_second: int = setting(
        "connection.frame.bytes.per.second",
        4 * KIB,
        "The slowest line on which large requests arrive. A byte now and then must not hold the "
        "memory of a large request for hours.",
        unit="bytes",
        minimum=1,
    )
    send_timeout_ms: int = setting(
        "connection.send.timeout.ms",
        60 * SECOND_MS,
        "A client that takes none of its answer for this long is closed.",
        unit="ms",
        minimum=100,
    )
    fetch_max_bytes: int = setting(
        "fetch.max.bytes",
        55 * MIB,
        "Most that one fetch returns, whatever the client asks for (but always one batch).",
        unit="bytes",
        minimum=KIB,
        maximum=2**31 - 16,
    )
    fetch_max_partitions: int = setting(
        "fetch.max.partitions",
        20_000,
        "Partitions in one fetch or fetch session: each is looked at whenever one of them moves.",
        minimum=1,
    )
    fetch_max_partitions_all: int = setting(
        "fetch.max.total.partitions",
        1_000_000,
        "Partitions in the sessions and waiting fetches of all connections; each takes about 300 "
        "bytes. Beyond it there are no new sessions and no waiting: fetches are answered at once.",
        minimum=1,
    )
    sendfile_min_bytes: int = setting(
        "fetch.sendfile.min.bytes",
        64 * KIB,
        "A range of this size or more goes from the page cache by sendfile; a smaller one is "
        "copied into the answer, which saves calls.",
        unit="bytes",
        minimum=0,
    )
    quota_window_s: int = setting(
        "quota.window.size.seconds",
        1,
        "What a client with a quota may use at once when it used nothing before, in seconds of its "
        "rate. A longer one lets bursts pass; Kafka's ten windows make it 10.",
        unit="s",
        minimum=1,
        maximum=3600,
    )
    drain_timeout_ms: int = setting(
        "shutdown.drain.timeout.ms",
        5 * SECOND_MS,
        "How long a stop waits for answers that are due.",
        unit="ms",
        minimum=0,
    )

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class ControlConfig:
    """How much the control plane, which answers all but Produce and Fetch, does at a time."""

    requests_max: int = setting(
        "control.max.requests",
        1000,
        "Requests in work at a time, such as topics being made; more wait in the order in which "
        "they came. Each holds its request in memory.",
        minimum=1,
        maximum=1_000_000,
    )
    bytes_max: int = setting(
        "control.max.bytes",
        4 * MIB,
        "Bytes of requests in work at a time, beyond which one of more than 4 KiB must wait: as "
        "objects they take up to 35 times as much.",
        unit="bytes",
        minimum=KIB,
    )
    threads: int = setting(
        "control.threads",
        8,
        "Threads on which requests read the disk or wait for it: searches by time, deletions of "
        "records. Kafka's number of I/O threads.",
        minimum=1,
        maximum=256,
    )

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class TopicsConfig:
    """How topics come and go, and how many there may be."""

    auto_create: bool = setting(
        "auto.create.topics.enable",
        True,
        "Whether a client that asks for a topic by name makes it. Most clients expect that of a "
        "broker; the price is that a misspelt name is a new, empty topic.",
    )
    num_partitions: int = setting(
        "num.partitions",
        1,
        "Partitions of a topic whose creator names no number.",
        minimum=1,
        maximum=100_000,
    )
    may_delete: bool = setting(
        "delete.topic.enable",
        True,
        "Whether clients may delete topics.",
    )
    partitions_per_topic_max: int = setting(
        "max.partitions.per.topic",
        1000,
        "A request for a topic with more is refused. Each partition is a directory, some syncs and "
        "two open files: a mistyped number must not keep the disk for minutes.",
        minimum=1,
        maximum=100_000,  # five digits in the name of a directory
    )
    per_request_max: int = setting(
        "max.topics.per.request",
        500,
        "Topics that one request may make, each with some syncs of the disk: more, and the client "
        "has given up before it is answered. CreateTopics refuses the rest; a consumer that names "
        "more gets them when it asks again.",
        minimum=1,
        maximum=100_000,
    )
    partitions_max: int = setting(
        "max.partitions.total",
        10_000,
        "Partitions of all topics together. They cost memory, two open files each while in use, "
        "and time at a start after a crash.",
        minimum=1,
        maximum=10_000_000,
    )

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class GroupsConfig:
    """Consumer groups, and where their offsets are kept."""

    initial_rebalance_delay_ms: int = setting(
        "group.initial.rebalance.delay.ms",
        200,
        "How long an empty group waits for more members after one came. Consumers that start "
        "together join in one rebalance; without it the first would notice the second only with "
        "its next heartbeat, seconds later. Kafka's 3 s is for a fleet of machines.",
        unit="ms",
        minimum=0,
        maximum=HOUR_MS,
    )
    min_session_ms: int = setting(
        "group.min.session.timeout.ms",
        6 * SECOND_MS,
        "Shortest session timeout a consumer may ask for: a shorter one loses its partitions to "
        "any hiccup.",
        unit="ms",
        minimum=1,
        maximum=2**31 - 1,
    )
    max_session_ms: int = setting(
        "group.max.session.timeout.ms",
        1800 * SECOND_MS,
        "Longest session timeout a consumer may ask for: its partitions stand still that long "
        "after it died.",
        unit="ms",
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
        unit="bytes",
        minimum=0,
        maximum=2**15 - 1,  # the length of a text in the record is an int16
    )
    offsets_partitions: int = setting(
        "offsets.topic.num.partitions",
        4,
        "Partitions of __consumer_offsets when it is made. A commit of many groups writes to all "
        "of them, and each is a file to sync; Kafka's 50 are for spreading groups over brokers.",
        minimum=1,
        maximum=1000,
    )
    offsets_segment_bytes: int = setting(
        "offsets.topic.segment.bytes",
        8 * MIB,
        "Segment size of __consumer_offsets when it is made. Only sealed segments are compacted, "
        "and a start reads what is left: Kafka's 100 MiB would be a million records.",
        unit="bytes",
        minimum=MIB,
        maximum=2**31 - 1,
    )
    commit_timeout_ms: int = setting(
        "offsets.commit.timeout.ms",
        5 * SECOND_MS,
        "How long a commit may wait for the disk before its client is told to try again.",
        unit="ms",
        minimum=1,
        maximum=HOUR_MS,
    )
    retention_minutes: int = setting(
        "offsets.retention.minutes",
        -1,
        "How long the offsets of a group without members are kept, and of a topic that its members "
        "no longer read. -1 keeps them: a job that runs once a year goes on where it was.",
        unit="minutes",
        minimum=-1,
        maximum=2**31 - 1,
    )
    retention_check_ms: int = setting(
        "offsets.retention.check.interval.ms",
        600 * SECOND_MS,
        "How often offsets are looked through for those to expire, and groups for empty ones "
        "without offsets, which are forgotten.",
        unit="ms",
        minimum=1,
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if self.min_session_ms > self.max_session_ms:
            raise SettingInvalid(
                f"group.min.session.timeout.ms: got {self.min_session_ms}, wanted at most "
                f"group.max.session.timeout.ms, which is {self.max_session_ms}"
            )


@dataclass(frozen=True)
class TransactionsConfig:
    """Transactional producers, and where their transactions are kept."""

    max_timeout_ms: int = setting(
        "transaction.max.timeout.ms",
        900 * SECOND_MS,
        "Longest timeout a transactional producer may ask for: readers of committed records wait "
        "that long for one that died.",
        unit="ms",
        minimum=1,
        maximum=2**31 - 1,
    )
    timeout_check_ms: int = setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        SECOND_MS,
        "How often transactions are looked through for those whose producer is silent for too "
        "long. Kafka's 10 s would be added to each timeout.",
        unit="ms",
        minimum=1,
    )
    expiration_ms: int = setting(
        "transactional.id.expiration.ms",
        7 * DAY_MS,
        "How long a transactional id is kept that nobody uses. It must outlive its producer's "
        "pauses: a producer that comes back later is told that it is not known.",
        unit="ms",
        minimum=1,
    )
    expiration_check_ms: int = setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        3600 * SECOND_MS,
        "How often transactional ids are looked through for those to forget.",
        unit="ms",
        minimum=1,
    )
    log_partitions: int = setting(
        "transaction.state.log.num.partitions",
        1,
        "Partitions of __transaction_state when it is made. Transactions that end together share "
        "one sync of one file; Kafka's 50 are for spreading producers over brokers.",
        minimum=1,
        maximum=1000,
    )
    log_segment_bytes: int = setting(
        "transaction.state.log.segment.bytes",
        8 * MIB,
        "Segment size of __transaction_state when it is made. Only sealed segments are compacted, "
        "and a start reads what is left.",
        unit="bytes",
        minimum=MIB,
        maximum=2**31 - 1,
    )
    write_timeout_ms: int = setting(
        "transaction.state.log.write.timeout.ms",
        5 * SECOND_MS,
        "How long a record or a marker of a transaction may wait for the disk before its client "
        "is told to try again.",
        unit="ms",
        minimum=1,
        maximum=HOUR_MS,
    )

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class ZooKeeperConfig:
    """Registration in a ZooKeeper, for clients and tools that look for brokers there."""

    ensemble: Ensemble = setting(
        "zookeeper.connect",
        NO_ENSEMBLE,
        "The ZooKeeper in which this broker and its topics are registered, and the path there. "
        "Only clients of the original kind look for brokers there.",
        default_words="none",
    )
    format: str = setting(
        "zookeeper.format",
        "original",
        "How nodes are written: the original host:port and number of partitions, or the JSON of "
        "Kafka 0.8 to 3.x for tools that read that.",
        choices=("original", "json"),
    )
    auth_file: Path = setting(
        "zookeeper.auth.file",
        NO_FILE,
        "A file with one line, user:password. With it we log in by digest, and our nodes may be "
        "changed by this user alone. A file, so that no list of settings or processes shows it.",
        default_words="none",
    )
    session_timeout_ms: int = setting(
        "zookeeper.session.timeout.ms",
        6 * SECOND_MS,
        "How long after a broker died its nodes stay, and how long a broker may be out of touch "
        "before they go. ZooKeeper itself allows 2 to 20 of its ticks.",
        unit="ms",
        minimum=100,
        maximum=120 * SECOND_MS,  # a stop waits this long when a server does not even refuse
    )
    connection_timeout_ms: int = setting(
        "zookeeper.connection.timeout.ms",
        2 * SECOND_MS,
        "How long a start waits for ZooKeeper to learn that its id is free. After that the broker "
        "serves and registers once ZooKeeper is there.",
        unit="ms",
        minimum=1,
        maximum=HOUR_MS,
    )

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class ConsumerGroupsConfig:
    """Groups of the newer protocol (KIP-848), in which the broker assigns and sets the pace."""

    session_timeout_ms: int = setting(
        "group.consumer.session.timeout.ms",
        45 * SECOND_MS,
        "How long a member may be silent before its partitions go to others.",
        unit="ms",
        minimum=1,
        maximum=2**31 - 1,
    )
    min_session_ms: int = setting(
        "group.consumer.min.session.timeout.ms",
        6 * SECOND_MS,
        "Shortest session timeout that a group may be given, as for groups of the older protocol. "
        "Kafka's 45 s leave no choice.",
        unit="ms",
        minimum=1,
        maximum=2**31 - 1,
    )
    max_session_ms: int = setting(
        "group.consumer.max.session.timeout.ms",
        60 * SECOND_MS,
        "Longest session timeout that a group may be given.",
        unit="ms",
        minimum=1,
        maximum=2**31 - 1,
    )
    heartbeat_interval_ms: int = setting(
        "group.consumer.heartbeat.interval.ms",
        5 * SECOND_MS,
        "How often members are told to send a heartbeat. A partition moves with the heartbeats of "
        "its old and its new owner, so this is the pace of rebalances.",
        unit="ms",
        minimum=1,
        maximum=2**31 - 1,
    )
    min_heartbeat_ms: int = setting(
        "group.consumer.min.heartbeat.interval.ms",
        SECOND_MS,
        "Shortest heartbeat interval that a group may be given: each heartbeat is a request of "
        "each member. Kafka's 5 s leave no choice downwards.",
        unit="ms",
        minimum=1,
        maximum=2**31 - 1,
    )
    max_heartbeat_ms: int = setting(
        "group.consumer.max.heartbeat.interval.ms",
        15 * SECOND_MS,
        "Longest heartbeat interval that a group may be given.",
        unit="ms",
        minimum=1,
        maximum=2**31 - 1,
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

    def __post_init__(self) -> None:
        check_fields(self)
        for name, low, value, high in (
            ("session.timeout.ms", self.min_session_ms, self.session_timeout_ms,
             self.max_session_ms),
            ("heartbeat.interval.ms", self.min_heartbeat_ms, self.heartbeat_interval_ms,
             self.max_heartbeat_ms),
        ):
            if not low <= value <= high:
                raise SettingInvalid(
                    f"group.consumer.{name}: got {value}, wanted {low} to {high} "
                    f"(group.consumer.min.{name}, group.consumer.max.{name})"
                )


@dataclass(frozen=True)
class BrokerConfig:
    """One broker: its directory, its addresses, its timers, and the tables above."""

    data_dir: Path = setting(
        "data.dir",
        Path("data"),
        "The directory that holds everything the broker knows. One broker at a time may use it.",
    )
    node_id: int = setting(
        "node.id",
        1,
        "The number by which clients know this broker. Nothing on disk depends on it.",
        minimum=0,
        maximum=2**31 - 1,
    )
    listen_address: Address = setting(
        "listen.address",
        Address("127.0.0.1", 9092),
        "Where clients of the Kafka protocol are served. There is no login yet, so it is loopback.",
    )
    advertised_address: Address = setting(
        "advertised.address",
        NO_ADDRESS,
        "Where clients are told to connect: a name or address that reaches this machine from "
        "theirs. Port 0 means the one that is listened on.",
        default_words="the listening address",
    )
    admin_address: Address = setting(
        "admin.address",
        Address("127.0.0.1", 8780),
        "Where health and the admin pages are served. There is no login yet, so it is loopback.",
    )
    retention_check_interval_ms: int = setting(
        "log.retention.check.interval.ms",
        30 * SECOND_MS,
        "How often retention looks for segments to delete. Kafka's five minutes would make a "
        "retention of one hour mean up to 65 minutes.",
        unit="ms",
        minimum=10,
    )
    cleaner_backoff_ms: int = setting(
        "log.cleaner.backoff.ms",
        15 * SECOND_MS,
        "How often compaction looks for a log that is due.",
        unit="ms",
        minimum=10,
    )
    topics: TopicsConfig = field(default_factory=TopicsConfig)
    storage: StorageConfig = field(default_factory=StorageConfig)
    log: LogConfig = field(default_factory=LogConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    control: ControlConfig = field(default_factory=ControlConfig)
    groups: GroupsConfig = field(default_factory=GroupsConfig)
    transactions: TransactionsConfig = field(default_factory=TransactionsConfig)
    zookeeper: ZooKeeperConfig = field(default_factory=ZooKeeperConfig)
    consumer_groups: ConsumerGroupsConfig = field(default_factory=ConsumerGroupsConfig)

    def __post_init__(self) -> None:
        check_fields(self)
        told = self.advertised_address
        if told.host in EVERY_INTERFACE:
            raise SettingInvalid(
                f"advertised.address: got {told}, which is every interface of this machine and "
                "no address that a client can connect to; wanted a name or address of this machine"
            )
        if told == NO_ADDRESS and self.listen_address.host in EVERY_INTERFACE:
            raise SettingInvalid(
                f"listen.address: got {self.listen_address}, which is every interface, so clients "
                "must be told which one to connect to; wanted advertised.address with it, "
                f"for example advertised.address={socket.gethostname()}:{self.listen_address.port}"
            )

    def advertised(self, listening: Address) -> Address:
        """What clients are told, when this is where the broker came to listen."""
        told = self.advertised_address
        return listening if told == NO_ADDRESS else Address(told.host, told.port or listening.port)


# The parts of a BrokerConfig by the field that holds them; "" is BrokerConfig itself.
PARTS: dict[str, type] = {
    "": BrokerConfig,
    "topics": TopicsConfig,
    "storage": StorageConfig,
    "log": LogConfig,
    "network": NetworkConfig,
    "control": ControlConfig,
    "groups": GroupsConfig,
    "transactions": TransactionsConfig,
    "zookeeper": ZooKeeperConfig,
    "consumer_groups": ConsumerGroupsConfig,
}


def settings() -> dict[str, Setting]:
    """Every setting by its name."""
    return {row.name: row for part in PARTS.values() for _, row in settings_of(part)}


@dataclass(frozen=True)
class Given:
    """A value and who gave it, before it is believed."""

    origin: str
    name: str
    value: Any
    is_text: bool = True  # written by a person or a shell; TOML has numbers of its own

    def resolve(self) -> Any:
        row = settings().get(self.name)
        if row is None:
            near = difflib.get_close_matches(self.name, settings(), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise SettingInvalid(f"{self.name}: no such setting ({self.origin}){hint}")
        value = self.value
        if self.is_text or (isinstance(value, str) and row.kind in (Path, *PARSED)):
            value = row.from_text(value)
        elif row.kind is float and type(value) is int:
            value = float(value)
        row.check(value, f"{self.value!r} ({self.origin})")
        return value


def from_file(path: Path) -> Iterator[Given]:
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingInvalid(f"file {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingInvalid(f"file {path}: not TOML: {error}") from error
    pending = list(document.items())
    while pending:
        name, value = pending.pop(0)
        if isinstance(value, dict):
            pending += [(f"{name}.{key}", inner) for key, inner in value.items()]
        else:
            yield Given(f"file {path}", name, value, is_text=False)


def from_environment(environment: Mapping[str, str]) -> Iterator[Given]:
    names = {row.environment: row.name for row in settings().values()}
    for variable, value in sorted(environment.items()):
        key = variable.removeprefix(ENVIRONMENT_PREFIX)
        if key != variable and key not in ENVIRONMENT_OF_BUILDS:
            name = names.get(variable, key.lower().replace("_", "."))
            yield Given(f"environment {variable}", name, value)


def from_pairs(pairs: Iterable[str]) -> Iterator[Given]:
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise SettingInvalid(f"--set {pair}: wanted key=value")
        yield Given("--set", name.strip(), value)


def load(
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    pairs: Iterable[str] = (),
    flags: Mapping[str, str | None] | None = None,
) -> BrokerConfig:
    """The broker's settings from all sources; a flag that was not given is None."""
    given = [
        *(from_file(file) if file else ()),
        *from_environment(environment or {}),
        *from_pairs(pairs),
        *(Given("flag", name, text) for name, text in (flags or {}).items() if text is not None),
    ]
    values = {each.name: each.resolve() for each in given}
    made = {
        part: {name: values[row.name] for name, row in settings_of(config) if row.name in values}
        for part, config in PARTS.items()
    }
    parts = {part: PARTS[part](**made[part]) for part in PARTS if part}
    return BrokerConfig(**made[""], **parts)


def values_of(config: BrokerConfig) -> dict[str, Any]:
    """Every setting's value in force, by name."""
    parts = [getattr(config, part) if part else config for part in PARTS]
    return {row.name: getattr(part, field) for part in parts for field, row in settings_of(part)}


def as_markdown() -> str:
    """The settings table of docs/operations.md; a test compares the two."""
    lines = ["| setting | default | accepts | why |", "|---|---|---|---|"]
    for row in settings().values():
        lines.append(f"| `{row.name}` | {row.default_text} | {row.wanted} | {row.reason} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(as_markdown(), end="")
