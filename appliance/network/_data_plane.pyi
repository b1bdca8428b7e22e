import socket
from typing import NamedTuple

from typing_extensions import disjoint_base

from appliance._log import Engine, Log
from appliance.config import NetworkConfig
from appliance.network._tls_context import TlsContext

class Arrival(NamedTuple):
    connection: int
    listener: int
    peer: str
    subject: bytes

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
    age_ms: int
    idle_ms: int
    requests: int
    in_flight: int
    bytes_in: int
    bytes_out: int
    held_bytes: int
    mute_ms: int

CLOSURE_NAMES: dict[int, str]

@disjoint_base
class Punt:
    @property
    def connection(self) -> int: ...
    @property
    def slot(self) -> int: ...
    @property
    def peer(self) -> str: ...
    @property
    def listener(self) -> int: ...
    @property
    def frame(self) -> bytes: ...

@disjoint_base
class DataPlane:
    def __new__(cls, engine: Engine, config: NetworkConfig) -> DataPlane: ...
    def listen(self, listener: socket.socket, tls: TlsContext | None = ...) -> None: ...
    def start(self) -> None: ...
    def stop(self, drain_ms: int) -> None: ...
    @property
    def punt_fd(self) -> int: ...
    def punts(self) -> tuple[list[Punt], list[int]]: ...
    def arrivals(self) -> list[Arrival]: ...
    def closures(self) -> tuple[list[Closure], int]: ...
    def reply_all(self, answers: list[tuple[int, int, bytes | None]]) -> None: ...
    def close(self, connection: int) -> None: ...
    def put_topic(
        self,
        name: str,
        topic_id: bytes,
        logs: list[Log | None],
        is_internal: bool = ...,
        mirror_source: str = ...,
    ) -> None: ...
    def remove_topic(self, name: str) -> None: ...
    def set_rates(
        self, kind: int, named: dict[str, int], others: int, of_user: int
    ) -> None: ...
    def limit_connections_per_ip(self, most: int) -> None: ...
    def counters(self) -> dict[str, int]: ...
    def connections(self, timeout_ms: int) -> list[ConnectionFacts] | None: ...
    def request_times(self) -> list[tuple[int | None, list[int], int, bool]]: ...
    def turn_times(self) -> list[tuple[list[int], int]]: ...
    def topic_counts(self, name: str) -> tuple[int, int, int] | None: ...
