"""Keeps the memory of a process from core files, and from other processes of the same user.

Passwords and private keys are in memory for as long as they are needed, and longer: Python frees
memory without clearing it. The kernel writes no core of a process that is not dumpable, and lets
only root trace it, or open its files under /proc.
"""

from __future__ import annotations

import ctypes
import os

from appliance.process import event_log

log = event_log.named("process")

PR_SET_DUMPABLE = 4


def forbid() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        log.warning("core dumps cannot be forbidden", error=os.strerror(number))
