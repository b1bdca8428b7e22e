"""Divides the file descriptors of this process; nothing else decides about their sum.

    reserve   the catalog, the journal, index files while they are written, threads' own, and what
              a library opens without asking
    admin     one for each connection of the admin port, and for as many of that of bulk data
    clients   one for each connection
    logs      files of partitions in use, and their directories; one that is idle holds none

The compiled core enforces the share of the logs (`_descriptors.pyx`): at the limit it closes idle
files, and if all are in use it refuses an append or a read, which a client retries.
"""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass

from appliance.errors import ApplianceError
from appliance.native import _descriptors
from appliance.process import event_log

log = event_log.named("descriptors")

# Measured: 45 in an idle broker.
RESERVE_MIN = 64
RESERVE_MAX = 512
RESERVE_PART = 16  # of all: larger limits mean more of everything

# The largest part of the rest: the pages must work in trouble, but clients and logs come first.
ADMIN_PART = 8
ADMIN_PORTS = 2

# With fewer for clients and logs together the broker does not start.
LEFT_MIN = 64

# Linux' default for the largest limit of a process.
NO_LIMIT = 1 << 20

# A partition in use: its directory while a file is created or opened, and the active segment.
BUSY_PARTITION = 2


class DescriptorsTooFew(ApplianceError):
    """The start cannot continue; the text has the remedy."""


@dataclass(frozen=True)
class Shares:
    limit: int
    reserve: int
    admin: int
    clients: int
    logs: int

    @property
    def admin_connections(self) -> int:
        return self.admin // ADMIN_PORTS


def shares(limit: int, clients: int, admin: int = 0) -> Shares:
    """Of `limit` descriptors, when so many clients are to be let in at most, and so many at
    each of the two ports of HTTP."""
    reserve = min(RESERVE_MAX, RESERVE_MIN + limit // RESERVE_PART)
    left = limit - reserve
    if left < LEFT_MIN:
        raise DescriptorsTooFew(
            f"this process may have {limit} file descriptors, wanted at least "
            f"{RESERVE_MIN + LEFT_MIN + limit // RESERVE_PART}: raise LimitNOFILE of the service, "
            "or `ulimit -n`"
        )
    own = min(admin * ADMIN_PORTS, left // ADMIN_PART)
    left -= own
    # At most half for clients: a flood of connections must not take the logs' files.
    clients = min(clients, left // 2)
    return Shares(limit, reserve, own, clients, left - clients)


def take(clients: int = 0, admin: int = 0) -> Shares:
    """Raises the soft limit, which is often 1,024, and sets the core's share for logs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    shared = shares(hard if hard != resource.RLIM_INFINITY else NO_LIMIT, clients, admin)
    _descriptors.limit(shared.logs)
    return shared


def in_use() -> int:
    """The number of open descriptors. Linux 6.2 and later report it; otherwise they are counted."""
    return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd")) - 1
