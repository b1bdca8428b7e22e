"""The cost of attacks for the broker and for good clients: a row for each attack.

    python -m tests.hostile.measure [--package FOLDER] [--seconds 10] [ATTACK ...]

Each attack has a new broker with default settings, of this build or of the build in a folder. The
attacker is another process. Two good clients work all the time, one that writes and reads and one
that sends requests to the control plane, 5 ms after each response. Every tenth of a second a
newcomer connects and reads. Then the broker is killed and started on its data.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import re
import resource
import shutil
import signal
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.hostile.attacks import ATTACKS, TOPIC, Target, attack
from tests.hostile.conftest import ADDRESS_SPACE, MIB
from tests.hostile.witness import Witness
from tests.support.http_client import HttpClient
from tests.support.serving import Serving
from tests.support.wire_client import WireClient

DESCRIPTORS = {"2,000 half heads, 1,024 descriptors": 1024}
CALM_S = 2.0
NEWCOMER_S = 0.1
PATIENCE_S = 2.0  # of a newcomer
PASSWORD = "correct horse battery"
HEAD = ["attack", "memory", "log", "descriptors", "kept on disk", "memory after a kill and a start",
        "control answers a second", "p99 control, data", "newcomers let in"]  # fmt: skip


@dataclass
class Newcomer:
    """A client without an earlier connection."""

    address: tuple[str, int]
    tries: int = 0
    answers: int = 0
    _is_over: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.wait(NEWCOMER_S):
            self.tries += 1
            with (
                contextlib.suppress(OSError, EOFError),
                WireClient(self.address, PATIENCE_S, "127.0.99.9") as client,
            ):
                client.fetch_one(topic="witness")
                self.answers += 1

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()


def disk_bytes(folder: Path) -> int:
    return sum(each.stat().st_blocks * 512 for each in folder.rglob("*") if each.is_file())


def open_descriptors(broker: Serving) -> int:
    with contextlib.suppress(FileNotFoundError):
        return len(list(Path(f"/proc/{broker.process.pid}/fd").iterdir()))
    return 0


def admin_of(broker: Serving) -> tuple[str, int]:
    host, _, port = broker.admin.rpartition(":")
    return host, int(port)


def first_user(broker: Serving) -> list[str]:
    """The headers of her session."""
    link = re.search(r"#/setup/(\S+)", broker.wait_for_log("#/setup/"))
    assert link
    with HttpClient(admin_of(broker)) as client:
        answer = client.ask(
            "POST /api/v1/setup", {"token": link[1], "name": "ada", "password": PASSWORD})
    assert answer.status == 204, answer.body
    return ["Cookie: " + "; ".join(answer.cookies)]


def p99_ms(waits: list[float]) -> str:
    if not waits:
        return "-"
    took = sorted(waits)[len(waits) * 99 // 100] * 1000
    return f"{took:.0f} ms" if took < 1000 else f"{took / 1000:.1f} s"


def size(octets: int) -> str:
    return f"{octets / MIB:.0f} MiB" if octets >= MIB else f"{max(0, octets) >> 10} KiB"


class Measured:
    """One attack on one broker."""

    def __init__(self, name: str, folder: Path, package: Path | None) -> None:
        self._name, self._folder, self._package = name, folder, package
        self.cells: list[str] = []
        self.broker = self._start(DESCRIPTORS.get(name))
        cookies = first_user(self.broker)
        with WireClient(self.broker.kafka) as client:
            client.create_topic(TOPIC)
        self._target = Target(self.broker.kafka, admin_of(self.broker), cookies)
        self._witness = Witness(self.broker.kafka)
        self._newcomer = Newcomer(self.broker.kafka)

    def _start(self, descriptors: int | None = None) -> Serving:
        made = Serving(self._folder, descriptors=descriptors, package=self._package)
        resource.prlimit(made.process.pid, resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        return made

    def run(self, seconds: float) -> list[str]:
        time.sleep(CALM_S)
        broker = self.broker
        calm, log = broker.resident_bytes, len(broker.log)
        disk, descriptors = disk_bytes(broker.data), open_descriptors(broker)
        broker.forget_peak()
        self._witness.forget()
        self._newcomer.tries = self._newcomer.answers = 0
        peak, most, answers = self._attacked(seconds)
        is_up = broker.process.poll() is None
        waits = self._end()
        self.cells = [
            self._name,
            size(peak - calm) if is_up else "**the broker ended**",
            size(len(broker.log) - log),
            f"{most - descriptors:+d}",
            size(disk_bytes(broker.data) - disk),
            self._after_a_kill(calm),
            f"{answers / seconds:.0f}",
            f"{waits['control']}, {waits['data']}",
            f"{self._newcomer.answers} of {self._newcomer.tries}",
        ]
        return self.cells

    def _attacked(self, seconds: float) -> tuple[int, int, int]:
        """The peaks of memory and descriptors, and the witness's number of control responses."""
        before = self._witness.answers["control"]
        context = multiprocessing.get_context("spawn")
        attacker = context.Process(target=attack, args=(self._name, self._target))
        attacker.start()
        peak = most = 0
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.broker.process.poll() is None:
            time.sleep(0.1)
            most = max(most, open_descriptors(self.broker))
            with contextlib.suppress(OSError, AssertionError):  # the process may have just ended
                peak = max(peak, self.broker.peak_bytes)
        answers = self._witness.answers["control"] - before
        attacker.kill()
        attacker.join()
        return peak, most, answers

    def _end(self) -> dict[str, str]:
        """The waits of good clients, including the first response after the attack."""
        with contextlib.suppress(AssertionError):
            self._witness.wait()
        told = {
            kind: p99_ms(waits) if not self._lost(kind) else "none in 20 s"
            for kind, waits in self._witness.waits.items()
        }
        self._newcomer.close()
        self.broker.process.send_signal(signal.SIGKILL)
        self._witness.close()
        return told

    def _lost(self, kind: str) -> bool:
        return any(each.startswith(kind) for each in self._witness.faults)

    def _after_a_kill(self, calm: int) -> str:
        self.broker.stop()
        begin = time.monotonic()
        try:
            again = self._start()
        except AssertionError:
            return "it does not start"
        took = time.monotonic() - begin
        time.sleep(CALM_S)  # for output after the ready line
        told = f"{size(again.resident_bytes - calm)}, {took:.1f} s"
        again.stop(signal.SIGKILL)
        return told


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--package", type=Path, help="the folder of another build")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=", ".join(ATTACKS))
    given = parser.parse_args()
    print("|", " | ".join(HEAD), "|")
    for name in given.attacks or ATTACKS:
        folder = Path(tempfile.mkdtemp(prefix="measure-"))
        cells = Measured(name, folder, given.package).run(given.seconds)
        print("|", " | ".join(cells), "|", flush=True)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
