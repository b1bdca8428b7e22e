"""The settings of consumers."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.client.config import ClientConfig
from appliance.client.errors import ConfigInvalid
from appliance.client.setting import KIB, MIB, setting

ZOOKEEPER, KAFKA = "zookeeper", "kafka"
SMALLEST, LARGEST, FAIL = "smallest", "largest", "fail"
READ_UNCOMMITTED, READ_COMMITTED = "read_uncommitted", "read_committed"


@dataclass(frozen=True, kw_only=True)
class FetchConfig(ClientConfig):
    """Settings of fetching: all settings of a SimpleConsumer."""

    fetch_size: int = setting(
        MIB,
        "Bytes per fetch and partition. For a larger batch the client fetches again with twice as "
        "much, up to `fetch_size_max`.",
        minimum=KIB,
    )
    fetch_size_max: int = setting(
        64 * MIB,
        "The largest batch that the client reads, limited by producers and by its memory.",
        unit="bytes",
        minimum=KIB,
    )
    fetch_min_bytes: int = setting(
        1, "Bytes that must exist before a waiting fetch is answered.", minimum=0
    )
    fetch_wait_max_ms: int = setting(
        100,
        "How long a fetch waits at the broker for `fetch_min_bytes`. A partition whose stream gets "
        "space in that time waits too.",
        minimum=0,
    )
    fetch_ahead: bool = setting(
        True,
        "Whether a `fetch_arrow` that continues at its last end requests the next records before "
        "it decodes the present ones.",
    )
    isolation_level: str = setting(
        READ_UNCOMMITTED,
        "Whether to read records of open and aborted transactions, too.",
        choices=(READ_UNCOMMITTED, READ_COMMITTED),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fetch_size_max < self.fetch_size:
            raise ConfigInvalid(
                f"fetch_size_max: got {self.fetch_size_max}, wanted at least fetch_size, "
                f"{self.fetch_size} bytes"
            )


@dataclass(frozen=True, kw_only=True)
class ConsumerConfig(FetchConfig):
    """Further settings of a ConsumerConnector."""

    group_id: str = setting("", "The group: each record goes to one of its consumers.")
    consumer_id: str = setting(
        "", "The consumer's unique name in the group. Empty: a new `host:uuid`."
    )
    autocommit_enable: bool = setting(
        True, "Commit offsets every `autocommit_interval_ms`, and at the end."
    )
    autocommit_interval_ms: int = setting(
        10_000,
        "After a crash the records of this time are read again.",
        minimum=1,
    )
    offsets_storage: str = setting(
        ZOOKEEPER,
        "Where offsets are committed. Commits in the brokers do not burden ZooKeeper, and other "
        "Kafka clients and tools see them.",
        choices=(ZOOKEEPER, KAFKA),
    )
    autooffset_reset: str = setting(
        SMALLEST,
        "Where to start without a committed offset, or if its record no longer exists.",
        choices=(SMALLEST, LARGEST, FAIL),
    )
    topic_made_anew: str = setting(
        FAIL,
        "What a stream does if a topic was deleted and created again, while it reads or since its "
        "offset was committed: raise TopicMadeAnew, or start at the first record of the new topic.",
        choices=(FAIL, SMALLEST),
    )
    queuedchunks_max: int = setting(
        10,
        "Fetched chunks, of at most `fetch_size`, that a stream buffers.",
        minimum=1,
    )
    consumer_timeout_ms: int = setting(
        -1, "A stream raises after so long without records. -1: it waits."
    )
    rebalance_backoff_ms: int = setting(
        200,
        "Between two attempts to claim a partition that its owner still has. Usually ZooKeeper "
        "reports the release earlier.",
        minimum=1,
    )
    refetch_backoff_ms: int = setting(
        200, "Pause after a failure of a broker, or of one of its partitions.", minimum=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in (("group_id", self.group_id), ("consumer_id", self.consumer_id)):
            if "/" in value or value in (".", "..") or not value.isprintable():
                raise ConfigInvalid(f"{name}: got {value!r}, no valid name in ZooKeeper")
