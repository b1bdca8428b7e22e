from typing import NamedTuple

from typing_extensions import disjoint_base

from appliance.storage._read_from_python import LogReader

_Bytes = bytes | bytearray | memoryview

ORIGINS: dict[str, int]

class Appended(NamedTuple):
    base_offset: int
    last_offset: int
    append_time: int
    duplicate: bool

@disjoint_base
class LogAppender(LogReader):
    @property
    def is_compacted(self) -> bool: ...
    def append(
        self,
        batch: _Bytes,
        *,
        leader_epoch: int | None = ...,
        origin: str = ...,
        now_ms: int | None = ...,
    ) -> Appended: ...
    def append_in_place(
        self,
        batch: bytearray | memoryview,
        *,
        leader_epoch: int | None = ...,
        origin: str = ...,
        now_ms: int | None = ...,
    ) -> Appended: ...
    def append_mirrored(self, batches: _Bytes) -> Appended: ...
    def append_durable(
        self,
        batch: _Bytes,
        *,
        leader_epoch: int | None = ...,
        origin: str = ...,
        now_ms: int | None = ...,
        timeout_s: float = ...,
    ) -> Appended: ...
    def await_durable(
        self, offset: int, timeout_s: float = ..., election: int | None = ...
    ) -> None: ...
    def flush(self, timeout_s: float = ...) -> None: ...
    def ask_commit(self) -> None: ...
