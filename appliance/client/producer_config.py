"""The settings of a producer."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.client.config import MIB, ClientConfig, setting
from appliance.client.errors import ConfigInvalid
from appliance.record import compression

# How many batches of a producer the broker remembers for each partition. With more in flight a
# batch that is sent again could not be told from a new one.
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
        "-1: acknowledged means on disk. 1: it means written, a power cut may take it back.",
        minimum=-1,
        maximum=1,
    )
    compression: str = setting(
        "none",
        "Of each batch; brokers keep it and consumers undo it.",
        choices=compression.NAMES,
    )
    idempotence: bool = setting(
        True,
        "The broker tells a batch that is sent again from a new one. Without it, records may be "
        "there twice, and behind later ones.",
    )
    max_message_size: int = setting(
        1_000_000,
        "Of one batch before compression. Brokers refuse more than their `message.max.bytes`, "
        "1 MiB by default.",
        minimum=1024,
        maximum=1024 * MIB,
    )
    requests_in_flight: int = setting(
        REQUESTS_IN_FLIGHT_MAX,
        "At each broker. The broker remembers as many batches of a producer, to know one that is "
        "sent again.",
        minimum=1,
        maximum=REQUESTS_IN_FLIGHT_MAX,
    )
    request_size: int = setting(
        8 * MIB,
        "Of one request, which holds a batch for each of several partitions. Far below what a "
        "broker takes, 100 MB.",
        minimum=1024,
    )
    buffer_size: int = setting(
        32 * MIB,
        "Of batches that are made and not yet acknowledged. A list longer than that is made into "
        "batches as room comes.",
        minimum=1024,
    )
    delivery_timeout_ms: int = setting(
        30_000,
        "A record that no broker has acknowledged so long after it was given, or taken from the "
        "queue, is reported as failed. A broker that is started again is back well within.",
        minimum=1,
    )
    retry_backoff_ms: int = setting(
        100, "Before the second try; doubled with each more.", minimum=1
    )
    retry_backoff_max_ms: int = setting(
        2000, "A broker that is back is used again within.", minimum=1
    )
    on_broker_down: str = setting(
        FAIL,
        "`fail`: records for a broker that is away wait for it, and fail at their timeout. `move`: "
        "they go to partitions of other brokers. What was in flight may then be there twice, and "
        "a key may be in two places.",
        choices=(FAIL, MOVE),
    )
    create_topics: bool = setting(
        True, "A topic that nobody has is made, with the brokers' defaults, if they allow it."
    )
    queue_size: int = setting(
        100_000, "async: records that wait to be sent, at most.", unit="records", minimum=1
    )
    queue_time: int = setting(
        100, "async: a record waits at most so long for others to go with it.", unit="ms", minimum=0
    )
    batch_size: int = setting(
        10_000,
        "async: so many records are sent without waiting for more, and at most so many at a time.",
        unit="records",
        minimum=1,
    )
    queue_enqueue_timeout: int = setting(
        -1,
        "async: how long `send` waits for room in a full queue. -1: as long as it takes. 0: not at "
        "all. What found no room is refused with QueueFull and told to `after_enqueue`.",
        unit="ms",
        minimum=-1,
    )
    close_timeout: int = setting(
        30_000,
        "async: how long `close` sends what is queued. What is left then is reported as failed.",
        unit="ms",
        minimum=0,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.acks == 0:
            raise ConfigInvalid("acks: got 0, wanted 1 or -1: every record's fate is reported")
