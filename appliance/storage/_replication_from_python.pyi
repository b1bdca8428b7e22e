from collections.abc import Sequence
from typing import NamedTuple

from typing_extensions import disjoint_base

from appliance.storage._append_from_python import LogAppender

ROLES: tuple[str, ...]

class ReplicaState(NamedTuple):
    node: int
    life: int
    end_offset: int
    lag_ms: int
    is_in_sync: bool
    is_joining: bool

@disjoint_base
class LogReplica(LogAppender):
    @property
    def role(self) -> str: ...
    @property
    def leader(self) -> int: ...
    @property
    def election(self) -> int: ...
    def lead(
        self,
        epoch: int,
        leader: int,
        others: Sequence[int],
        in_sync: Sequence[int],
        min_in_sync: int,
    ) -> None: ...
    def follow(self, epoch: int, leader: int) -> None: ...
    def set_in_sync(
        self, epoch: int, in_sync: Sequence[int], joining: Sequence[int], min_in_sync: int
    ) -> None: ...
    def replicas(self) -> list[ReplicaState]: ...
    def fetched_by(self, node: int, life: int, epoch: int, offset: int) -> None: ...
    def append_replicated(self, batches: bytes | bytearray | memoryview, epoch: int) -> int: ...
    def tell_replicated(self, epoch: int, watermark: int) -> None: ...
    def diverging(self, last_epoch: int, offset: int) -> tuple[int, int] | None: ...
    def cut(self, epoch: int, end_offset: int) -> None: ...
    def begin_at(self, offset: int) -> None: ...
