"""Runs one path of the core a number of times, for counting instructions.

    python -m bench.instruction_paths PATH COUNT [FOLDER]

PATH is one of append, append-one, read, columns, request-one, fetch-one, connect-one (a fetch with
a connection of its own), and where rights are enforced and known: request-allowed, fetch-allowed.

It uses a new log, or the log in the folder. The last five paths go through a socket and the network
threads, with a client that repeats the same bytes.
"""

from __future__ import annotations

import socket
import struct
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from appliance._log import Log
from appliance.config import LogConfig, NetworkConfig, StorageConfig
from appliance.data_dir.log_dir import LogDir
from appliance.network._data_plane import DataPlane
from appliance.protocol import codec, headers
from appliance.protocol.messages.fetch import FetchRequest
from appliance.protocol.messages.produce import ProduceRequest
from appliance.record import _batch_builder, arrow

TOPIC = "bench"
READ, WRITE = 1, 2  # rights, as the data plane numbers them
RECORD_BYTES, RECORDS, READ_BYTES, OFFSETS = 100, 500, 1 << 20, 100
STORAGE = StorageConfig(low_water_bytes=0, reserve_bytes=0, checkpoint_interval_ms=60_000)
LOG = LogConfig(flush_ms=600_000, flush_messages=1 << 40)


def batch_of(records: int) -> bytearray:
    return bytearray(_batch_builder.batch([(0, None, bytes(RECORD_BYTES))] * records))


def append(_: LogDir, log: Log, count: int) -> None:
    batch = batch_of(RECORDS)
    for _ in range(count):
        log.append_in_place(batch)


def append_one(_: LogDir, log: Log, count: int) -> None:
    batch = batch_of(1)
    for _ in range(count):
        log.append_in_place(batch)


def read(log_dir: LogDir, log: Log, count: int) -> None:
    """Reads at a hundred offsets, spread over the log."""
    append(log_dir, log, OFFSETS)
    log.flush()
    step = log.log_end_offset // RECORDS // OFFSETS * RECORDS
    for number in range(count):
        log.read(number % OFFSETS * step, READ_BYTES)


def columns(_: LogDir, __: Log, count: int) -> None:
    batch = bytes(batch_of(RECORDS))
    for _ in range(count):
        arrow.record_batch(batch)


def request_one(log_dir: LogDir, log: Log, count: int, rights: int = 0) -> None:
    part = ProduceRequest.PartitionProduceData(index=0, records=bytes(batch_of(1)))
    topic = ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[part])
    frame = frame_of(ProduceRequest(acks=1, topic_data=[topic]), 0, 9)
    answered(log_dir, log, count, frame, rights)


def fetch_one(log_dir: LogDir, log: Log, count: int, rights: int = 0) -> None:
    log.append_durable(bytes(batch_of(1)))
    answered(log_dir, log, count, fetch_frame(), rights)


def fetch_frame() -> bytes:
    part = FetchRequest.FetchPartition(partition=0, partition_max_bytes=READ_BYTES)
    topic = FetchRequest.FetchTopic(topic=TOPIC, partitions=[part])
    asked = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=READ_BYTES, topics=[topic],
                         session_epoch=-1)
    return frame_of(asked, 1, 12)


def connect_one(log_dir: LogDir, log: Log, count: int) -> None:
    """A connection of its own for each request."""
    log.append_durable(bytes(batch_of(1)))
    frame = fetch_frame()
    with serving(log_dir, log, 0) as address:
        for _ in range(count):
            with socket.create_connection(address) as client:
                ask(client, frame)


def request_allowed(log_dir: LogDir, log: Log, count: int) -> None:
    request_one(log_dir, log, count, WRITE)


def fetch_allowed(log_dir: LogDir, log: Log, count: int) -> None:
    fetch_one(log_dir, log, count, READ)


def frame_of(request: Any, key: int, version: int) -> bytes:
    header = headers.encode_request(headers.RequestHeader(key, version, 1, "bench"))
    frame = header + codec.encode(request, version)
    return struct.pack(">i", len(frame)) + frame


def answered(log_dir: LogDir, log: Log, count: int, frame: bytes, rights: int) -> None:
    """Sends the frame and reads its response, a number of times."""
    with serving(log_dir, log, rights) as address, socket.create_connection(address) as client:
        for _ in range(count):
            ask(client, frame)


def ask(client: socket.socket, frame: bytes) -> None:
    client.sendall(frame)
    (left,) = struct.unpack(">i", client.recv(4, socket.MSG_WAITALL))
    client.recv(left, socket.MSG_WAITALL)


@contextmanager
def serving(log_dir: LogDir, log: Log, rights: int) -> Iterator[tuple[str, int]]:
    """`rights`: those that are known to be allowed, where they are enforced."""
    plane = DataPlane(NetworkConfig())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        plane.listen(listener)
        plane.put_topic(TOPIC, uuid.uuid4().bytes, [log])
        if rights:
            plane.enforce(1)
            plane.decide("User:ANONYMOUS", "127.0.0.1", TOPIC, rights, rights, 1)
        plane.start()
        yield address
        plane.stop(1000)


PATHS: dict[str, Callable[[LogDir, Log, int], None]] = {
    "append": append, "append-one": append_one, "read": read, "columns": columns,
    "request-one": request_one, "fetch-one": fetch_one, "connect-one": connect_one,
    "request-allowed": request_allowed, "fetch-allowed": fetch_allowed,
}


def opened(folder: Path) -> LogDir:
    return LogDir.open(folder, STORAGE, log_config=lambda topic, partition: LOG)


def main() -> None:
    path, count, *folder = sys.argv[1:]
    if folder:
        log_dir = opened(Path(folder[0]))
        log = log_dir.log(TOPIC, 0)
        log.roll()  # an append's position in a segment does not depend on the log's size
        PATHS[path](log_dir, log, int(count))
        log_dir.close()
        return
    with tempfile.TemporaryDirectory() as name:
        log_dir = opened(Path(name, "data"))
        PATHS[path](log_dir, log_dir.create(TOPIC, 0, LOG), int(count))
        log_dir.abandon()


if __name__ == "__main__":
    main()
