"""One broker with what a machine has: a network, a disk, a clock. What happens to it is done in its
order by a thread of its own, so that a start that takes long holds up nobody else."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from tests.crash.full_disk import fill
from tests.crash.loop_disk import LoopDisk
from tests.replication.histories.network import Network, inside
from tests.support.serving import Serving
from tests.support.shifted_clock import ShiftedClock

DISK_MB = 400
PORT = 9092
STOP_S = 60.0
AGAIN_S = 1.0
BUSY_MB, BUSY_S = 100, 0.15


class Process(Serving):
    """In a network namespace."""

    within: Sequence[str] = ()
    mutant = ""  # a bug that is planted

    def _start(
        self,
        command: list[str],
        log: IO[str],
        environment: dict[str, str] | None,
        package: Path | None,
    ) -> subprocess.Popen[str]:
        if self.mutant:
            assert command[1:3] == ["-m", "appliance"]
            command = [command[0], "-m", "tests.replication.histories.mutants", self.mutant,
                       *command[3:]]  # fmt: skip
        return super()._start([*self.within, *command], log, environment, package)


class Machine:
    def __init__(
        self,
        network: Network,
        name: str,
        folder: Path,
        settings: dict[str, object],
        environment: dict[str, str],
        mutant: str,
    ) -> None:
        folder.mkdir(parents=True)
        self.name, self.folder = name, folder
        self._network = network
        self._settings, self._environment = settings, environment
        own = {"within": inside(network.namespace(name)), "mutant": mutant}
        self._kind = type("Process", (Process,), own)
        self.disk, self.clock = LoopDisk(folder, DISK_MB), ShiftedClock(folder)
        self.process: Process | None = None
        self.is_wanted = False
        self.had_bad_disk = False  # what it says and does then is its right
        self.wrong: list[str] = []
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._is_idle = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"machine {name}")
        self.disk.mount()
        self._thread.start()

    # In the thread's order

    def do(self, job: Callable[[], None]) -> None:
        self._is_idle.clear()
        self._jobs.put(job)

    def _work(self) -> None:
        while True:
            if self._jobs.empty():
                self._is_idle.set()
            job = self._jobs.get()
            if job is None:
                return
            try:
                job()
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                self.wrong.append(f"{self.name}: {job}: {error!r}")

    def until_idle(self, timeout_s: float) -> bool:
        end = time.monotonic() + timeout_s
        while not (self._is_idle.is_set() and self._jobs.empty()):
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True

    def start(self) -> None:
        """Who does not come up, for its disk may be full or dead, tries again, behind what else is
        to be done."""
        self._network.plug(self.name, is_in=True)
        if not self.is_wanted or self.process is not None:
            return
        try:
            self.process = self._kind(
                self.folder, port=PORT, host=self._network.address(self.name),
                environment={**self._environment, **self.clock.environment},
                data=self.disk.root / "data", package=self.folder, **self._settings,
            )  # fmt: skip
        except AssertionError as error:
            self._note_start(str(error))
            time.sleep(AGAIN_S)
            self.do(self.start)

    def _note_start(self, log: str) -> None:
        if not self.had_bad_disk and not self.wrong:
            self.wrong.append(f"{self.name} does not start: {log[-1500:]}")

    def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        """SIGTERM: as a service is stopped; who does not end in time is killed."""
        process, self.process = self.process, None
        if process is None:
            return
        code = process.process.poll()
        if code is not None and not self.had_bad_disk:
            self.wrong.append(f"{self.name} ended by itself with {code}: {process.log[-1500:]}")
        if code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.process.pid, signal.SIGCONT)
                os.kill(process.process.pid, number)
        try:
            process.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.wrong.append(f"{self.name} did not stop within {STOP_S} s")
            process.process.kill()
            process.process.wait()
        assert process.process.stdout is not None
        process.process.stdout.close()

    def lose_power(self) -> None:
        """All stops at one moment. Nobody hears of it: the cable is dead, too. What was not synced
        by then is gone."""
        self.send(signal.SIGSTOP)
        self._network.plug(self.name, is_in=False)
        self.disk.cut_the_power()
        self.end()
        self._mount_again()

    def lose_power_while_busy(self) -> None:
        """The disk has much to do, so what was written last waits for its sync, and others have it
        by then."""
        command = ["dd", "if=/dev/zero", f"of={self.disk.root / 'busy'}", "bs=1M",
                   f"count={BUSY_MB}", "conv=fdatasync", "status=none"]  # fmt: skip
        with subprocess.Popen(command, stderr=subprocess.DEVNULL):
            time.sleep(BUSY_S)
            self.lose_power()

    def lose_all(self) -> None:
        """Its box burned down: another one comes with the same id."""
        self.lose_power()
        self._unmount()
        self.disk.format()
        self.disk.mount()

    def copy_disk(self) -> None:
        """As a power cut would leave it now."""
        self._copy(self.disk.image, self._old_image)

    def put_copy_back(self) -> None:
        self.lose_power()
        self._unmount()
        self._copy(self._old_image, self.disk.image)
        self.disk.mount()

    def _copy(self, image: Path, to: Path) -> None:
        subprocess.run(["cp", "--sparse=always", str(image), str(to)], check=True)

    @property
    def _old_image(self) -> Path:
        return self.folder / "old.img"

    def _mount_again(self) -> None:
        self._unmount()
        self.disk.mount()

    def _unmount(self) -> None:
        end = time.monotonic() + STOP_S
        while True:  # the kernel may still be busy with what the dead process had open
            try:
                self.disk.unmount()
                return
            except subprocess.CalledProcessError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def lose_disk(self) -> None:
        """From now on each write and read fails with EIO, while the process runs on."""
        self.had_bad_disk = True
        self.disk.cut_the_power()

    def mend_disk(self) -> None:
        self.end()
        self._mount_again()
        self.start()

    def fill_disk(self) -> None:
        self.had_bad_disk = True
        fill(self._filler)

    def empty_disk(self) -> None:
        self._filler.unlink(missing_ok=True)

    @property
    def _filler(self) -> Path:
        return self.disk.root / "filler"

    # At once

    def send(self, number: signal.Signals) -> None:
        process = self.process
        if process is not None and process.process.poll() is None:
            os.kill(process.process.pid, number)

    def close(self) -> None:
        self.is_wanted = False
        self.send(signal.SIGCONT)
        self.send(signal.SIGKILL)
        self.do(self.end)
        self._jobs.put(None)
        self._thread.join()
        self.disk.__exit__()
