"""The cost of a job in a broker's process: processor time, memory, disk."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.peers.brokers import Broker

# The calls that wait for the disk. sync_file_range is not one: it only starts to write. Kafka syncs
# its mapped index files with msync.
SYNCS = ("fsync", "fdatasync", "syncfs", "msync")
NOT_COUNTED = "<not counted>"  # perf says this of a process that did not run meanwhile
PATIENCE_S = 30  # for perf
TRACE = Path("/sys/kernel/tracing/events/syscalls")


@dataclass
class Cost:
    cpu_seconds: float = 0
    clients_cpu_seconds: float = 0
    written_bytes: int = 0
    peak_resident_bytes: int = 0
    syncs: int | None = None  # None: not counted

    def per_byte(self, moved: int) -> dict[str, float | None]:
        """The figures of a case that moved this many bytes of records."""
        gigabytes = moved / 1e9
        return {"cpu s/GB": self.cpu_seconds / gigabytes,
                "client's cpu s/GB": self.clients_cpu_seconds / gigabytes,
                "peak resident MB": self.peak_resident_bytes / 1e6,
                "written bytes/byte": self.written_bytes / moved,
                "syncs/GB": None if self.syncs is None else self.syncs / gigabytes}


@contextmanager
def measured(broker: Broker) -> Iterator[Cost]:
    """The cost is complete after the block."""
    cost = Cost()
    broker.forget_peak()
    cpu, clients = broker.cpu_seconds(), clients_cpu_seconds()
    written = written_bytes(broker.pids)
    counter = SyncCounter(broker.pids) if SyncCounter.works() else None
    try:
        yield cost
    finally:
        # before the counter ends, which would count as a client
        cost.clients_cpu_seconds = clients_cpu_seconds() - clients
        cost.syncs = counter.stop() if counter else None
    cost.cpu_seconds = broker.cpu_seconds() - cpu
    cost.written_bytes = written_bytes(broker.pids) - written
    cost.peak_resident_bytes = broker.peak_resident_bytes()


def clients_cpu_seconds() -> float:
    """The sum of all child processes that have ended; the broker still runs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def written_bytes(pids: Sequence[int]) -> int:
    """The bytes that the processes wrote to the disk, or to pages that will be written back."""
    return sum(map(written_by, pids))


def written_by(pid: int) -> int:
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        if line.startswith("write_bytes"):
            return int(line.split()[1])
    raise ValueError(f"/proc/{pid}/io has no write_bytes")


class SyncCounter:
    """perf counts the calls in the kernel, without a visible cost for the broker.

    The constructor waits until perf confirms that it counts: an earlier signal, as after a turn
    that is shorter than perf's start, would end perf without output.
    """

    def __init__(self, pids: Sequence[int]) -> None:
        events = ",".join(f"syscalls:sys_enter_{each}" for each in SYNCS)
        ours, its = socket.socketpair()
        ours.settimeout(PATIENCE_S)
        with ours:
            with its:
                self._process = subprocess.Popen(
                    ["perf", "stat", "-x,", "-e", events, "-p", ",".join(map(str, pids)),
                     "--delay=-1",
                     f"--control=fd:{its.fileno()},{its.fileno()}"],
                    stderr=subprocess.PIPE, text=True, pass_fds=[its.fileno()])
            try:
                ours.sendall(b"enable\n")
                ours.recv(len(b"ack\n"))
            except OSError:  # perf ended without reading, or does not respond
                self._process.kill()
                output = self._process.communicate()[1]
                raise RuntimeError(f"perf does not count: {output}") from None

    @staticmethod
    def works() -> bool:
        return os.geteuid() == 0 and shutil.which("perf") is not None and TRACE.is_dir()

    def stop(self) -> int | None:
        self._process.send_signal(signal.SIGINT)
        output = self._process.communicate(timeout=PATIENCE_S)[1]
        counts = [line.split(",")[0] for line in output.splitlines() if "sys_enter" in line]
        if len(counts) == len(SYNCS) and NOT_COUNTED in counts:
            return None
        if len(counts) != len(SYNCS) or not all(each.isdigit() for each in counts):
            raise RuntimeError(f"perf counted no syncs: {output}")
        return sum(int(each) for each in counts)
