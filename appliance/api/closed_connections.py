"""Why connections were closed, in words and numbers: log lines for the operator.

A broken or hostile client can be closed a thousand times a second. Each address, of IPv6 each
network, gets one line per reason and minute; the next one says how many were left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from appliance.api.foreign_protocols import protocol_of
from appliance.native._peer_network import network_of
from appliance.network._tls_context import reason_of
from appliance.process import event_log

log = event_log.named("connections")

WINDOW_S = 60.0
PEERS_MAX = 10_000  # addresses and reasons remembered; beyond it all are forgotten at once

TEXTS = {
    "frame size": "a frame of {got} bytes, wanted 8 to {wanted} (socket.request.max.bytes)",
    "control size": "a request of {got} bytes (key {key}, version {version}), wanted at most "
    "{wanted} (control.request.max.bytes)",
    "frame timeout": "of a frame of {wanted} bytes {got} came in time "
    "(connection.frame.timeout.ms, connection.frame.bytes.per.second)",
    "malformed": "a request of {got} bytes (key {key}, version {version}) is malformed",
    "send timeout": "no answer was taken for {wanted} ms (connection.send.timeout.ms), {got} bytes "
    "wait in memory",
    "held": "{got} bytes of answers wait in memory, more than its share of {wanted} "
    "(queued.max.response.bytes)",
    "connections": "there are {got} connections, wanted at most {wanted} (max.connections.total)",
    "connections per ip": "there are {got} connections of this address, wanted at most {wanted} "
    "(max.connections.per.ip, max.connections.percent.per.ip)",
    "login key": "a request (key {key}, version {version}) before a login, wanted only 17, 18 and "
    "36: SaslHandshake, ApiVersions and SaslAuthenticate",
    "login size": "a frame of {got} bytes before a login, wanted at most {wanted} "
    "(sasl.server.max.receive.size)",
    "login timeout": "it has not logged in for {wanted} ms (connection.login.timeout.ms), after "
    "{got} requests",
    "login over": "a request (key {key}, version {version}) came {got} ms after the end of its "
    "login, and no new login before (connections.max.reauth.ms)",
    "login other": "it logged in again as another principal",
    "connection rate": "its turn would come in {got} ms, wanted at most {wanted} (the quota "
    "connection_creation_rate)",
    "handshake": "TLS was not agreed upon: {reason}",
    "handshake timeout": "TLS was not agreed upon within {wanted} ms (ssl.handshake.timeout.ms)",
    "handshakes": "there are {got} handshakes of TLS under way, wanted at most {wanted} "
    "(ssl.max.handshakes.total)",
    "handshakes per ip": "there are {got} handshakes of TLS of this address under way, wanted at "
    "most {wanted} (ssl.max.handshakes.per.ip)",
    "not tls": "the listener has TLS, and the client did not begin with it",
}


class Closure(Protocol):
    """As the data plane tells it."""

    @property
    def peer(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def got(self) -> int: ...
    @property
    def wanted(self) -> int: ...
    @property
    def key(self) -> int: ...
    @property
    def version(self) -> int: ...


def words_of(closure: Closure) -> str:
    is_handshake = closure.kind == "handshake"
    text = TEXTS[closure.kind].format(
        got=closure.got, wanted=closure.wanted, key=closure.key, version=closure.version,
        reason=reason_of(closure.got, closure.wanted) if is_handshake else "",
    )  # fmt: skip
    is_size = closure.kind in ("frame size", "login size", "not tls")
    what = protocol_of(closure.got) if is_size else None
    return f"{text}; it begins like {what}" if what else text


class ClosureLog:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said: dict[tuple[str, object], tuple[float, int]] = {}  # when, left out since

    def note(self, closure: Closure) -> None:
        self.say(closure.peer, closure.kind, words_of(closure))

    def note_left_out(self, count: int) -> None:
        if count:
            log.warning("connections closed too fast to tell each", count=count)

    def say(self, peer: str, reason: object, why: str, **facts: Any) -> None:
        now, key = self._clock(), (network_of(peer), reason)
        then, left_out = self._said.get(key, (now - WINDOW_S, 0))
        if now - then < WINDOW_S:
            self._said[key] = then, left_out + 1
            return
        if len(self._said) >= PEERS_MAX:
            self._said.clear()
        self._said[key] = now, 0
        more = {"left_out": left_out} if left_out else {}
        log.warning("connection closed", peer=peer, why=why, **facts, **more)
