from typing import NamedTuple

from typing_extensions import disjoint_base

class SegmentInfo(NamedTuple):
    base_offset: int
    end_offset: int
    size: int
    largest_timestamp: int | None
    path: str

class ProducerInfo(NamedTuple):
    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    txn_first_offset: int
    last_timestamp: int
    coordinator_epoch: int

@disjoint_base
class LogView:
    name: str
    topic: str
    partition: int
    directory: str
    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def durable_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def last_stable_offset(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def failed(self) -> str | None: ...
    @property
    def waits_for_room(self) -> bool: ...
    @property
    def is_closed(self) -> bool: ...
    @property
    def failed_text(self) -> str: ...
    @property
    def unflushed_age_ms(self) -> int: ...
    @property
    def size(self) -> int: ...
    def holes(self) -> list[tuple[int, int]]: ...
    def segments(self) -> list[SegmentInfo]: ...
    def files_held(self) -> int: ...
    def producers(self) -> list[ProducerInfo]: ...
