"""`python -m loadtest` is locust with the users and options of this folder.

    python -m loadtest                                  its own broker, and locust's web page
    python -m loadtest --host 127.0.0.1:9092 --admin 127.0.0.1:8780
    python -m loadtest --headless -u 100 -r 20 -t 1m --slo p99=20ms,loss=0

Without --host it starts a broker on loopback, with its data in a temporary folder that is deleted
at the end. `python -m loadtest --help` lists all options; names of users at the end select them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from loadtest.own_broker import ROOT, OwnBroker

LOCUSTFILE = Path(__file__).with_name("locustfile.py")
HELP = {"-h", "--help", "-V", "--version", "-l", "--list"}
HOST = ("-H", "--host", "--worker")  # the master tells its workers the broker's address


def locust_command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), *arguments]


def environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


def run_locust(arguments: list[str]) -> int:
    with subprocess.Popen(locust_command(*arguments), env=environment()) as process:
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:  # locust got it too: it stops, and prints its verdict
                continue


def main(arguments: list[str]) -> int:
    has_host = any(each.split("=")[0] in HOST or each.startswith("-H") for each in arguments)
    if has_host or HELP & set(arguments):
        return run_locust(arguments)
    with tempfile.TemporaryDirectory(prefix="loadtest-") as folder:
        broker = OwnBroker(Path(folder))
        print(f"broker at {broker.host}, console at http://{broker.admin}", flush=True)
        try:
            return run_locust(["--host", broker.host, "--admin", broker.admin, *arguments])
        finally:
            broker.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
