"""Where everything of an installation is, below the root of a machine or of a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MACHINE = Path("/")
SETTINGS = Path("/etc/appliance/appliance.toml")
DATA_DIR = Path("/var/lib/appliance")


@dataclass(frozen=True)
class Place:
    root: Path = MACHINE

    @property
    def is_machine(self) -> bool:
        """Not a folder: here users are made and units started by who runs the machine."""
        return self.root == MACHINE

    def below(self, path: Path | str) -> Path:
        return self.root / str(path).lstrip("/")

    @property
    def settings(self) -> Path:
        return self.below(SETTINGS)

    @property
    def units(self) -> Path:
        return self.below("etc/systemd/system")

    @property
    def users(self) -> Path:
        return self.below("etc/sysusers.d/appliance.conf")

    @property
    def accounts(self) -> Path:
        return self.below("etc/passwd")
