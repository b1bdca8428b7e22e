"""A log in forty lines with switches for two classic faults, to test the enumerator."""

from __future__ import annotations

import os
import sys
import zlib
from pathlib import Path

from .trace import Recorder

RECORDS_PER_SEGMENT = 3


def sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(fd)
    os.close(fd)


def write(root: Path, mistake: str) -> None:
    recorder = Recorder()
    for number in range(8):
        body = f"{number} ".encode() * 200
        frame = len(body).to_bytes(4, "big") + zlib.crc32(body).to_bytes(4, "big") + body
        path = root / f"{number // RECORDS_PER_SEGMENT:04}"
        is_new = not path.exists()
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(fd, frame)
        if mistake == "ack before sync":
            recorder.note({"durable": number})
        os.fsync(fd)
        os.close(fd)
        if is_new and mistake != "no directory sync":
            sync_directory(root)
        recorder.note({"durable": number})


def read(root: Path) -> list[int]:
    """The numbers of the intact records, up to the first damage."""
    found: list[int] = []
    for path in sorted(root.iterdir()):
        data = path.read_bytes()
        while data:
            size, crc, body = (
                int.from_bytes(data[:4], "big"),
                int.from_bytes(data[4:8], "big"),
                data[8:],
            )
            number = len(found)
            if (
                len(body) < size
                or not size
                or zlib.crc32(body[:size]) != crc
                or int(body.split()[0]) != number
            ):
                return found
            found.append(number)
            data = body[size:]
    return found


if __name__ == "__main__":
    write(Path(sys.argv[1]), sys.argv[2])
