"""Creates, syncs and removes directories, and translates the kernel's errors."""

from __future__ import annotations

import errno
import itertools
import os
import re
import shutil
from pathlib import Path

from appliance.errors import ApplianceError, FilesExhausted, StorageFull, StorageIoFailed
from appliance.process import event_log
from appliance.process.owner_only import DIRECTORY_MODE
from appliance.process.spoken import read_only

events = event_log.named("log_dir")

DELETED = "deleted"  # created at the start: a full disk has no block for a new directory
ORPHANS = "orphans"
FORGOTTEN = ".forgotten"  # behind a deleted log whose files could not be removed
UNSETTLED = ".unsettled"  # behind an orphan whose former name the journal may still have


def make(path: Path) -> None:
    if path.exists():
        return
    try:
        path.mkdir(DIRECTORY_MODE, parents=True)
        sync_name(path.parent)
    except OSError as error:
        if error.errno == errno.EROFS:
            raise StorageIoFailed(read_only(str(path))) from error
        raise storage_error(error, f"{path} cannot be made") from error


def sync_name(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def storage_error(error: OSError, doing: str) -> ApplianceError:
    kinds = {errno.ENOSPC: StorageFull, errno.EDQUOT: StorageFull,
             errno.EMFILE: FilesExhausted, errno.ENFILE: FilesExhausted}
    kind = kinds.get(error.errno or 0, StorageIoFailed)
    return kind(f"{doing}: {error.strerror}")


def is_being_set_aside(directory: Path, name: str) -> bool:
    """Whether the partition was on its way to the orphans. One that has long been there says
    nothing of the partition that has its name now."""
    way = re.compile(rf"{re.escape(name)}(\.\d+)?{re.escape(UNSETTLED)}")
    return any(way.fullmatch(each.name) for each in (directory / ORPHANS).glob(f"{name}*"))


def come_to_rest(orphan: Path) -> None:
    """The journal has forgotten its former name."""
    try:
        orphan.rename(orphan.with_name(orphan.name.removesuffix(UNSETTLED)))
    except OSError as error:
        events.warning("a log that is set aside has not got its name yet", path=orphan, error=error)


def remove(directory: Path) -> None:
    """Removes the files of a deleted log; the next start removes those that fail now."""
    try:
        shutil.rmtree(directory)
    except OSError as error:
        events.warning("files of a deleted log are not removed yet", path=directory, error=error)


def bury(grave: Path) -> None:
    """Removes the files of a deleted log of which the journal knows no more. What stays gets a name
    that no log has: the loss of the next log of this name must not pass for that deletion."""
    remove(grave)
    names = (grave.with_name(f"{grave.name}.{each}{FORGOTTEN}") for each in itertools.count())
    try:
        if grave.exists() and not grave.name.endswith(FORGOTTEN):
            grave.rename(next(each for each in names if not each.exists()))
    except OSError as error:
        events.warning("a deleted log has kept its name", path=grave, error=error)
