"""A new process takes over from this one, and the sockets never close. Who connects meanwhile waits
in the kernel's queue; refused, a client would try again later and later.

    old    SIGUSR2: starts the same command line, which may be another version by now, and gives it
           the sockets and two pipes. Goes on serving
    new    imports, reads its settings, checks the data: says that it could start, and waits
    old    stops as always, and is gone: locks and ports are free, the second pipe ends
    new    starts as always, with these sockets

A new one that cannot start says why and ends, and the old one goes on.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from appliance.errors import ApplianceError
from appliance.process import event_log

log = event_log.named("server")

VARIABLE = "APPLIANCE_SUCCEEDS"
READY = b"1"
PATIENCE_S = 120.0  # for what takes a second, on a machine that does other things, too
LOOK_S = 0.1  # whether this process is to stop meanwhile


class NotSucceeded(ApplianceError):
    """The new process could not start, and this one goes on."""


class Successor:
    """The new process, as the old one has it."""

    def __init__(self, process: subprocess.Popen[bytes], gone_fd: int) -> None:
        self.pid = process.pid
        self._process = process
        self._gone_fd = gone_fd  # closed by the end of this process, and not before

    def end(self) -> int:
        """It is not wanted any more, and will not serve. Its exit code."""
        self._process.kill()
        code = self._process.wait()
        os.close(self._gone_fd)
        return code


class Handover:
    """The old one's side: one successor at a time. `sockets` listen, by the addresses of the
    settings."""

    def __init__(self, is_stopping: Callable[[], bool]) -> None:
        self.sockets: Mapping[str, socket.socket] = {}
        self.is_done = False
        self._is_stopping = is_stopping
        self._is_begun = False

    async def begin(self) -> int | None:
        """The process that takes over once this one is gone; None: this one goes on."""
        if self._is_begun or self._is_stopping():
            return None
        self._is_begun = True
        try:
            found = await asyncio.to_thread(start, self.sockets, self._is_stopping)
        except ApplianceError as error:
            self._is_begun = False
            log.error("no other process takes over, this one goes on", error=error)
            return None
        if self._is_stopping():  # who stopped it wants no other
            found.end()
            return None
        log.info("stopping, another process takes over", pid=found.pid)
        self._successor, self.is_done = found, True
        return found.pid


def start(
    sockets: Mapping[str, socket.socket],
    is_stopping: Callable[[], bool],
    command: Sequence[str] | None = None,
) -> Successor:
    """Blocks until it could take over."""
    if os.getpid() == 1:
        raise NotSucceeded("this is process 1 of a container, which ends with it: restart that")
    ready, ready_fd = os.pipe()
    gone_fd, gone = os.pipe()
    named = {name: each.fileno() for name, each in sockets.items()}
    told = " ".join([str(ready_fd), str(gone_fd), *(f"{name}={fd}" for name, fd in named.items())])
    try:
        process = subprocess.Popen(
            command or sys.orig_argv, env={**os.environ, VARIABLE: told},
            pass_fds=[ready_fd, gone_fd, *named.values()],
        )  # fmt: skip
    except OSError as error:
        os.close(ready)
        os.close(gone)
        raise NotSucceeded(f"no new process can be started: {error.strerror}") from error
    finally:
        os.close(ready_fd)
        os.close(gone_fd)
    found = Successor(process, gone)
    try:
        if not _is_ready(ready, is_stopping):
            raise NotSucceeded(f"the new process ended with code {found.end()}, or said nothing "
                               f"for {PATIENCE_S:g} s; its reason is above")  # fmt: skip
    finally:
        os.close(ready)
    return found


def _is_ready(ready: int, is_stopping: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE_S
    pipe = select.poll()  # select takes no descriptor above 1023, and a broker has thousands
    pipe.register(ready, select.POLLIN)
    while time.monotonic() < end and not is_stopping():
        if pipe.poll(LOOK_S * 1000):
            return os.read(ready, 1) == READY
    return False


class Predecessor:
    """The old process, as the new one has it."""

    def __init__(self, ready_fd: int, gone_fd: int, sockets: Mapping[str, int]) -> None:
        self._ready_fd, self._gone_fd = ready_fd, gone_fd
        self._sockets = {name: socket.socket(fileno=fd) for name, fd in sockets.items()}

    def wait_until_gone(self) -> None:
        """After all that can be done before: from here on nobody serves."""
        os.write(self._ready_fd, READY)
        os.close(self._ready_fd)
        os.read(self._gone_fd, 1)
        os.close(self._gone_fd)

    def socket_of(self, name: str) -> socket.socket | None:
        """Whose it is now who asks."""
        return self._sockets.pop(name, None)

    def close_rest(self) -> None:
        """Those that the settings do not name any more."""
        for each in self._sockets.values():
            each.close()
        self._sockets.clear()


def predecessor() -> Predecessor | None:
    """Asked once: a process that this one starts is no successor by that."""
    told = os.environ.pop(VARIABLE, "")
    if not told:
        return None
    ready_fd, gone_fd, *named = told.split()
    for fd in (int(ready_fd), int(gone_fd)):
        os.set_inheritable(fd, False)
    pairs = (each.rpartition("=") for each in named)
    found = Predecessor(int(ready_fd), int(gone_fd), {name: int(fd) for name, _, fd in pairs})
    for each in found._sockets.values():
        each.set_inheritable(False)
    return found
