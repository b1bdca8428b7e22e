from typing import NamedTuple

class Arrival(NamedTuple):
    connection: int
    listener: int
    peer: str
    subject: bytes
    not_before_s: int

class Closure(NamedTuple):
    peer: str
    kind: str
    got: int
    wanted: int
    key: int
    version: int

class ConnectionFacts(NamedTuple):
    id: int
    peer: str
    client_id: str
    principal: str
    age_ms: int
    idle_ms: int
    requests: int
    in_flight: int
    bytes_in: int
    bytes_out: int
    held_bytes: int
    mute_ms: int

class ListenerCounts(NamedTuple):
    connections: int
    accepted: int
    throttled: dict[str, int]
    waits_for: str
    handshakes: int
    handshakes_failed: int

class Question(NamedTuple):
    connection: int
    slot: int
    principal: str
    host: str
    topics: list[str]

CLOSURE_NAMES: dict[int, str]
THROTTLES: tuple[str, ...]
