"""Secrets in files: one line, and only the file's owner may read it.

They are read again for every alert, so that a new one needs no restart, and are in no message, log
or answer.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.process.owner_only import UMASK

BYTES_MAX = 4096


class SecretUnusable(ApplianceError):
    """The text says which file, and what to do."""

    kafka_code = 40


def read(setting: str, path: Path) -> str:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            found = os.fstat(file.fileno())
            data = file.read(BYTES_MAX + 1) if stat.S_ISREG(found.st_mode) else b""
    except OSError as error:
        raise SecretUnusable(f"{setting}: {path}: {error.strerror or error}") from error
    if not stat.S_ISREG(found.st_mode):
        raise SecretUnusable(f"{setting}: {path} is no file")
    if found.st_mode & UMASK:
        mode = stat.S_IMODE(found.st_mode)
        raise SecretUnusable(
            f"{setting}: {path} has mode {mode:04o}, and others may use it; wanted 0600: "
            f"`chmod 600 {path}`"
        )
    try:
        text = data.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        text = ""
    if not text or len(data) > BYTES_MAX or not text.isprintable():
        raise SecretUnusable(f"{setting}: {path}: wanted one line of at most {BYTES_MAX} bytes")
    return text
