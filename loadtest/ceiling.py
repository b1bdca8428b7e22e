"""The maximum event rate of one locust process: `python -m loadtest.ceiling`.

Producers send as fast as they can to a server that stores nothing. A load test near this rate
measures locust, not the broker.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from loadtest.__main__ import environment, locust_command
from loadtest.processes import Processes

ENDLESS = "1000000"  # batches a second of each user: without limit


@dataclass(frozen=True)
class Ceiling:
    events: float  # a second
    records: float
    mb: float
    locust_cpu: float  # cores, of the worker
    server_cpu: float  # cores; near 1 the server was the limit

    @property
    def text(self) -> str:
        return (
            f"one locust process: {self.events:.0f} events/s, {self.records:.0f} records/s, "
            f"{self.mb:.1f} MB/s at {self.locust_cpu:.2f} cores; "
            f"the server that says yes: {self.server_cpu:.2f} cores"
        )


def measure(users: int, seconds: int, options: list[str]) -> Ceiling:
    with tempfile.TemporaryDirectory(prefix="loadtest-") as folder:
        server = subprocess.Popen(
            [sys.executable, "-m", "loadtest.null_server"],
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        try:
            assert server.stdout is not None
            host = server.stdout.readline().strip().partition("kafka=")[2]
            return measured(
                server.pid, host, Path(folder) / "ceiling.json", users, seconds, options
            )
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()
            assert server.stdout is not None
            server.stdout.close()


def measured(
    server: int, host: str, report: Path, users: int, seconds: int, options: list[str]
) -> Ceiling:
    command = locust_command(
        "ProducerUser", "--headless", "--only-summary", "--host", host, "--rate", ENDLESS,
        "-u", str(users), "-r", str(users), "-t", f"{seconds}s", "--no-read-back",
        "--report", str(report), "--loglevel", "WARNING", *options,
    )  # fmt: skip
    with subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL) as locust:
        used = Processes({"locust": locust.pid, "server": server})
        while locust.poll() is None:
            used.look()
    if locust.returncode:
        raise SystemExit(f"locust ended with {locust.returncode}")
    found = json.loads(report.read_text())
    counts, ran = found["counts"], found["seconds"]
    return Ceiling(
        counts["PRODUCE events"] / ran,
        counts["PRODUCE records"] / ran,
        counts["PRODUCE bytes"] / ran / 1e6,
        used.cores_most("locust"),
        used.cores_most("server"),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=20)
    given, options = parser.parse_known_args()  # other options go to locust: --records 100
    print(measure(given.users, given.seconds, options).text)


if __name__ == "__main__":
    main()
