"""The steps of `appliance uninstall`: units go, data and settings stay or are purged."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from appliance.data_dir import data_marker, directory_id
from appliance.installation import settings_file, units
from appliance.installation.installation import CATALOG, NotInstalled, Step, log_dirs_of
from appliance.installation.paths import DATA_DIR, Place

LOCK = "lock"


def data_of(place: Place) -> Path:
    path = place.settings
    there = settings_file.values_in(path) if path.exists() else {}
    found: Path = there.get("data.dir", DATA_DIR)
    return found


def uninstall(place: Place, purges: bool = False) -> Iterator[Step]:
    """Data and settings stay, unless they are to go."""
    if place.is_machine and os.geteuid():
        raise NotInstalled("units are root's: sudo appliance uninstall")
    data_dir = data_of(place)
    log_dirs = log_dirs_of(place, data_dir) if place.settings.exists() else []
    found = units.installed(place)  # none after an uninstall before
    if found and place.is_machine and units.is_running():
        units.tell("disable", "--now", *found)
        yield Step("stopped", "broker, exports, backups and disk watch")
    files = [place.units / each for each in units.names()]
    for path in (*files, units.data_file(place), place.users):
        yield from removed(path)
    folder = units.data_file(place).parent
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()  # what `systemctl edit` wrote stays
    if place.is_machine and units.is_running():
        units.tell("daemon-reload")
    if purges:
        yield from _purged(place, data_dir, log_dirs)
    else:
        yield from _left(place, [data_dir, *log_dirs])


def removed(path: Path) -> Iterator[Step]:
    if path.exists():
        path.unlink()
        yield Step("removed", str(path))


def _left(place: Place, directories: Iterable[Path]) -> Iterator[Step]:
    for path in (place.settings, *(place.below(each) for each in directories)):
        if path.exists():
            yield Step("kept", str(path))


def _purged(place: Place, data_dir: Path, log_dirs: Iterable[Path]) -> Iterator[Step]:
    path = place.below(data_dir)
    if path.exists():
        check_ours(path)
    for each in log_dirs:
        # One without an id is none of a broker's: not mounted, or never used.
        if (place.below(each) / directory_id.NAME).exists():
            if is_in_use(place.below(each)):
                raise NotInstalled(f"a broker has {each} open: stop it first")
            _emptied(place.below(each))
            yield Step("removed", str(each))
    if path.exists():
        _emptied(path)
        yield Step("removed", str(data_dir))
    if place.settings.parent.exists():
        shutil.rmtree(place.settings.parent)
        yield Step("removed", str(place.settings.parent))


def _emptied(path: Path) -> None:
    """And removed, unless it is where a file system is mounted."""
    if not path.is_mount():
        shutil.rmtree(path)
        return
    for each in path.iterdir():
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each)
        else:
            each.unlink()


def check_ours(path: Path) -> None:
    """A wrong line in the settings must not delete somebody's folder."""
    if not data_marker.read(path) and not (path / CATALOG).exists():
        raise NotInstalled(f"{path} is no data directory: it has no marker and no {CATALOG}")
    if is_in_use(path):
        raise NotInstalled(f"a broker has {path} open: stop it first")


def is_in_use(path: Path) -> bool:
    lock = path / LOCK
    if not lock.exists():
        return False
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
