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

import os
import select
import socket
import subprocess
import sys
from collections.abc import Mapping

from appliance.errors import ApplianceError
from appliance.process import event_log

log = event_log.named("server")

VARIABLE = "APPLIANCE_SUCCEEDS"
READY = b"1"
PATIENCE_S = 120.0  # for what takes a second, on a machine that does other things, too


class NotSucceeded(ApplianceError):
    """The new process could not start, and this one goes on."""


class Successor:
    """The new process, as the old one has it."""

    def __init__(self, process: subprocess.Popen[bytes], gone_fd: int) -> None:
        self.pid = process.pid
        self._process = process
        self._gone_fd = gone_fd  # closed by the end of this process, and not before


def start(sockets: Mapping[str, socket.socket], command: list[str] | None = None) -> Successor:
    """Blocks until it could take over. `sockets` listen, by the addresses of the settings."""
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
        for fd in (ready, ready_fd, gone_fd, gone):
            os.close(fd)
        raise NotSucceeded(f"no new process can be started: {error.strerror}") from error
    os.close(ready_fd)
    os.close(gone_fd)
    try:
        found, _, _ = select.select([ready], [], [], PATIENCE_S)
        if not found or os.read(ready, 1) != READY:
            os.close(gone)
            process.kill()
            code = process.wait()
            raise NotSucceeded(f"the new process ended with code {code}, or said nothing for "
                               f"{PATIENCE_S:g} s; its reason is above")  # fmt: skip
    finally:
        os.close(ready)
    return Successor(process, gone)


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
