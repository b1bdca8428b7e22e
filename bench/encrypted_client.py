"""A client over TLS that costs little, so that the broker is what limits a transfer.

    python -m bench.encrypted_client produce|consume HOST:PORT CA TOPIC PARTITION RECORDS

It sends one batch of a thousand records of 1 KB again and again, or reads batches and looks at no
more than their heads. Encrypting is OpenSSL's, in calls of up to a megabyte. CA is a file, or empty
for a listener without TLS. It says that it is ready, and begins when its input ends.
"""

from __future__ import annotations

import os
import socket
import ssl
import struct
import sys
import time

from appliance.protocol import codec, headers
from appliance.protocol.messages.fetch import FetchRequest, FetchResponse
from appliance.protocol.messages.produce import ProduceRequest, ProduceResponse
from appliance.record import _batch_builder

RECORD_BYTES = 1000
RECORDS = 1000  # of a batch, which librdkafka makes as large
IN_FLIGHT = 5
PRODUCE, FETCH = (0, 9), (1, 12)  # key and version
ANSWER_HEAD_BYTES = 5  # correlation id, no tags
FETCH_BYTES = 1 << 20  # of a partition, as librdkafka asks for
ROOM_BYTES = 4 << 20
WAIT_MS = 500
BATCH_HEAD = struct.Struct(">qi11xi")  # base offset, size behind it, last offset delta
SIZE_AT = 12  # in a batch: what its size does not count


class Line:
    """A connection. An answer is good until the next one is read."""

    def __init__(self, address: str, ca: str) -> None:
        host, _, port = address.rpartition(":")
        plain = socket.create_connection((host, int(port)))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = plain
        if ca:
            context = ssl.create_default_context(cafile=ca)
            self._socket = context.wrap_socket(plain, server_hostname="localhost")
        self._room = memoryview(bytearray(ROOM_BYTES))

    def send(self, frame: bytes) -> None:
        self._socket.sendall(frame)

    def answer(self) -> memoryview:
        """Without its header."""
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)[ANSWER_HEAD_BYTES:]

    def _read(self, size: int) -> memoryview:
        into = self._room[:size]
        at = 0
        while at < size:
            got = self._socket.recv_into(into[at:])
            if got == 0:
                raise EOFError("the broker hung up")
            at += got
        return into


def frame_of(request: object, kind: tuple[int, int]) -> bytes:
    header = headers.encode_request(headers.RequestHeader(*kind, 1, "bench"))
    frame = header + codec.encode(request, kind[1])
    return struct.pack(">i", len(frame)) + frame


def produce(line: Line, topic: str, partition: int, count: int) -> None:
    now = int(time.time() * 1000)
    values = [os.urandom(RECORD_BYTES // 2).hex().encode() for _ in range(RECORDS)]
    batch = bytes(_batch_builder.batch([(now, None, each) for each in values]))
    part = ProduceRequest.PartitionProduceData(index=partition, records=batch)
    of_topic = ProduceRequest.TopicProduceData(name=topic, partition_data=[part])
    frame = frame_of(ProduceRequest(acks=1, topic_data=[of_topic]), PRODUCE)
    batches = count // RECORDS
    for number in range(batches + IN_FLIGHT):
        if number >= IN_FLIGHT:
            check_produced(line.answer())
        if number < batches:
            line.send(frame)


def check_produced(answer: memoryview) -> None:
    told = codec.decode(ProduceResponse, answer, PRODUCE[1])
    error = told.responses[0].partition_responses[0].error_code
    if error:
        raise SystemExit(f"produce: error {error}")


def consume(line: Line, topic: str, partition: int, count: int) -> None:
    offset = 0
    while offset < count:
        part = FetchRequest.FetchPartition(partition=partition, fetch_offset=offset,
                                           partition_max_bytes=FETCH_BYTES)
        asked = FetchRequest(max_wait_ms=WAIT_MS, min_bytes=1, max_bytes=50 * FETCH_BYTES,
                             session_epoch=-1,
                             topics=[FetchRequest.FetchTopic(topic=topic, partitions=[part])])
        line.send(frame_of(asked, FETCH))
        told = codec.decode(FetchResponse, line.answer(), FETCH[1], borrow=True)
        found = told.responses[0].partitions[0]
        if found.error_code:
            raise SystemExit(f"fetch at {offset}: error {found.error_code}")
        offset = end_of(found.records or b"", offset)


def end_of(records: bytes | memoryview, offset: int) -> int:
    """The offset behind the last whole batch; a last one may be cut."""
    at = 0
    while at + BATCH_HEAD.size <= len(records):
        base, size, delta = BATCH_HEAD.unpack_from(records, at)
        at += SIZE_AT + size
        if at > len(records):
            break
        offset = base + delta + 1
    return offset


def main() -> None:
    what, address, ca, topic, partition, count = sys.argv[1:]
    line = Line(address, ca)
    print("ready", flush=True)
    sys.stdin.read()
    {"produce": produce, "consume": consume}[what](line, topic, int(partition), int(count))


if __name__ == "__main__":
    main()
