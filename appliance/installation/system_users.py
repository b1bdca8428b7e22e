"""The users that broker and exports run as: systemd makes them, from a file of sysusers.d."""

from __future__ import annotations

import pwd
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from appliance.errors import ApplianceError
from appliance.installation.paths import DATA_DIR, Place

BROKER, EXPORT = "appliance", "appliance-export"
FILE = f"""\
# Written by `appliance install`.
u {BROKER} - "Message log of the appliance" {DATA_DIR}
u {EXPORT} - "Exports of the appliance" /var/lib/{EXPORT}
"""


class UserNotMade(ApplianceError):
    """A user of the system that is wanted and not there; the text says why."""


class Account(NamedTuple):
    user_id: int
    group_id: int


def make(place: Place) -> None:
    program = shutil.which("systemd-sysusers")
    if program is None:
        raise UserNotMade("systemd-sysusers is not here, which makes the broker's user; wanted "
                          "systemd, or the package systemd-standalone-sysusers")  # fmt: skip
    root = [] if place.is_machine else [f"--root={place.root}"]
    done = subprocess.run([program, *root, place.users.name], capture_output=True,
                          text=True, check=False)  # fmt: skip
    if done.returncode:
        raise UserNotMade(f"the broker's user was not made: {done.stderr.strip()}")


def account(place: Place, name: str = BROKER) -> Account | None:
    """Of a user that is there. Those of a folder are in its own file."""
    if place.is_machine:
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            return None
        return Account(found.pw_uid, found.pw_gid)
    return _in_file(place.accounts, name)


def _in_file(path: Path, name: str) -> Account | None:
    if not path.exists():
        return None
    for each in path.read_text().splitlines():
        fields = each.split(":")
        if fields[0] == name:
            return Account(int(fields[2]), int(fields[3]))
    return None
