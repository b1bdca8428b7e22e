"""The requests of a load test, one function each: returns the response or raises BrokerRefused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from appliance.client.config import ClientConfig
from appliance.client.connection import Address
from appliance.client.errors import BrokerRefused, TopicUnknown
from appliance.client.security_config import SecurityConfig
from appliance.protocol import ErrorCode, codec
from appliance.protocol.messages.create_topics import API as CREATE_TOPICS
from appliance.protocol.messages.create_topics import CreateTopicsRequest
from appliance.protocol.messages.fetch import API as FETCH
from appliance.protocol.messages.fetch import FetchRequest
from appliance.protocol.messages.init_producer_id import API as INIT_PRODUCER_ID
from appliance.protocol.messages.init_producer_id import InitProducerIdRequest
from appliance.protocol.messages.list_offsets import API as LIST_OFFSETS
from appliance.protocol.messages.list_offsets import ListOffsetsRequest
from appliance.protocol.messages.metadata import API as METADATA
from appliance.protocol.messages.metadata import MetadataRequest
from appliance.protocol.messages.produce import API as PRODUCE
from appliance.protocol.messages.produce import ProduceRequest
from loadtest.acknowledged_batches import Place
from loadtest.connection import Connection

EARLIEST, LATEST = -2, -1
NO_REPLICA = -1
PRODUCE_TIMEOUT_MS = 30_000
OPEN = SecurityConfig()  # neither a login nor TLS

Connect = Callable[[], Connection]


@dataclass(frozen=True)
class Wish:
    """The limits of a fetch."""

    min_bytes: int
    wait_ms: int
    max_bytes: int


WHOLE = Wish(1, 500, 4 << 20)  # everything that exists, in pieces that stay small in memory


@dataclass(frozen=True)
class Fetched:
    records: memoryview
    high_watermark: int


def checked(code: int, facts: str) -> None:
    if code:
        raise BrokerRefused(code, facts)


def connect_to(host: str, client_id: str = "loadtest", security: SecurityConfig = OPEN) -> Connect:
    def connect() -> Connection:
        config = ClientConfig.secured(security, broker_list=host, client_id=client_id)
        return Connection(Address.parse(host), config)

    return connect


def create_topic(connection: Connection, topic: str, partitions: int) -> None:
    """The broker's number of partitions, if the topic exists."""
    row = CreateTopicsRequest.CreatableTopic(topic, partitions, 1)
    (made,) = connection.ask(CREATE_TOPICS, CreateTopicsRequest(topics=[row])).topics
    if made.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
        checked(made.error_code, f"topic {topic}: {made.error_message}")


def partitions_of(connection: Connection, topic: str) -> int:
    row = MetadataRequest.MetadataRequestTopic(name=topic)
    asked = MetadataRequest(topics=[row], allow_auto_topic_creation=False)
    (found,) = connection.ask(METADATA, asked).topics
    checked(found.error_code, f"topic {topic}")
    if not found.partitions:
        raise TopicUnknown(f"topic {topic}: no partitions yet")
    return len(found.partitions)


def producer_identity(connection: Connection) -> tuple[int, int]:
    asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
    found = connection.ask(INIT_PRODUCER_ID, asked)
    checked(found.error_code, "a producer id")
    return found.producer_id, found.producer_epoch


def produce(connection: Connection, place: Place, batch: codec.Pieces, acks: int) -> int:
    """The offset of the first record."""
    topic, partition = place
    row = ProduceRequest.PartitionProduceData(partition, batch)  # type: ignore[arg-type]
    asked = ProduceRequest(
        acks=acks,
        timeout_ms=PRODUCE_TIMEOUT_MS,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[row])],
    )
    (part,) = connection.ask(PRODUCE, asked).responses[0].partition_responses
    checked(part.error_code, f"{topic} {partition}")
    return int(part.base_offset)


def fetch(connection: Connection, place: Place, offset: int, wish: Wish) -> Fetched:
    topic, partition = place
    row = FetchRequest.FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=wish.max_bytes
    )
    asked = FetchRequest(
        max_wait_ms=wish.wait_ms,
        min_bytes=wish.min_bytes,
        max_bytes=wish.max_bytes,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[row])],
    )
    answer = connection.ask(FETCH, asked)
    checked(answer.error_code, f"{topic} {partition}")
    (part,) = answer.responses[0].partitions
    checked(part.error_code, f"{topic} {partition} offset {offset}")
    return Fetched(memoryview(part.records or b""), part.high_watermark)


def offset_at(connection: Connection, place: Place, timestamp: int) -> int:
    topic, partition = place
    row = ListOffsetsRequest.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    asked = ListOffsetsRequest(
        replica_id=NO_REPLICA,
        topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[row])],
    )
    (part,) = connection.ask(LIST_OFFSETS, asked).topics[0].partitions
    checked(part.error_code, f"{topic} {partition}")
    return int(part.offset)


def bounds(connection: Connection, place: Place) -> tuple[int, int]:
    """The first offset, and the one after the last readable record."""
    return offset_at(connection, place, EARLIEST), offset_at(connection, place, LATEST)
