"""What a job takes of a broker's process: processor, memory, disk."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.peers.brokers import Broker

# What waits until it is on disk: with sync_file_range, which only begins to write, nobody does. A
# mapped file is synced by msync, as Kafka's indexes are.
SYNCS = ("fsync", "fdatasync", "syncfs", "msync")
NOT_COUNTED = "<not counted>"  # by perf, of a process that had no processor meanwhile
PATIENCE_S = 30  # with perf
TRACE = Path("/sys/kernel/tracing/events/syscalls")


@dataclass
class Cost:
    cpu_seconds: float = 0
    clients_cpu_seconds: float = 0
    written_bytes: int = 0
    peak_resident_bytes: int = 0
    syncs: int | None = None  # None: nobody has counted them

    def per_byte(self, moved: int) -> dict[str, float | None]:
        """As figures of a case that moved so many bytes of records."""
        gigabytes = moved / 1e9
        return {"cpu s/GB": self.cpu_seconds / gigabytes,
                "client's cpu s/GB": self.clients_cpu_seconds / gigabytes,
                "peak resident MB": self.peak_resident_bytes / 1e6,
                "written bytes/byte": self.written_bytes / moved,
                "syncs/GB": None if self.syncs is None else self.syncs / gigabytes}


@contextmanager
def measured(broker: Broker) -> Iterator[Cost]:
    """Complete when the block has ended."""
    cost = Cost()
    broker.forget_peak()
    cpu, clients = broker.cpu_seconds(), clients_cpu_seconds()
    written = written_bytes(broker.pid)
    counter = SyncCounter(broker.pid) if SyncCounter.works() else None
    try:
        yield cost
    finally:
        # before the counter ends: it would count as a client
        cost.clients_cpu_seconds = clients_cpu_seconds() - clients
        cost.syncs = counter.stop() if counter else None
    cost.cpu_seconds = broker.cpu_seconds() - cpu
    cost.written_bytes = written_bytes(broker.pid) - written
    cost.peak_resident_bytes = broker.peak_resident_bytes()


def clients_cpu_seconds() -> float:
    """Of all that have ended; a broker has not."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def written_bytes(pid: int) -> int:
    """What it has made the disk write, or will once its pages are written back."""
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        if line.startswith("write_bytes"):
            return int(line.split()[1])
    raise ValueError(f"/proc/{pid}/io has no write_bytes")


class SyncCounter:
    """perf counts the calls in the kernel, which costs the broker nothing that shows.

    It counts from the moment when it says so, and that is waited for: a signal that reaches it
    before would end it with nothing said, as in a turn shorter than perf's own start.
    """

    def __init__(self, pid: int) -> None:
        events = ",".join(f"syscalls:sys_enter_{each}" for each in SYNCS)
        ours, its = socket.socketpair()
        ours.settimeout(PATIENCE_S)
        with ours:
            with its:
                self._process = subprocess.Popen(
                    ["perf", "stat", "-x,", "-e", events, "-p", str(pid), "--delay=-1",
                     f"--control=fd:{its.fileno()},{its.fileno()}"],
                    stderr=subprocess.PIPE, text=True, pass_fds=[its.fileno()])
            try:
                ours.sendall(b"enable\n")
                ours.recv(len(b"ack\n"))
            except OSError:  # it ended with the order unread, or says nothing
                self._process.kill()
                told = self._process.communicate()[1]
                raise RuntimeError(f"perf does not count: {told}") from None

    @staticmethod
    def works() -> bool:
        return os.geteuid() == 0 and shutil.which("perf") is not None and TRACE.is_dir()

    def stop(self) -> int | None:
        self._process.send_signal(signal.SIGINT)
        told = self._process.communicate(timeout=PATIENCE_S)[1]
        counts = [line.split(",")[0] for line in told.splitlines() if "sys_enter" in line]
        if len(counts) == len(SYNCS) and NOT_COUNTED in counts:
            return None
        if len(counts) != len(SYNCS) or not all(each.isdigit() for each in counts):
            raise RuntimeError(f"perf counted no syncs: {told}")
        return sum(int(each) for each in counts)
