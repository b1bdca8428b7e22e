"""The marker of a data directory: a file by which a broker knows that it is its own.

Where a file system is not mounted, its mount point is an empty directory on the system's disk. A
broker that wrote there would find none of its records, give old offsets again, and fill that disk.
So the settings name a marker (`data.marker`), `appliance install` writes it into the directory, and
a start without it is refused.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from appliance.data_dir import durable_directories
from appliance.errors import ApplianceError
from appliance.process.owner_only import FILE_MODE

NAME = "marker"


class DataDirUnknown(ApplianceError):
    """A data directory without the marker of this broker; the text says which and what to do."""


def new() -> str:
    return secrets.token_hex(8)


def write(directory: Path, marker: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with open(os.open(directory / NAME, flags, FILE_MODE), "w") as file:
        file.write(f"{marker}\n")
        file.flush()
        os.fsync(file.fileno())
    durable_directories.sync_name(directory)


def read(directory: Path) -> str:
    """"": there is none. A disk that cannot read it raises: that is not the same."""
    try:
        return (directory / NAME).read_text().strip()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def check(directory: Path, wanted: str) -> None:
    """Before anything is written. `wanted` "": no marker was set."""
    if not wanted:
        return
    try:
        found = read(directory)
    except OSError as error:
        raise DataDirUnknown(f"{directory / NAME} cannot be read: {error.strerror}") from error
    if found != wanted:
        has = f"the marker {found}" if found else "no marker"
        raise DataDirUnknown(
            f"{directory} has {has}, wanted {wanted} (data.marker): it is not the data directory "
            "of this broker. Is its file system mounted? `findmnt --target "
            f"{directory}` says what is there. If the broker is to begin here, or a backup was "
            f"restored here: appliance install --data-dir {directory} --new-data-dir"
        )
