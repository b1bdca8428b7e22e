"""The settings of a producer."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.client.config import ClientConfig
from appliance.client.errors import ConfigInvalid
from appliance.client.setting import MIB, setting
from appliance.record import compression

# The number of batches per producer and partition that the broker remembers. With more in flight it
# could not detect a repeated batch.
REQUESTS_IN_FLIGHT_MAX = 5

FAIL, MOVE = "fail", "move"


@dataclass(frozen=True, kw_only=True)
class ProducerConfig(ClientConfig):
    producer_type: str = setting(
        "sync",
        "`sync`: `send` returns when the brokers have acknowledged. `async`: it returns when the "
        "records are in the queue, and a thread sends them.",
        choices=("sync", "async"),
    )
    acks: int = setting(
        -1,
        "-1: acknowledged means on disk. 1: it means written; a power cut may lose it.",
        minimum=-1,
        maximum=1,
    )
    compression: str = setting(
        "none",
        "Compression of batches; brokers keep it and consumers decompress.",
        choices=compression.NAMES,
    )
    idempotence: bool = setting(
        True,
        "The broker detects repeated batches. Without it, records may occur twice, and out of "
        "order.",
    )
    max_message_size: int = setting(
        1_000_000,
        "Size of a batch before compression. Brokers refuse more than their `message.max.bytes`, "
        "1 MiB by default.",
        minimum=1024,
        maximum=1024 * MIB,
    )
    requests_in_flight: int = setting(
        REQUESTS_IN_FLIGHT_MAX,
        "Requests in flight per broker. The broker remembers as many batches of a producer to "
        "detect repetitions.",
        minimum=1,
        maximum=REQUESTS_IN_FLIGHT_MAX,
    )
    request_size: int = setting(
        8 * MIB,
        "Size of a request, which has one batch for each of several partitions. Far below the "
        "broker's limit, 100 MB.",
        minimum=1024,
    )
    buffer_size: int = setting(
        32 * MIB,
        "Size of all batches that are not yet acknowledged. A longer list is encoded as space "
        "becomes free.",
        minimum=1024,
    )
    delivery_timeout_ms: int = setting(
        30_000,
        "A record fails if no broker has acknowledged it this long after `send`, or after it left "
        "the queue. A broker restarts well within.",
        minimum=1,
    )
    retry_backoff_ms: int = setting(
        100, "Pause before the second attempt; doubled with each further one.", minimum=1
    )
    retry_backoff_max_ms: int = setting(2000, "Longest pause between attempts.", minimum=1)
    on_broker_down: str = setting(
        FAIL,
        "`fail`: records for an unreachable broker wait for it, and fail at their timeout. `move`: "
        "they go to partitions of other brokers. Then records in flight may occur twice, and "
        "records of a key in two partitions.",
        choices=(FAIL, MOVE),
    )
    create_topics: bool = setting(
        True, "Create a missing topic with the brokers' defaults, if they allow it."
    )
    queue_size: int = setting(
        100_000, "async: largest number of queued records.", unit="records", minimum=1
    )
    queue_time: int = setting(
        100, "async: longest wait of a record for others of its batch.", unit="ms", minimum=0
    )
    batch_size: int = setting(
        10_000,
        "async: this many records are sent without waiting for more, and never more at a time.",
        unit="records",
        minimum=1,
    )
    queue_enqueue_timeout: int = setting(
        -1,
        "async: how long `send` waits for space in a full queue. -1: without limit. 0: not at all. "
        "The records without space get QueueFull, and `after_enqueue` is called.",
        unit="ms",
        minimum=-1,
    )
    close_timeout: int = setting(
        30_000,
        "async: how long `close` sends queued records. Records left then are reported as failed.",
        unit="ms",
        minimum=0,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.acks == 0:
            raise ConfigInvalid("acks: got 0, wanted 1 or -1: every record's outcome is reported")
