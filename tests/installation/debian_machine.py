"""A machine of a bare Debian, booted by systemd-nspawn: its own systemd, users and folders, without
a compiler. It has the network of the host, and none while a package is installed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
import uuid
from pathlib import Path
from typing import IO

from tests.support.made_once import made_once

CACHE = Path(__file__).parents[1] / ".cache"
BARE = "python3,systemd,systemd-sysv,dbus"  # all that the package wants: there is no network
NAME = "box"
BOOT_S, STEP_S = 90.0, 300.0
TOOLS = ("debootstrap", "systemd-nspawn", "dpkg-deb", "nsenter", "unshare")


def is_possible() -> bool:
    return os.geteuid() == 0 and all(map(shutil.which, TOOLS))


def release() -> str:
    with open("/etc/os-release") as file:
        facts = dict(line.rstrip().split("=", 1) for line in file if "=" in line)
    return facts.get("VERSION_CODENAME", "none")


def bare() -> Path:
    """A tree of the same Debian as ours, made once."""
    wanted = CACHE / f"debian-{release()}"
    with made_once(wanted) as folder:
        if folder is not None:
            subprocess.run(["debootstrap", "--variant=minbase", f"--include={BARE}", release(),
                            str(folder)], check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    return wanted


class DebianMachine:
    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        subprocess.run(["cp", "-a", f"{bare()}/.", str(root)], check=True)
        (root / "etc/machine-id").write_text(f"{uuid.uuid4().hex}\n")  # else all is enabled at once
        (root / "etc/hostname").write_text(f"{NAME}\n")
        (root / "etc/hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {NAME}\n")
        self._host: subprocess.Popen[bytes] | None = None
        self._console: IO[bytes] | None = None

    def without_network(self, *words: str) -> str:
        """Run in it before it boots; there is no network, not even of loopback."""
        return _run("unshare", "--net", "chroot", str(self.root), *words)

    def boot(self, *binds: str) -> None:
        """`binds`: folders of the host, HERE:THERE, which it may only read."""
        self._console = self.root.with_suffix(".console").open("wb")
        self._host = subprocess.Popen(
            ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--boot",
             f"--directory={self.root}", "--console=pipe",
             *(f"--bind-ro={each}" for each in binds)],
            stdin=subprocess.DEVNULL, stdout=self._console, stderr=self._console,
            start_new_session=True,  # it would be stopped for touching our terminal
        )  # fmt: skip
        deadline = time.monotonic() + BOOT_S
        while (state := self.state()) not in ("running", "degraded"):
            assert time.monotonic() < deadline, f"it did not boot: {state}{self._said()}"
            assert self._host.poll() is None, f"it has ended: {self._said()}"
            time.sleep(0.5)

    def _said(self) -> str:
        return self.root.with_suffix(".console").read_text(errors="replace")[-2000:]

    def state(self) -> str:
        if not self._leader():
            return "no process yet"
        return _done(*self._inside(), "systemctl", "is-system-running").stdout.strip()

    def run(self, *words: str) -> str:
        """Inside, as root."""
        done = _done(*self._inside(), *words)
        if done.returncode:
            said = _done(*self._inside(), "journalctl", "--no-pager", "-n", "40").stdout
            raise AssertionError(f"{' '.join(words)}: {done.stdout}{done.stderr}{said}")
        return done.stdout + done.stderr

    def code(self, *words: str) -> int:
        """The exit code of what may fail."""
        return _done(*self._inside(), *words).returncode

    def property(self, unit: str, name: str) -> str:
        return self.run("systemctl", "show", "--value", f"--property={name}", unit).strip()

    def until(self, unit: str, state: str, within_s: float = BOOT_S) -> None:
        deadline = time.monotonic() + within_s
        while (found := self.property(unit, "ActiveState")) != state:
            told = f"{unit} is {found}, wanted {state}"
            assert time.monotonic() < deadline, f"{told}: {self.run('journalctl', '-n', '40')}"
            time.sleep(0.3)

    def _leader(self) -> str:
        assert self._host is not None, "it was booted"
        file = Path(f"/proc/{self._host.pid}/task/{self._host.pid}/children")
        return file.read_text().strip().split(" ")[0] if file.exists() else ""

    def _inside(self) -> list[str]:
        return ["nsenter", "--target", self._leader(), "--mount", "--uts", "--ipc", "--pid",
                "--cgroup", "--root", "--wdns=/"]  # fmt: skip

    def stop(self) -> None:
        """And it is gone."""
        if self._host is not None:
            if leader := self._leader():
                os.kill(int(leader), signal.SIGRTMIN + 4)  # systemd's word for: power off
            try:
                self._host.wait(BOOT_S)
            except subprocess.TimeoutExpired:
                self._host.kill()
                self._host.wait()
        if self._console is not None:
            self._console.close()
        shutil.rmtree(self.root)


def _run(*words: str) -> str:
    done = _done(*words)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def _done(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=STEP_S, check=False)
