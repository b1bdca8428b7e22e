"""`directory.id` in a directory of records: which one it is, wherever it is mounted.

An empty mount point has the right path and no id. A directory that the catalog knows is opened only
with the id that it had; otherwise its partitions are away, and are not made anew.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from appliance.catalog import kafka_uuid
from appliance.data_dir import durable_directories
from appliance.data_dir.durable_directories import storage_error
from appliance.data_dir.partition_names import partitions_in
from appliance.errors import ApplianceError
from appliance.process import owner_only

NAME = "directory.id"
CATALOG = "catalog.db"


class DirectoryUnknown(ApplianceError):
    """A directory that is not the one that the broker knows; the text says what to do."""

    kafka_code = 56


def read(directory: Path) -> str:
    """"": there is none. A disk that cannot read it raises."""
    try:
        return (directory / NAME).read_text().strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise storage_error(error, f"{directory / NAME} cannot be read") from error


def give(directory: Path) -> str:
    """A new one, on disk afterwards."""
    made = kafka_uuid.text_of(kafka_uuid.new())
    path = directory / NAME
    part = path.with_suffix(".new")
    try:
        owner_only.write(part, f"{made}\n".encode())
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.rename(path)
        durable_directories.sync_name(directory)
    except OSError as error:
        raise storage_error(error, f"{path} cannot be written") from error
    return made


def of(directory: Path, known: Mapping[str, str], may_hold_records: bool) -> str:
    """The id of a directory, which may be new; before anything else is written there. `known`: the
    paths of those that there were, by id. `may_hold_records`: it may have some without an id."""
    expected = next((each for each, path in known.items() if path == str(directory)), "")
    if not directory.exists():
        if expected:
            raise DirectoryUnknown(f"{directory} is not there; its id was {expected}. {MOUNTED}")
        durable_directories.make(directory)
    found = read(directory)
    if found in known or (found and not known):
        return found
    if found:
        raise DirectoryUnknown(
            f"{directory} has the id {found}, which is none of this broker's: it is another "
            f"broker's directory, or another disk. {MOUNTED}"
        )
    if expected:
        raise DirectoryUnknown(f"{directory} has no {NAME}, wanted {expected} in it. {MOUNTED}")
    if not may_hold_records:
        _check_new(directory)
    return give(directory)


MOUNTED = "Is its file system mounted? `findmnt` says what is there"


def _check_new(directory: Path) -> None:
    try:
        held = sorted(name for _, _, name in partitions_in(directory))
    except OSError as error:
        raise storage_error(error, f"{directory} cannot be read") from error
    if held or (directory / CATALOG).exists():
        what = f"{len(held)} partitions ({', '.join(held[:3])})" if held else CATALOG
        raise DirectoryUnknown(
            f"{directory} is new to this broker and holds {what} already: a new directory of "
            "log.dirs is to be empty"
        )
