"""What systemd is told of the process that it started."""

from __future__ import annotations

import os
import socket

from appliance.process import event_log

log = event_log.named("server")


def notify(state: str) -> None:
    """When it is the parent. The protocol is one datagram of KEY=VALUE lines."""
    path = os.environ.get("NOTIFY_SOCKET")
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
        try:
            channel.sendto(state.encode(), address)
        except OSError as error:
            log.warning("systemd was not told", state=state, error=error)
