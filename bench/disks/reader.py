"""A consumer that only fetches: it follows offsets, and looks at no record.

    python -m bench.disks.reader ADDRESS TOPIC PARTITIONS FROM SECONDS

FROM is `start` or `end`. From the start it ends where the partitions ended when it began. Prints
the bytes and seconds as JSON.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import time

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from appliance.protocol import codec, headers
from appliance.protocol.messages.fetch import FetchRequest, FetchResponse
from appliance.record import _batch

FETCH, VERSION = 1, 11
# Java's defaults
WAIT_MS, PARTITION_BYTES, ALL_BYTES = 500, 1 << 20, 50 << 20
ANSWER_S = 120


def edges(address: str, topic: str, partitions: int, spec: OffsetSpec) -> dict[int, int]:
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    asked = {TopicPartition(topic, each): spec for each in range(partitions)}
    return {each.partition: future.result(ANSWER_S).offset
            for each, future in admin.list_offsets(asked, request_timeout=ANSWER_S).items()}


def request(topic: str, offsets: dict[int, int]) -> bytes:
    row = FetchRequest.FetchTopic(topic=topic)
    row.partitions = [FetchRequest.FetchPartition(partition=each, fetch_offset=offset,
                                                  partition_max_bytes=PARTITION_BYTES)
                      for each, offset in offsets.items()]
    asked = FetchRequest(replica_id=-1, max_wait_ms=WAIT_MS, min_bytes=1, max_bytes=ALL_BYTES,
                         session_epoch=-1, topics=[row])
    frame = headers.encode_request(headers.RequestHeader(FETCH, VERSION, 1, "reader"))
    frame += codec.encode(asked, VERSION)
    return struct.pack(">i", len(frame)) + frame


def whole(connection: socket.socket, size: int) -> bytearray:
    frame = bytearray(size)
    view = memoryview(frame)
    while view:
        got = connection.recv_into(view)
        if not got:
            raise ConnectionError("the broker closed the connection")
        view = view[got:]
    return frame


def fetch(connection: socket.socket, topic: str, offsets: dict[int, int]) -> int:
    """Moves the offsets on. Returns the bytes of records."""
    connection.sendall(request(topic, offsets))
    (size,) = struct.unpack(">i", whole(connection, 4))
    frame = whole(connection, size)
    _, body = headers.decode_response(frame, FETCH, VERSION)
    got = 0
    for each in codec.decode(FetchResponse, body, VERSION, borrow=True).responses[0].partitions:
        if each.error_code:
            raise RuntimeError(f"partition {each.partition_index}: error {each.error_code} at "
                               f"offset {offsets[each.partition_index]}, from "
                               f"{each.log_start_offset} to {each.high_watermark}")
        if each.records:
            got += len(each.records)
            for batch in _batch.headers(each.records, partial_tail=True)[-1:]:
                offsets[each.partition_index] = batch.last_offset + 1
    return got


def rotated(offsets: dict[int, int]) -> dict[int, int]:
    """As consumers do: who was served goes to the end."""
    rows = list(offsets.items())
    return dict(rows[8:] + rows[:8])


def main(address: str, topic: str, partitions: str, begin_at: str, seconds: str) -> None:
    latest = edges(address, topic, int(partitions), OffsetSpec.latest())
    is_past = begin_at == "start"
    offsets = edges(address, topic, int(partitions), OffsetSpec.earliest()) if is_past else latest
    host, _, port = address.partition(":")
    connection = socket.create_connection((host, int(port)), ANSWER_S)
    got, begin = 0, time.monotonic()
    while time.monotonic() < begin + float(seconds) and offsets:
        got += fetch(connection, topic, offsets)
        offsets = {each: offset for each, offset in rotated(offsets).items()
                   if not is_past or offset < latest[each]}
    print(json.dumps({"bytes": got, "seconds": time.monotonic() - begin}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
