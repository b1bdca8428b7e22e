"""A client that says exactly what it is told to, one frame at a time, over a real socket."""

from __future__ import annotations

import socket
import struct
import uuid
from types import TracebackType
from typing import Any

from appliance.protocol import codec, headers
from appliance.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from appliance.protocol.messages.fetch import FetchRequest, FetchResponse
from appliance.protocol.messages.produce import ProduceRequest, ProduceResponse

TOPIC_ID = uuid.UUID("11111111-2222-3333-4444-555555555555")


def frame_of(request: Any, key: int, version: int, correlation_id: int = 1,
             client_id: str | None = "test") -> bytes:
    header = headers.RequestHeader(key, version, correlation_id, client_id)
    return headers.encode_request(header) + codec.encode(request, version)


def with_length(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def produce_frame(*batches: bytes, acks: int = 1, version: int = 9, topic: str = "t",
                  timeout_ms: int = 5000, partition: int = 0,
                  client_id: str | None = "test", mirror_source: str = "") -> bytes:
    """A whole frame with its length: a batch for each partition from the named one on."""
    asked = ProduceRequest(acks=acks, timeout_ms=timeout_ms)
    for index, batch in enumerate(batches, partition):
        part = ProduceRequest.PartitionProduceData(index=index, records=batch)
        asked.topic_data.append(ProduceRequest.TopicProduceData(
            name=topic, topic_id=TOPIC_ID, partition_data=[part], mirror_source=mirror_source))
    return with_length(frame_of(asked, 0, version, client_id=client_id))


def fetch_frame(offset: int = 0, *, version: int = 12, topic: str = "t",
                partitions: tuple[int, ...] = (0,), wait_ms: int = 0, min_bytes: int = 1,
                max_bytes: int = 50 << 20, partition_max_bytes: int = 1 << 20, isolation: int = 0,
                session: tuple[int, int] = (0, -1), leader_epoch: int = -1,
                replica: tuple[int, int] = (-1, -1), last_epoch: int = -1,
                log_start: int = -1, rack: str = "",
                client_id: str | None = "test") -> bytes:
    """A whole frame with its length. `replica`: the node and life of a follower."""
    asked = FetchRequest(max_wait_ms=wait_ms, min_bytes=min_bytes, max_bytes=max_bytes,
                         isolation_level=isolation, session_id=session[0],
                         session_epoch=session[1], rack_id=rack)
    if version < 15:
        asked.replica_id = replica[0]
    else:
        asked.replica_state = FetchRequest.ReplicaState(*replica)
    parts = [
        FetchRequest.FetchPartition(partition=each, fetch_offset=offset,
                                    current_leader_epoch=leader_epoch,
                                    last_fetched_epoch=last_epoch, log_start_offset=log_start,
                                    partition_max_bytes=partition_max_bytes)
        for each in partitions
    ]
    if parts:
        asked.topics.append(
            FetchRequest.FetchTopic(topic=topic, topic_id=TOPIC_ID, partitions=parts))
    return with_length(frame_of(asked, 1, version, client_id=client_id))


class WireClient:
    def __init__(
        self, address: tuple[str, int], timeout: float = 20, source: str = "127.0.0.1"
    ) -> None:
        self.socket = socket.create_connection(address, timeout, (source, 0))

    def __enter__(self) -> WireClient:
        return self

    def __exit__(self, kind: type | None, value: object, trace: TracebackType | None) -> None:
        self.socket.close()

    def send(self, frame: bytes) -> None:
        self.socket.sendall(with_length(frame))

    def receive(self) -> bytes:
        """The next answer; EOFError when the broker closed the connection."""
        size = self._exactly(4)
        return self._exactly(struct.unpack(">i", size)[0])

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            part = self.socket.recv(min(size, 1 << 20))
            if not part:
                raise EOFError("closed by the broker")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def answer(self, response: type, key: int, version: int) -> Any:
        frame = self.receive()
        _, body = headers.decode_response(frame, key, version)
        return codec.decode(response, body, version)

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> None:
        row = CreateTopicsRequest.CreatableTopic(name, partitions, 1)
        for key, value in configs.items():
            key = key.replace("_", ".")
            row.configs.append(CreateTopicsRequest.CreatableTopicConfig(key, value))
        self.send(frame_of(CreateTopicsRequest(topics=[row], timeout_ms=5000), 19, 5))
        (made,) = self.answer(CreateTopicsResponse, 19, 5).topics
        assert made.error_code == 0, made

    # Produce

    def send_produce(self, *batches: bytes, **facts: Any) -> None:
        self.socket.sendall(produce_frame(*batches, **facts))

    def produce(self, *batches: bytes, version: int = 9, **facts: Any) -> Any:
        """The answer for each partition."""
        self.send_produce(*batches, version=version, **facts)
        return self.produced(version)

    def produced(self, version: int = 9) -> Any:
        answer = self.answer(ProduceResponse, 0, version)
        return [part for topic in answer.responses for part in topic.partition_responses]

    # Fetch

    def send_fetch(self, offset: int = 0, **facts: Any) -> None:
        self.socket.sendall(fetch_frame(offset, **facts))

    def fetch(self, offset: int = 0, *, version: int = 12, **facts: Any) -> Any:
        self.send_fetch(offset, version=version, **facts)
        return self.answer(FetchResponse, 1, version)

    def fetch_one(self, offset: int = 0, **facts: Any) -> Any:
        self.send_fetch(offset, **facts)
        return self.fetched_one(facts.get("version", 12))

    def fetched_one(self, version: int = 12) -> Any:
        (topic,) = self.answer(FetchResponse, 1, version).responses
        (part,) = topic.partitions
        return part
