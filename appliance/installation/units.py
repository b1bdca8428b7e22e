"""The units of systemd: written with the command of this installation, and told where the data is.

    appliance.service               the broker; it also scrubs, by itself
    appliance-disk-watch.timer      asks the disks, as root, and writes a file for the broker
    appliance-export-schedule       exports by their schedules, once there is a target
    appliance-export@.timer         one export by systemd's clock instead
    appliance-backup.timer          backups, once there is a target
    appliance-zookeeper.service     one ZooKeeper of the ensemble of a cluster
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.installation.paths import Place

TEMPLATES = Path(__file__).parent / "systemd"
ANY_COMMAND = "/usr/bin/env appliance"
BROKER = "appliance.service"
DISK_WATCH = "appliance-disk-watch.timer"
EXPORT_SCHEDULE = "appliance-export-schedule.service"
EXPORTS = "appliance-export@"
SYSTEMD_RUNS = Path("/run/systemd/system")


class SystemdRefused(ApplianceError):
    """systemctl could not do what it was asked; the text has its words."""


def names() -> list[str]:
    return sorted(each.name for each in TEMPLATES.iterdir())


def texts(command: Path) -> Iterator[tuple[str, str]]:
    """Each unit by its name, with this command."""
    for name in names():
        yield name, (TEMPLATES / name).read_text().replace(ANY_COMMAND, str(command))


def installed(place: Place) -> list[str]:
    """What there is to stop: of a template each that was enabled, with what its timer starts."""
    there = [each for each in names() if "@" not in each and (place.units / each).exists()]
    timers = {each.name for each in place.units.glob(f"*.wants/{EXPORTS}*.timer")}
    services = {each.removesuffix("timer") + "service" for each in timers}
    return [*there, *sorted(timers | services)]


def data_file(place: Place) -> Path:
    return place.units / f"{BROKER}.d" / "data.conf"


def of_data(data_dir: Path, log_dirs: Iterable[Path] = ()) -> str:
    """What the unit of the broker must know of the data directory. One that is away is no fault of
    the sandbox (-): the broker itself says what is wrong. One of `log.dirs` that is not mounted
    does not keep the broker from starting: it serves the others."""
    name = escaped(data_dir)
    more = "".join(f'ReadWritePaths="-{escaped(each)}"\n' for each in log_dirs)
    return f"""\
# Written by `appliance install`: where the data is (data.dir in /etc/appliance/appliance.toml).
[Unit]
RequiresMountsFor="{name}"

[Service]
ReadWritePaths="-{name}"
{more}"""


def escaped(path: Path) -> str:
    return str(path).replace("%", "%%")


def is_running() -> bool:
    """Whether systemd runs this machine: not in a container, nor in a folder that becomes one."""
    return SYSTEMD_RUNS.is_dir() and shutil.which("systemctl") is not None


def tell(*words: str) -> None:
    done = subprocess.run(["systemctl", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemdRefused(f"systemctl {' '.join(words)}: {done.stderr.strip()}")
