from typing import Literal

from typing_extensions import disjoint_base

from appliance.record._records import Record

_Bytes = bytes | bytearray | memoryview

@disjoint_base
class BatchInfo:
    position: int
    base_offset: int
    size: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    leader_epoch: int
    last_offset_delta: int
    base_sequence: int
    records_count: int
    crc: int
    attributes: int
    producer_epoch: int
    magic: int
    def text(self) -> str: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def codec(self) -> int: ...
    @property
    def is_append_time(self) -> bool: ...
    @property
    def is_transactional(self) -> bool: ...
    @property
    def is_control(self) -> bool: ...
    @property
    def delete_horizon_ms(self) -> int | None: ...

@disjoint_base
class Payload: ...

def headers(data: _Bytes, *, partial_tail: bool = False) -> list[BatchInfo]: ...
def records(data: _Bytes, *, partial_tail: bool = False, size_max: int = ...) -> list[Record]: ...
def control(batch: _Bytes) -> tuple[Literal["commit", "abort"], int] | None: ...
