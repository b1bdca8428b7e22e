from typing import NamedTuple

from typing_extensions import disjoint_base

from appliance._log import Log
from appliance.config import ReplicationConfig
from appliance.network._tls_context import TlsContext
from appliance.replication.inter_broker_login import InterBrokerLogin

class PartitionState(NamedTuple):
    topic_id: bytes
    topic: str
    partition: int
    offset: int
    log_end_offset: int
    watermark: int
    leader_epoch: int
    bytes: int
    cuts: int
    error: int
    reason: str
    retry_ms: int

class UntoldCut(NamedTuple):
    topic_id: bytes
    topic: str
    partition: int
    offset: int
    log_end_offset: int
    watermark: int

@disjoint_base
class FollowersQuota:
    def set_rate(self, rate: int) -> None: ...

@disjoint_base
class Fetcher:
    def __new__(
        cls,
        leader_node: int,
        host: str,
        port: int,
        own_node: int,
        own_life: int,
        config: ReplicationConfig,
        tls: TlsContext | None = ...,
        login: InterBrokerLogin | None = ...,
        quota: FollowersQuota | None = ...,
    ) -> Fetcher: ...
    @property
    def leader_node(self) -> int: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    def start(self) -> None: ...
    def stop(self, wait_ms: int = ...) -> bool: ...
    def add(
        self, topic_id: bytes, topic: str, partition: int, log: Log, unclean_epoch: int = ...
    ) -> None: ...
    def untold_cuts(self) -> list[UntoldCut]: ...
    def allow_cut(self, topic_id: bytes, partition: int, offset: int) -> bool: ...
    def remove(self, topic_id: bytes, partition: int) -> bool: ...
    life: int
    def states(self) -> list[PartitionState]: ...
    @property
    def is_connected(self) -> bool: ...
    @property
    def failure(self) -> str: ...
    def counters(self) -> dict[str, int]: ...
