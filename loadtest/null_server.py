"""A server that acknowledges every batch and stores nothing, to measure locust alone.

It supports as much of Kafka's protocol as `ProducerUser` needs, in one thread. A response to
Produce is a copy of an earlier one with another correlation id.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any

from appliance.protocol import API, codec, headers
from appliance.protocol.messages.api_versions import ApiVersionsResponse
from appliance.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from appliance.protocol.messages.init_producer_id import InitProducerIdResponse
from appliance.protocol.messages.metadata import MetadataRequest, MetadataResponse
from appliance.protocol.messages.produce import ProduceRequest, ProduceResponse

SIZE = struct.Struct(">i")
KEY_VERSION_ID = struct.Struct(">hhi")
PRODUCE_KEY, PRODUCE_VERSION = 0, 9
SERVED = {0: PRODUCE_VERSION, 3: 9, 18: 3, 19: 5, 22: 4}
PARTITIONS = 8


def versions_of(_: Any) -> ApiVersionsResponse:
    rows = [ApiVersionsResponse.ApiVersion(key, newest, newest) for key, newest in SERVED.items()]
    return ApiVersionsResponse(api_keys=rows)


def topics_of(asked: MetadataRequest) -> MetadataResponse:
    partitions = [
        MetadataResponse.MetadataResponsePartition(
            error_code=0, partition_index=i, leader_id=1, replica_nodes=[1], isr_nodes=[1]
        )
        for i in range(PARTITIONS)
    ]
    topics = [
        MetadataResponse.MetadataResponseTopic(error_code=0, name=each.name, partitions=partitions)
        for each in asked.topics or ()
    ]
    return MetadataResponse(topics=topics)


def made(asked: CreateTopicsRequest) -> CreateTopicsResponse:
    rows = [
        CreateTopicsResponse.CreatableTopicResult(
            name=each.name, error_code=0, error_message=None, num_partitions=PARTITIONS
        )
        for each in asked.topics
    ]
    return CreateTopicsResponse(topics=rows)


def identity(_: Any) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=0, producer_id=1, producer_epoch=0)


def appended(asked: ProduceRequest) -> ProduceResponse:
    topic = asked.topic_data[0]
    part = ProduceResponse.PartitionProduceResponse(
        index=topic.partition_data[0].index, error_code=0, base_offset=0
    )
    row = ProduceResponse.TopicProduceResponse(name=topic.name, partition_responses=[part])
    return ProduceResponse(responses=[row])


ANSWERS: dict[int, Callable[[Any], Any]] = {
    0: appended,
    3: topics_of,
    18: versions_of,
    19: made,
    22: identity,
}


def framed(answer: bytes) -> bytes:
    return SIZE.pack(len(answer)) + answer


class Null(asyncio.Protocol):
    def __init__(self) -> None:
        self._got = b""
        self._produced = b""  # the last response to Produce, without its correlation id

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._got += data
        while len(self._got) >= SIZE.size:
            (size,) = SIZE.unpack_from(self._got)
            if len(self._got) < SIZE.size + size:
                return
            frame = self._got[SIZE.size : SIZE.size + size]
            self._got = self._got[SIZE.size + size :]
            self._transport.write(framed(self.answer(frame)))

    def answer(self, frame: bytes) -> bytes:
        key, version, correlation_id = KEY_VERSION_ID.unpack_from(frame)
        if key == PRODUCE_KEY and self._produced:  # each connection uses one partition
            return SIZE.pack(correlation_id) + self._produced
        _, body = headers.decode_request(frame)
        asked = codec.decode(API[key].request, body, version)
        head = headers.encode_response_header(key, version, correlation_id)
        answer = head + codec.encode(ANSWERS[key](asked), version)
        if key == PRODUCE_KEY:
            self._produced = answer[SIZE.size :]
        return answer


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Null, "127.0.0.1", 0, backlog=4096)
    host, port = server.sockets[0].getsockname()
    print(f"ready kafka={host}:{port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve())
