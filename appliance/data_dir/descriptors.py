"""The file descriptors that this process may have, and who gets how many: the one owner of the sum.

    reserve   the catalog, the journal, index files while they are written, threads' own, and what
              a library opens without asking
    admin     two for each connection of the admin port: an export has a second for the same socket
    clients   one for each connection
    logs      files of partitions in use, and their directories; one that is idle holds none

What the logs may open is held to in the compiled core (`_descriptors.pyx`): at the limit idle files
are closed, and when all are in use an append or a read is refused, which a client tries again.
"""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass

from appliance.errors import ApplianceError
from appliance.native import _descriptors
from appliance.process import event_log

log = event_log.named("descriptors")

# Measured: 45 of a broker that nobody uses.
RESERVE_MIN = 64
RESERVE_MAX = 512
RESERVE_PART = 16  # of all: who has many has more of everything

# Of what is left, at most: the pages must be there when something is wrong, and are not what the
# broker is for.
ADMIN_PART = 8
ADMIN_CONNECTION = 2

# Below it there is no start: clients and logs together.
LEFT_MIN = 64

# Linux' own default for the most that a process may ask for, where no limit is set.
NO_LIMIT = 1 << 20

# A partition in use: its directory while a file is made or opened, and the active segment.
BUSY_PARTITION = 2


class DescriptorsTooFew(ApplianceError):
    """The start cannot go on; the text says what to do."""


@dataclass(frozen=True)
class Shares:
    limit: int
    reserve: int
    admin: int
    clients: int
    logs: int

    @property
    def admin_connections(self) -> int:
        return self.admin // ADMIN_CONNECTION


def shares(limit: int, clients: int, admin: int = 0) -> Shares:
    """Of `limit` descriptors, when so many clients are to be let in at most, and so many at the
    admin port."""
    reserve = min(RESERVE_MAX, RESERVE_MIN + limit // RESERVE_PART)
    left = limit - reserve
    if left < LEFT_MIN:
        raise DescriptorsTooFew(
            f"this process may have {limit} file descriptors, wanted at least "
            f"{RESERVE_MIN + LEFT_MIN + limit // RESERVE_PART}: raise LimitNOFILE of the service, "
            "or `ulimit -n`"
        )
    own = min(admin * ADMIN_CONNECTION, left // ADMIN_PART)
    left -= own
    # Half for clients at most: a flood of connections must not take the logs' files.
    clients = min(clients, left // 2)
    return Shares(limit, reserve, own, clients, left - clients)


def take(clients: int = 0, admin: int = 0) -> Shares:
    """Raises the soft limit, which is often 1,024, and tells the core what the logs may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    found = shares(hard if hard != resource.RLIM_INFINITY else NO_LIMIT, clients, admin)
    _descriptors.limit(found.logs)
    return found


def in_use() -> int:
    """Of the whole process. Since Linux 6.2 the kernel has the number; before, it is counted."""
    return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd")) - 1
