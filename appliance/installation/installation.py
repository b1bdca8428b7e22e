"""The steps of `appliance install`.

Each step says what it did. A second run changes nothing but what an older version wrote. What a
person may have changed stays: the settings but for the lines of the data directory, and all data.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from appliance.config.names import NO_PATHS
from appliance.data_dir import data_marker
from appliance.errors import ApplianceError
from appliance.installation import settings_file, system_users, units
from appliance.installation.paths import DATA_DIR, Place
from appliance.machine import expected_mounts
from appliance.machine.kernel_files import THIS_MACHINE

SETTINGS_MODE, DATA_MODE, FOLDER_MODE = 0o640, 0o700, 0o755
WATCH_FILE = Path("/var/lib/appliance-disk-watch/report.json")
SMARTCTL = "usr/sbin/smartctl"
CATALOG = "catalog.db"
HIDDEN = ("/root", "/home", "/run/user", "/tmp", "/var/tmp")  # ProtectHome=, PrivateTmp=


class NotInstalled(ApplianceError):
    """What stands in the way of an installation or of its end; the text says what to do."""


class Step(NamedTuple):
    did: Literal[
        "made", "changed", "kept", "removed", "started", "restarted", "stopped", "failed"
    ]
    what: str


@dataclass(frozen=True)
class Wish:
    place: Place
    command: Path  # by its whole path, as units have it
    data_dir: Path | None = None  # None: as the settings have it
    may_begin: bool = False  # in a directory without the marker
    starts: bool = False
    restarts: bool = False  # what runs of broker and export scheduler


def install(wish: Wish) -> Iterator[Step]:
    place = wish.place
    check(wish)
    yield put(place.users, system_users.FILE)
    system_users.make(place)
    values = settled(wish)
    yield settings_written(place, values)
    data_dir: Path = values["data.dir"]
    yield data_directory(wish, data_dir, values["data.marker"])
    of_broker = []
    for name, text in units.texts(wish.command):
        step = put(place.units / name, text)
        of_broker += [step] if name == units.BROKER else []
        yield step
    log_dirs = log_dirs_of(place, data_dir)
    for each in log_dirs:
        yield record_directory(wish, each)
    of_broker.append(put(units.data_file(place), units.of_data(data_dir, log_dirs)))
    yield of_broker[-1]
    if place.is_machine and units.is_running():
        yield from _told_systemd(wish, is_same_unit=all(each.did == "kept" for each in of_broker))


def _told_systemd(wish: Wish, *, is_same_unit: bool) -> Iterator[Step]:
    units.tell("daemon-reload")
    if wish.starts:
        wanted = [units.BROKER]
        if "disk.watch.file" in settings_file.values_in(wish.place.settings):
            wanted.append(units.DISK_WATCH)
        units.tell("enable", "--now", *wanted)
        yield Step("started", ", ".join(wanted))
    elif wish.restarts:
        for unit, words, how in restarting(is_same_unit):
            units.tell(words, unit)
            yield Step("restarted", f"{unit}, if it ran{how}")


def restarting(is_same_unit: bool) -> Iterator[tuple[str, str, str]]:
    """Each unit that has code of before in memory, with the words for systemd and for a person. A
    new process takes over from a broker, which clients hardly see. In the unit of before that one
    would be in the sandbox of before; and what a unit of before started may not know how."""
    if is_same_unit:
        yield units.BROKER, "try-reload-or-restart", ": a new process takes over"
    else:
        yield units.BROKER, "try-restart", ": its unit changed"
    yield units.EXPORT_SCHEDULE, "try-restart", ""


def check(wish: Wish) -> None:
    if not wish.place.is_machine:
        return
    if os.geteuid():
        raise NotInstalled("an installation makes a user and units: sudo appliance install")
    if is_hidden(wish.command.resolve()):
        raise NotInstalled(
            f"{wish.command.resolve()} is where the broker's own user cannot see it; wanted the "
            "package, or an environment as /opt/appliance: python3 -m venv /opt/appliance"
        )


# The data directory and its marker


def settled(wish: Wish) -> dict[str, Any]:
    """What the settings are to say of the data, and of the disk watch if they are new."""
    place, path = wish.place, wish.place.settings
    there = settings_file.values_in(path) if path.exists() else of_disk_watch(place)
    data_dir = wish.data_dir or there.get("data.dir") or DATA_DIR
    check_name(data_dir)
    if place.is_machine:
        check_mounted(data_dir)
    found, wanted = data_marker.read(place.below(data_dir)), there.get("data.marker", "")
    may_begin = wish.may_begin or is_unused(place, there.get("data.dir"), wanted)
    if wanted and found != wanted and not may_begin:
        data_marker.check(place.below(data_dir), wanted)
    values = {"data.dir": data_dir, "data.marker": found or data_marker.new()}
    return values if path.exists() else {**there, **values}


def of_disk_watch(place: Place) -> dict[str, Any]:
    """Without smartctl it could not ask the disks, and health would never be well."""
    return {"disk.watch.file": WATCH_FILE} if place.below(SMARTCTL).exists() else {}


def is_unused(place: Place, data_dir: Path | None, marker: str) -> bool:
    """Whether the directory of the settings is there, and no broker ever began in it."""
    if data_dir is None or not marker:
        return False
    path = place.below(data_dir)
    return data_marker.read(path) == marker and not (path / CATALOG).exists()


def check_name(data_dir: Path, setting: str = "data.dir") -> None:
    if not data_dir.is_absolute() or is_hidden(data_dir):
        raise NotInstalled(
            f"{setting}: got {data_dir}, wanted a whole path outside of {', '.join(HIDDEN)}, which "
            "the broker's unit does not show to it, as /srv/array/appliance"
        )


def is_hidden(path: Path) -> bool:
    return any(path.is_relative_to(each) for each in HIDDEN)


def check_mounted(data_dir: Path) -> None:
    missing = expected_mounts.missing(data_dir.resolve(), THIS_MACHINE)
    if missing is not None:
        raise NotInstalled(
            f"{missing.source} should hold {data_dir} ({missing.named_by}), and is not mounted at "
            f"{missing.place}: `mount {missing.place}`, then again"
        )


def data_directory(wish: Wish, data_dir: Path, marker: str) -> Step:
    path, owner = wish.place.below(data_dir), system_users.account(wish.place)
    if owner is None:
        raise NotInstalled(f"there is no user {system_users.BROKER}, who is to own {data_dir}")
    check_owner(path, owner.user_id, data_dir)
    is_new = not path.exists()
    path.mkdir(DATA_MODE, parents=True, exist_ok=True)
    path.chmod(DATA_MODE)
    os.chown(path, *owner)
    if data_marker.read(path) == marker:
        return Step("kept", str(data_dir))
    data_marker.write(path, marker)
    os.chown(path / data_marker.NAME, *owner)
    return Step("made" if is_new else "changed", f"{data_dir}, with the marker {marker}")


def log_dirs_of(place: Place, data_dir: Path) -> list[Path]:
    """Directories of records besides the data directory, as the settings have them."""
    found = settings_file.values_in(place.settings).get("log.dirs", NO_PATHS)
    return [path for each in found.all if (path := Path(each)) != data_dir]


def record_directory(wish: Wish, path: Path) -> Step:
    """Which one it is, and whether it is the right one, the broker knows by itself."""
    check_name(path, "log.dirs")
    place, owner = wish.place.below(path), system_users.account(wish.place)
    if wish.place.is_machine and not place.exists():
        check_mounted(path)
    if owner is None:
        raise NotInstalled(f"there is no user {system_users.BROKER}, who is to own {path}")
    if place.exists() and (place.stat().st_uid, place.stat().st_gid) == owner:
        return Step("kept", str(path))
    is_new = not place.exists()
    place.mkdir(DATA_MODE, parents=True, exist_ok=True)
    place.chmod(DATA_MODE)
    os.chown(place, *owner)
    return Step("made" if is_new else "changed", str(path))


def check_owner(path: Path, user_id: int, data_dir: Path) -> None:
    """Whoever ran a broker there before."""
    catalog = path / CATALOG
    if catalog.exists() and catalog.stat().st_uid != user_id:
        raise NotInstalled(
            f"{data_dir} has files of another user, which {system_users.BROKER} cannot open: stop "
            f"the broker there, `chown -R {system_users.BROKER}: {data_dir}`, then again"
        )


# Files


def settings_written(place: Place, values: dict[str, Any]) -> Step:
    path = place.settings
    if path.exists():
        there = settings_file.values_in(path)
        changed = {name: value for name, value in values.items() if there.get(name) != value}
        fresh = settings_file.with_values(path.read_text(), changed)
    else:
        fresh = settings_file.written(values)
    check_in_force(fresh, values, path)
    step = put(path, fresh)
    owner = system_users.account(place)
    if owner is not None:
        os.chown(path, 0, owner.group_id)
    path.chmod(SETTINGS_MODE)  # it names files of secrets, and who may do what
    return step


def check_in_force(text: str, values: dict[str, Any], path: Path) -> None:
    """Before it is written: a setting in a [table] counts, wherever else it stands."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        found = settings_file.values_in(Path(file.name))
    for name, value in values.items():
        if found.get(name) != value:
            raise NotInstalled(
                f"{path}: {name} is {found.get(name)}, in a [table] of the file; wanted {value}: "
                "change it there, then again"
            )


def put(path: Path, text: str) -> Step:
    """Replaces the file as a whole, if it is another."""
    before = path.read_text() if path.exists() else None
    if before == text:
        return Step("kept", str(path))
    path.parent.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(text)
    fresh.chmod(0o644)
    os.replace(fresh, path)
    return Step("made" if before is None else "changed", str(path))
