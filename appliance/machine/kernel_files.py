"""Where the kernel's files are: all below one root, so that a recorded machine is read like this
one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class KernelFiles:
    root: Path = Path("/")

    @property
    def sys(self) -> Path:
        return self.root / "sys"

    @property
    def proc(self) -> Path:
        return self.root / "proc"

    @property
    def mounts(self) -> Path:
        return self.proc / "self" / "mountinfo"

    @property
    def control_groups(self) -> Path:
        return self.sys / "fs" / "cgroup"

    def text(self, path: str) -> str:
        return text_in(self.root / path).strip()

    def number(self, path: str) -> int | None:
        return number_in(self.root / path)


THIS_MACHINE = KernelFiles()


def text_in(file: Path) -> str:
    """ "" if the kernel has no such file or denies access."""
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def number_in(file: Path) -> int | None:
    text = text_in(file).strip()
    return int(text) if text.isdigit() else None


def chosen_in(file: Path) -> str:
    """Of "none [mq-deadline] bfq" what is in brackets; "" if there is no choice."""
    for word in text_in(file).split():
        if word.startswith("["):
            return word.strip("[]")
    return ""
