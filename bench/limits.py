"""The limits of the machine, and the share of a limit that a broker reaches."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from appliance import _crc

CHUNK = bytes(1 << 20)
CHUNKS = 512
SYNCS = 200


def written(folder: Path) -> float:
    """MB/s of pwrite into the page cache, 1 MiB at a time, into a new file."""
    with open(folder / "written", "wb", buffering=0) as file:
        begin = time.perf_counter()
        for each in range(CHUNKS):
            os.pwrite(file.fileno(), CHUNK, each * len(CHUNK))
        took = time.perf_counter() - begin
    os.unlink(folder / "written")
    return CHUNKS * len(CHUNK) / took / 1e6


def on_disk(folder: Path) -> float:
    """MB/s of the same pwrite with fdatasync at the end."""
    with open(folder / "synced", "wb", buffering=0) as file:
        begin = time.perf_counter()
        for each in range(CHUNKS):
            os.pwrite(file.fileno(), CHUNK, each * len(CHUNK))
        os.fdatasync(file.fileno())
        took = time.perf_counter() - begin
    os.unlink(folder / "synced")
    return CHUNKS * len(CHUNK) / took / 1e6


def cold(folder: Path) -> float:
    """MB/s of pread, 1 MiB at a time, from a file outside the page cache."""
    with open(folder / "cold", "w+b", buffering=0) as file:
        for each in range(CHUNKS):
            os.pwrite(file.fileno(), CHUNK, each * len(CHUNK))
        os.fdatasync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        begin = time.perf_counter()
        for each in range(CHUNKS):
            os.pread(file.fileno(), len(CHUNK), each * len(CHUNK))
        took = time.perf_counter() - begin
    os.unlink(folder / "cold")
    return CHUNKS * len(CHUNK) / took / 1e6


def one_sync(folder: Path) -> float:
    """Microseconds of one fdatasync after 4 KiB."""
    with open(folder / "sync", "wb", buffering=0) as file:
        begin = time.perf_counter()
        for each in range(SYNCS):
            os.pwrite(file.fileno(), CHUNK[:4096], each * 4096)
            os.fdatasync(file.fileno())
        took = time.perf_counter() - begin
    os.unlink(folder / "sync")
    return took / SYNCS * 1e6


def loopback(folder: Path) -> float:
    """MB/s from one thread to another through a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = socket.create_connection(server.getsockname())
        receiver, _ = server.accept()
    thread = threading.Thread(target=lambda: [sender.sendall(CHUNK) for _ in range(CHUNKS)])
    buffer, left = bytearray(1 << 20), CHUNKS * len(CHUNK)
    begin = time.perf_counter()
    thread.start()
    while left:
        left -= receiver.recv_into(buffer)
    took = time.perf_counter() - begin
    thread.join()
    sender.close()
    receiver.close()
    return CHUNKS * len(CHUNK) / took / 1e6


def crc(folder: Path) -> float:
    """MB/s of CRC-32C over 64 KiB."""
    block = CHUNK[:1 << 16]
    begin = time.perf_counter()
    for _ in range(CHUNKS * 16):
        _crc.crc32c(block)
    return CHUNKS * 16 * len(block) / (time.perf_counter() - begin) / 1e6


WRITTEN, ON_DISK, COLD = "pwrite, MB/s", "pwrite and fdatasync, MB/s", "cold read, MB/s"
ONE_SYNC, LOOPBACK, CRC = "fdatasync of 4 KiB, us", "loopback TCP, MB/s", "CRC-32C, MB/s"
LIMITS: dict[str, Callable[[Path], float]] = {
    WRITTEN: written, ON_DISK: on_disk, COLD: cold, ONE_SYNC: one_sync, LOOPBACK: loopback,
    CRC: crc,
}


@dataclass(frozen=True)
class Limit:
    """For a rate: the part of the machine it uses, and the use per record or request."""

    name: str
    each: float = 1  # bytes, or syncs

    @property
    def is_bandwidth(self) -> bool:
        """No other limit holds for all: one sync serves many."""
        return self.name.endswith("MB/s")

    def share(
        self, rates: Sequence[float], measured: Mapping[str, Sequence[float]]
    ) -> float | None:
        """None if the limit was not measured. More than 1 is possible if one sync serves many."""
        if self.name not in measured or not rates:
            return None
        given = median(measured[self.name])
        possible = given * 1e6 if self.is_bandwidth else 1e6 / given
        return median(rates) * self.each / possible


def measured(directory: Path | None, rounds: int) -> dict[str, list[float]]:
    with tempfile.TemporaryDirectory(dir=directory) as name:
        return {each: [limit(Path(name)) for _ in range(rounds)] for each, limit in LIMITS.items()}
