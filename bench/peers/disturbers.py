"""Clients that take much of a broker, each kind in a process of its own, until its input ends.

    python -m bench.peers.disturbers KIND ADDRESS TOPIC

    unread    1,000 connections ask for the records of TOPIC, and read nothing of the answers
    fetch     one connection asks for 50 MB again and again, and reads them
    produce   one connection sends 32 MB in one request, a batch to each partition, twice a second
"""

from __future__ import annotations

import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from appliance.protocol.messages.fetch import FetchRequest
from appliance.protocol.messages.produce import ProduceRequest
from appliance.record import _batch_builder
from bench.peers.clients import FETCH, PRODUCE
from bench.peers.members import Link, frame

PARTITIONS = 32  # of the topic
BATCH_BYTES = 1_000_000  # below the 1,048,588 bytes that both brokers take at most
UNREAD = 1000
GIANT_BYTES = 50 << 20  # what the Java consumer asks for at most
EVERY_S = 0.5
FILLS = 8  # requests of `produce`, so that the others have 256 MB to ask for


def giant_produce(topic: str) -> bytes:
    batch = _batch_builder.batch([(1_700_000_000_000, None, bytes(BATCH_BYTES))])
    rows = ProduceRequest.TopicProduceData(name=topic, partition_data=[
        ProduceRequest.PartitionProduceData(index=each, records=batch)
        for each in range(PARTITIONS)])
    return frame(PRODUCE, ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[rows]))


def giant_fetch(topic: str) -> bytes:
    row = FetchRequest.FetchTopic(topic=topic, partitions=[
        FetchRequest.FetchPartition(partition=each, fetch_offset=0,
                                    partition_max_bytes=GIANT_BYTES, current_leader_epoch=-1)
        for each in range(PARTITIONS)])
    return frame(FETCH, FetchRequest(replica_id=-1, max_wait_ms=500, min_bytes=1,
                                     max_bytes=GIANT_BYTES, session_epoch=-1, topics=[row]))


def fill(address: str, topic: str) -> None:
    link, asked = Link(address), giant_produce(topic)
    for _ in range(FILLS):
        link.send(asked)
        link.answer()
    link.socket.close()


def is_over(wait_s: float = 0) -> bool:
    return bool(select.select([sys.stdin], [], [], wait_s)[0])


def unread(address: str, topic: str) -> None:
    asked = giant_fetch(topic)
    links = [Link(address) for _ in range(UNREAD)]
    for each in links:
        each.send(asked)
    print("ready", flush=True)
    is_over(3600)


def fetch(address: str, topic: str) -> None:
    link, asked, room = Link(address), giant_fetch(topic), bytearray(1 << 20)
    print("ready", flush=True)
    while not is_over():
        link.send(asked)
        drain(link.socket, room)


def drain(connection: socket.socket, room: bytearray) -> None:
    left = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
    while left:
        got = connection.recv_into(room, min(left, len(room)))
        if not got:
            raise ConnectionError(f"the broker closed with {left} bytes of a response left")
        left -= got


def produce(address: str, topic: str) -> None:
    link, asked = Link(address), giant_produce(topic)
    print("ready", flush=True)
    while not is_over(EVERY_S):
        link.send(asked)
        link.answer()


KINDS = {"unread": unread, "fetch": fetch, "produce": produce}


@contextmanager
def disturbed(kind: str, address: str, topic: str) -> Iterator[None]:
    words = [sys.executable, "-m", __spec__.name, kind, address, topic]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            if process.stdout.readline() != b"ready\n":
                raise RuntimeError(f"{kind}: the disturber did not begin")
            time.sleep(1.0)  # it is under way
            yield
            if process.poll() is not None:
                raise RuntimeError(f"{kind}: the disturber ended with {process.returncode}")
        finally:
            process.stdin.close()
            process.wait(60)


if __name__ == "__main__":
    KINDS[sys.argv[1]](*sys.argv[2:])
