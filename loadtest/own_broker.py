"""A broker for a load test: a separate process on loopback that may be killed and restarted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from loadtest.ports import lasting_ports

ROOT = Path(__file__).resolve().parents[1]
STOP_S = 60.0  # for a clean stop with everything on disk


class BrokerFailed(RuntimeError):
    """It did not start."""


class OwnBroker:
    def __init__(self, folder: Path, settings: list[str] | None = None) -> None:
        self.folder, self._settings = folder, settings or []
        addresses = [f"127.0.0.1:{port}" for port in lasting_ports(3)]  # the same after a restart
        self.host, self.admin, self.export = addresses
        folder.mkdir(parents=True, exist_ok=True)
        self.process = self._started()

    def _started(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "appliance", "serve"]
        command += ["--data-dir", str(self.folder / "data")]
        command += ["--listen", self.host, "--admin", self.admin]
        for each in [f"export.address={self.export}", *self._settings]:
            command += ["--set", each]
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        with (self.folder / "broker.log").open("a") as log:
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,  # Ctrl-C is for locust; the log is read back after it
            )
        assert process.stdout is not None
        ready = process.stdout.readline()
        process.stdout.close()
        if not ready:
            process.wait()
            said = (self.folder / "broker.log").read_text()[-2000:]
            raise BrokerFailed(f"exit code {process.returncode}:\n{said}")
        return process

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def restart(self, number: signal.Signals) -> None:
        self.stop(number)
        self.process = self._started()
