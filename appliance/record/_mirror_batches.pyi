from typing import NamedTuple

_Bytes = bytes | bytearray | memoryview

class Kept(NamedTuple):
    data: bytes
    next_offset: int
    records: int

class Committed(NamedTuple):
    data: bytearray
    runs: list[tuple[int, int]]
    records: int
    is_as_produced: bool

def kept(data: _Bytes, next_offset: int, aborted: list[tuple[int, int]]) -> Kept: ...
def committed(
    data: _Bytes, next_offset: int, aborted: list[tuple[int, int]], join_max: int = ...
) -> tuple[list[Committed], int]: ...
def number(
    batch: bytearray,
    producer_id: int,
    producer_epoch: int,
    sequence: int,
    transactional: bool = ...,
) -> None: ...
def gap(first_offset: int, end_offset: int) -> bytes: ...
