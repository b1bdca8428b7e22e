"""Ports for listeners that come again after a stop."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack
from pathlib import Path

GIVEN_AWAY = Path("/proc/sys/net/ipv4/ip_local_port_range")
FIRST, LAST = 10_000, 65_535


def lasting_ports(count: int) -> list[int]:
    """Different ports on which nobody listens. The kernel gives none of them to somebody who asks
    for any port, so they are still free when their listener comes back."""
    low, high = map(int, GIVEN_AWAY.read_text().split())
    lasting = [*range(FIRST, low), *range(high + 1, LAST + 1)]
    found: list[int] = []
    with ExitStack() as held:  # until all are found, so that they differ
        for port in random.SystemRandom().sample(lasting, len(lasting)):
            if len(found) == count:
                return found
            try:
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:  # somebody else has it
                continue
            found.append(port)
    raise OSError(f"wanted {count} ports, found {len(found)} free of {len(lasting)} outside "
                  f"{low} to {high}, which the kernel gives to connections ({GIVEN_AWAY})")


def lasting_port() -> int:
    return lasting_ports(1)[0]
