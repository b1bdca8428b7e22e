"""A child process that ends when this one does, also by kill -9, which nothing in Python sees.

The kernel sends the child a signal at the end of the *thread* that started it. So only the main
thread binds one: it lives as long as the process. What another thread starts is not bound.

The child asks for the signal itself, before it becomes the command: this file, run by a Python
that imports nothing else. Between fork and exec, in a process with threads, Python code may hang.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1
IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)  # by each Python, and then by what it becomes


def bound(command: Sequence[str], number: signal.Signals = signal.SIGKILL) -> list[str]:
    """The command, as one that gets this signal when our process ends."""
    if threading.current_thread() is not threading.main_thread():
        return [*command]
    return [sys.executable, "-IS", __file__, str(os.getpid()), str(int(number)), *command]


def become(parent: int, number: int, command: Sequence[str]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        return  # it has ended meanwhile, and no signal will come
    for each in IGNORED:
        signal.signal(each, signal.SIG_DFL)
    os.execvp(command[0], [*command])


if __name__ == "__main__":
    become(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
