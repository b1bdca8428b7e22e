"""What the machine itself gives: the columns that no broker can pass."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from appliance import _crc

CHUNK = bytes(1 << 20)
CHUNKS = 512
SYNCS = 200


def written(folder: Path) -> float:
    """MB/s of pwrite into the page cache, 1 MiB at a time, into a file that is new."""
    with open(folder / "written", "wb", buffering=0) as file:
        begin = time.perf_counter()
        for each in range(CHUNKS):
            os.pwrite(file.fileno(), CHUNK, each * len(CHUNK))
        took = time.perf_counter() - begin
    os.unlink(folder / "written")
    return CHUNKS * len(CHUNK) / took / 1e6


def on_disk(folder: Path) -> float:
    """MB/s of the same with fdatasync at the end."""
    with open(folder / "synced", "wb", buffering=0) as file:
        begin = time.perf_counter()
        for each in range(CHUNKS):
            os.pwrite(file.fileno(), CHUNK, each * len(CHUNK))
        os.fdatasync(file.fileno())
        took = time.perf_counter() - begin
    os.unlink(folder / "synced")
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


LIMITS: dict[str, Callable[[Path], float]] = {
    "pwrite, MB/s": written, "pwrite and fdatasync, MB/s": on_disk,
    "fdatasync of 4 KiB, us": one_sync, "loopback TCP, MB/s": loopback, "CRC-32C, MB/s": crc,
}


def measured(directory: Path | None, rounds: int) -> dict[str, list[float]]:
    with tempfile.TemporaryDirectory(dir=directory) as name:
        return {each: [limit(Path(name)) for _ in range(rounds)] for each, limit in LIMITS.items()}
