"""The settings of consumers."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.client.config import KIB, MIB, ClientConfig, setting
from appliance.client.errors import ConfigInvalid

ZOOKEEPER, KAFKA = "zookeeper", "kafka"
SMALLEST, LARGEST, FAIL = "smallest", "largest", "fail"
READ_UNCOMMITTED, READ_COMMITTED = "read_uncommitted", "read_committed"


@dataclass(frozen=True, kw_only=True)
class FetchConfig(ClientConfig):
    """Settings of fetching, which are all settings of a SimpleConsumer."""

    fetch_size: int = setting(
        MIB,
        "What one fetch asks for of a partition. A batch that is larger is asked for again with "
        "twice as much, up to `fetch_size_max`.",
        minimum=KIB,
    )
    fetch_size_max: int = setting(
        64 * MIB,
        "The largest batch that is read: what a producer may send, and what we have memory for.",
        unit="bytes",
        minimum=KIB,
    )
    fetch_min_bytes: int = setting(
        1, "How much has to be there before a waiting fetch is answered.", minimum=0
    )
    fetch_wait_max_ms: int = setting(
        100,
        "How long a fetch waits at the broker for `fetch_min_bytes`. A partition whose stream gets "
        "room meanwhile waits too.",
        minimum=0,
    )
    fetch_ahead: bool = setting(
        True,
        "Whether `fetch_arrow`, once it reads on where it ended, asks for what follows before "
        "it makes columns of what came.",
    )
    isolation_level: str = setting(
        READ_UNCOMMITTED,
        "Whether records of transactions that are open or were aborted are read too.",
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
    """The other settings of a ConsumerConnector."""

    group_id: str = setting("", "The group: each record goes to one of its consumers.")
    consumer_id: str = setting(
        "", "Our name in the group, one of a kind. Empty: `host:uuid`, made anew."
    )
    autocommit_enable: bool = setting(
        True, "Commit offsets every `autocommit_interval_ms`, and at the end. Else by hand."
    )
    autocommit_interval_ms: int = setting(
        10_000,
        "What is read again after a crash: the records of so much time.",
        minimum=1,
    )
    offsets_storage: str = setting(
        ZOOKEEPER,
        "Where offsets are committed. In the brokers a commit costs ZooKeeper nothing, and "
        "other Kafka clients and tools see it.",
        choices=(ZOOKEEPER, KAFKA),
    )
    autooffset_reset: str = setting(
        SMALLEST,
        "Where to begin when nothing was committed, or when what was is no longer there.",
        choices=(SMALLEST, LARGEST, FAIL),
    )
    topic_made_anew: str = setting(
        FAIL,
        "What a stream does with a topic that was deleted and made anew, while it reads or since "
        "its offset was committed: raise TopicMadeAnew, or begin at the new one's first record.",
        choices=(FAIL, SMALLEST),
    )
    queuedchunks_max: int = setting(
        10,
        "How many fetched chunks, of `fetch_size` at most, a stream keeps until they are read.",
        minimum=1,
    )
    consumer_timeout_ms: int = setting(
        -1, "A stream with nothing to read raises after so long. -1: it waits."
    )
    rebalance_backoff_ms: int = setting(
        200,
        "Between two tries to claim a partition whose owner has not let go. News of its end "
        "comes earlier as a rule.",
        minimum=1,
    )
    refetch_backoff_ms: int = setting(
        200, "How long a broker that failed is left alone.", minimum=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in (("group_id", self.group_id), ("consumer_id", self.consumer_id)):
            if "/" in value or value in (".", "..") or not value.isprintable():
                raise ConfigInvalid(f"{name}: got {value!r}, which names no node of ZooKeeper")
