"""`appliance serve` as a process of its own: its addresses, its memory, its log."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

DEADLINE_S = 20.0
SMALL: dict[str, object] = {"storage.low.water.bytes": 0, "storage.reserve.bytes": 1 << 20}
if os.geteuid() != 0:
    SMALL["core.dumps.enable"] = "true"  # tests look into /proc


class Serving:
    """A broker on free ports, up to its ready line. What it says stands in `log`. `package` is the
    folder of another build."""

    def __init__(
        self,
        folder: Path,
        port: int = 0,
        descriptors: int | None = None,
        admin_port: int = 0,
        environment: dict[str, str] | None = None,
        data: Path | None = None,
        package: Path | None = None,
        protocol: str = "",
        admin_host: str = "127.0.0.1",
        host: str = "127.0.0.1",
        more_listeners: str = "",
        **settings: object,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / "log"
        command = ["sh", "-c", f'ulimit -n {descriptors} && exec "$@"', "sh"] if descriptors else []
        command += [sys.executable, "-m", "appliance", "serve", "--data-dir"]
        self.data = (data or folder / "data").absolute()
        command += [str(self.data)]
        listen = f"{protocol and f'{protocol}://'}{host}:{port}{more_listeners}"
        command += ["--admin", f"{admin_host}:{admin_port}", "--listen", listen]
        if admin_port:  # the port beside it may be somebody else's
            settings = {"export.address": "127.0.0.1:0", **settings}
        for name, value in {**SMALL, **settings}.items():
            command += ["--set", f"{name}={value}"]
        with self._log.open("a") as log:
            self.process = self._start(command, log, environment, package)
        assert self.process.stdout is not None
        ready = self.process.stdout.readline()
        if not ready:
            self.process.stdout.close()
            self.process.wait()
        assert ready, self.log
        facts = dict(word.split("=", 1) for word in shlex.split(ready)[1:])
        host, _, port = facts["kafka"].rpartition(":")
        self.kafka = (host, int(port))
        self.admin = facts["admin"]
        self.export = facts.get("export", self.admin)  # another build may have one port for both

    def _start(
        self,
        command: list[str],
        log: IO[str],
        environment: dict[str, str] | None,
        package: Path | None,
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True,
            env={**os.environ, **(environment or {})}, cwd=package,
        )

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def resident_bytes(self) -> int:
        return self._status("VmRSS")

    @property
    def peak_bytes(self) -> int:
        """The most since `forget_peak`."""
        return self._status("VmHWM")

    def forget_peak(self) -> None:
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    @property
    def cpu_s(self) -> float:
        """Of all its threads, in user and system."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _status(self, name: str) -> int:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(rf"^{name}:\s+(\d+) kB$", text, re.MULTILINE)
        assert found, text
        return int(found[1]) << 10

    def wait_for_log(self, pattern: str) -> str:
        """The first line in which the pattern is found."""
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            for line in self.log.splitlines():
                if re.search(pattern, line):
                    return line
            time.sleep(0.01)
        raise AssertionError(f"no {pattern!r} in the log:\n{self.log[-3000:]}")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            os.kill(self.process.pid, number)
        try:
            code = self.process.wait(DEADLINE_S)
        finally:
            self.process.kill()
            self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()
        return code
