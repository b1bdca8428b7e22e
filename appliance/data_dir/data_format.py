"""The format of a data directory, and whether this build may open it (docs/decisions/upgrade.md).

    file `format`   one line of JSON, replaced whole; a directory without it is of version 1.0
    format          major.minor: an older build of the same major opens it, another is refused
    appliance, at_ms    which build gave it this format, and when
    last            the build that opened it last, its format, and when it first did
    needs           what is in use that not every build of this major knows: its name, and the
                    version of the appliance that has it

The other files say it for themselves, too, in case this one is lost: the journal in its first
record, watermarks and clock in the last byte of their magic number, the catalog by its schema.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from appliance import __version__
from appliance._crc import crc32c
from appliance.catalog.catalog import APPLICATION_ID
from appliance.catalog.catalog import NAME as CATALOG
from appliance.catalog.schema import SCHEMA
from appliance.data_dir import durable_directories
from appliance.data_dir.promised_offsets import BEGIN, HEADER, HEADERS_AT, RECORD
from appliance.errors import ApplianceError, DataNewer, StorageFull
from appliance.machine.believed_time_file import MAGIC as CLOCK_MAGIC
from appliance.machine.believed_time_file import NAME as CLOCK
from appliance.machine.believed_time_file import SLOT_SIZE
from appliance.machine.believed_time_file import is_sound as is_sound_slot
from appliance.process import event_log, owner_only
from appliance.process.spoken import moment

events = event_log.named("log_dir")

NAME = "format"
HEAD_BYTES = 8192  # of a file of ours that says of which version it is
JOURNALS = ("checkpoint.0", "checkpoint.1")
SCHEMA_AT, PROGRAM_AT = 60, 68  # in SQLite's header: user_version, application_id
JOURNAL_VERSION = struct.Struct(">HH")
WATERMARKS, WATERMARKS_MAGIC = "watermarks", b"wtrmarks"


class FormatUnreadable(ApplianceError):
    """The file `format` is there and says nothing; the text says what to do."""

    kafka_code = 56


class Version(NamedTuple):
    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @classmethod
    def of(cls, text: str) -> Version:
        major, minor = text.split(".")
        return cls(int(major), int(minor))


FIRST = Version(1, 0)
OURS = Version(1, 1)  # the file `format`, and a version in the journal's first record
# Features that not every build of this major knows, and the version that has them first.
LOG_DIRS = {"log.dirs": "0.1.0"}
REPLICATED = {"replicated topics": "0.1.0"}
KNOWN_NEEDS = frozenset({*LOG_DIRS, *REPLICATED})


class Opened(NamedTuple):
    """By which build, and since when."""

    appliance: str
    format: str
    at_ms: int

    def __str__(self) -> str:
        return f"appliance {self.appliance} ({moment(self.at_ms)})"


@dataclass(frozen=True)
class DataFormat:
    version: Version
    by: Opened
    last: Opened
    needs: Mapping[str, str] = field(default_factory=dict)


def read(directory: Path) -> DataFormat | None:
    """None: it is of the first version, or there is nothing yet."""
    path = directory / NAME
    try:
        return _parsed(json.loads(path.read_bytes()))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FormatUnreadable(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise FormatUnreadable(
            f"{path} does not say which format the data has: {error!r}. If a newer version of the "
            "appliance was here, install that one again. If not, the file is damaged: move it "
            "elsewhere, and the other files are asked"
        ) from error


def _parsed(told: dict[str, Any]) -> DataFormat:
    by = _opened(told)
    last = _opened(told["last"]) if "last" in told else by
    return DataFormat(Version.of(by.format), by, last, dict(told.get("needs", {})))


def _opened(told: dict[str, Any]) -> Opened:
    return Opened(str(told.get("appliance", "?")), str(told["format"]), int(told.get("at_ms", 0)))


def check(directory: Path) -> DataFormat | None:
    """Before anything is written. Raises what is refused."""
    found = read(directory)
    if found is not None and found.version.major > OURS.major:
        raise DataNewer.of(f"{directory}: its data", found.version, OURS, str(found.by))
    needs = {} if found is None else found.needs
    if unknown := sorted(needs.keys() - KNOWN_NEEDS):
        told = ", ".join(f"{name} (since {needs[name]})" for name in unknown)
        raise DataNewer(f"{directory}: its data needs what this appliance does not know: {told}")
    for each in versions_of_files(directory):
        if each.is_newer:
            raise DataNewer.of(str(each.path), each.version, each.known)
    return found


def is_of_newer(directory: Path) -> bool:
    """Whether a newer minor version was here: what we do not know is not to be removed."""
    found = read(directory)
    return found is not None and found.version > OURS


def take(directory: Path, now_ms: int, needs: Mapping[str, str] | None = None) -> DataFormat:
    """Whoever holds the lock opens it for writing: from now on it has at least our format. On disk
    when this returns, before anything is migrated. `needs` None: as they are."""
    found, us = read(directory), Opened(__version__, str(OURS), now_ms)
    if needs is None:
        needs = {} if found is None else found.needs
    if found is None or found.version < OURS:
        made = DataFormat(OURS, us, us, needs)
    elif found.last[:2] != us[:2] or found.needs != needs:
        made = DataFormat(found.version, found.by, us, needs)
    else:
        return found
    try:
        _write(directory, made)
    except StorageFull as error:
        known = FIRST if found is None else found.version
        if known.major < OURS.major or needs.keys() - (found.needs.keys() if found else set()):
            raise  # an older build would open what it must not
        events.warning("the format of the data is not noted yet, the next start tries again",
                       error=error)  # fmt: skip
    return made


def _write(directory: Path, made: DataFormat) -> None:
    told: dict[str, Any] = {
        "format": str(made.version), "appliance": made.by.appliance, "at_ms": made.by.at_ms,
        "last": made.last._asdict(), "needs": dict(made.needs),
    }  # fmt: skip
    path, fresh = directory / NAME, directory / f"{NAME}.new"
    try:
        owner_only.write(fresh, json.dumps(told).encode() + b"\n")
        with fresh.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(fresh, path)
        durable_directories.sync_name(directory)
    except OSError as error:
        raise durable_directories.storage_error(error, f"{path} cannot be written") from error


# What the files say


class FileVersion(NamedTuple):
    path: Path
    version: str
    known: str
    is_newer: bool


def versions_of_files(directory: Path) -> Iterator[FileVersion]:
    """Of those that are there and say it. A change of the catalog that is in its log alone is seen
    when it is opened."""
    data = head(directory / CATALOG)
    if data[PROGRAM_AT : PROGRAM_AT + 4] == APPLICATION_ID.to_bytes(4, "big"):
        schema = int.from_bytes(data[SCHEMA_AT : SCHEMA_AT + 4], "big")
        is_newer = schema > len(SCHEMA)
        yield FileVersion(directory / CATALOG, str(schema), str(len(SCHEMA)), is_newer)
    for name in JOURNALS:
        version = of_journal(head(directory / name))
        if version is not None:
            # of a newer minor version an older build passes over what it does not know
            is_newer = version.major > OURS.major
            yield FileVersion(directory / name, str(version), str(OURS), is_newer)
    for name, magic, known, ats, is_sound in OF_MAGIC:
        data = head(directory / name)
        for at in ats:
            part = data[at:]
            if part[:7] == magic[:7] and is_sound(part):
                number = known + part[7] - magic[7]
                yield FileVersion(directory / name, str(number), str(known), number > known)


def head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(HEAD_BYTES)
    except OSError:
        return b""  # who opens it for good tells why it cannot


def of_journal(data: bytes) -> Version | None:
    """None: it is of the first version, or damaged."""
    if len(data) < RECORD.size:
        return None
    size, crc, _, sequence, kind = RECORD.unpack_from(data)
    end = RECORD.size - 1 + size
    if (sequence, kind) != (0, BEGIN) or end > len(data) or crc != crc32c(data[8:end]):
        return None
    payload = data[RECORD.size : end]
    return Version(*JOURNAL_VERSION.unpack_from(payload)) if len(payload) >= 4 else None


def is_sound_header(data: bytes) -> bool:
    """Of the watermarks."""
    if len(data) < HEADER.size:
        return False
    *_, crc = HEADER.unpack_from(data)
    return bool(crc == crc32c(data[: HEADER.size - 4]))


# The last byte of a magic number counts versions, and one with a wrong checksum is damage.
OF_MAGIC = (
    (WATERMARKS, WATERMARKS_MAGIC, 1, HEADERS_AT, is_sound_header),
    (CLOCK, CLOCK_MAGIC, 2, (0, SLOT_SIZE), is_sound_slot),
)
