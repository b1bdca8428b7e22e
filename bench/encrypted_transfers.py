"""Producing and consuming over TLS beside Apache Kafka: what it took, and which side was busy.

The client is kcat (librdkafka), or one that costs little (`encrypted_client.py`); several of them
have a partition each. kcat consumes by count: at the end of a partition it would wait half a second
for more.
"""

from __future__ import annotations

import resource
import socket
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.busy_threads import BusyThreads
from bench.encrypted_client import RECORD_BYTES
from bench.peers.brokers import Broker

KCAT, FRAMES = "kcat", "frames"
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 7, -1)
Figures = dict[str, float]
Client = subprocess.Popen[bytes]


class Peer(Broker):
    """A broker that runs, with its addresses by protocol."""

    def __init__(self, name: str, pid: int, addresses: Mapping[str, str], ca: Path) -> None:
        self.name, self.pid, self.addresses, self.ca = name, pid, addresses, ca
        self.address = addresses["PLAINTEXT"]

    def kcat(self, protocol: str) -> list[str]:
        trust = ["-X", f"ssl.ca.location={self.ca}"] if protocol == "SSL" else []
        return ["kcat", "-b", self.addresses[protocol], "-X", f"security.protocol={protocol}",
                *trust]

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.ca))

    def connect(self, context: ssl.SSLContext, session: ssl.SSLSession | None) -> ssl.SSLSocket:
        """With one answer, behind which a TLS 1.3 ticket has come."""
        host, _, port = self.addresses["SSL"].rpartition(":")
        plain = socket.create_connection((host, int(port)))
        line = context.wrap_socket(plain, server_hostname="localhost", session=session)
        line.sendall(API_VERSIONS)
        line.recv(65536)
        return line


@dataclass
class Load:
    """What is sent: by how many clients, how many records by each. `file` has them for kcat."""

    file: Path
    records: int
    client: str = KCAT
    clients: int = 1

    def begin(self, peer: Peer, protocol: str, what: str, topic: str) -> list[Client]:
        """All of them; those that cost little wait for the end of their input."""
        begun = [self._client(peer, protocol, what, topic, number)
                 for number in range(self.clients)]
        for each in begun if self.client == FRAMES else ():
            assert each.stdout is not None
            each.stdout.readline()
        return begun

    def _client(self, peer: Peer, protocol: str, what: str, topic: str, number: int) -> Client:
        if self.client == KCAT:
            own = {"produce": ["-P", "-X", "acks=1", "-X", "linger.ms=5", "-l", str(self.file)],
                   "consume": ["-C", "-o", "beginning", "-c", str(self.records), "-q"]}[what]
            words = [*peer.kcat(protocol), own[0], "-t", topic, "-p", str(number), *own[1:]]
            return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        ca = str(peer.ca) if protocol == "SSL" else ""
        words = [sys.executable, "-m", "bench.encrypted_client", what, peer.addresses[protocol],
                 ca, topic, str(number), str(self.records)]
        return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def transfer(peer: Peer, protocol: str, topic: str, load: Load) -> Figures:
    peer.create_topic(topic, load.clients, {})
    figures: Figures = {}
    for what in ("produce", "consume"):
        own = children()
        begun = load.begin(peer, protocol, what, topic)
        found = measured(peer, begun, load.clients * load.records)
        gigabytes = load.clients * load.records * RECORD_BYTES / 1e9
        found["client's cpu s/GB"] = (children() - own) / gigabytes
        figures |= {f"{what} {name}": value for name, value in found.items()}
    peer.delete_topic(topic)  # what stays would be written to the disk during other transfers
    return figures


def measured(peer: Peer, clients: Sequence[Client], records: int) -> Figures:
    cpu, began = peer.cpu_seconds(), time.monotonic()
    with BusyThreads([peer.pid]) as ours, BusyThreads([each.pid for each in clients]) as theirs:
        for each in clients:
            if each.stdin is not None:
                each.stdin.close()
        for each in clients:
            if each.wait(600):
                raise RuntimeError(f"{each.args!r} ended with {each.returncode}")
            if each.stdout is not None:
                each.stdout.close()
    took, gigabytes = time.monotonic() - began, records * RECORD_BYTES / 1e9
    figures = {"records/s": records / took, "cpu s/GB": (peer.cpu_seconds() - cpu) / gigabytes}
    for name, side in (("busiest thread", ours), ("client's busiest thread", theirs)):
        found = side.busiest()
        figures |= {f"{name} s/GB": found.run_s / gigabytes, f"{name} sleeps %": found.sleeps}
    return figures


def children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
