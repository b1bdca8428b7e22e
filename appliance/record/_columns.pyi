from collections.abc import Iterable

from typing_extensions import disjoint_base

_Bytes = bytes | bytearray | memoryview

COLUMNS_SIZE_MAX: int

@disjoint_base
class Buffer:
    def __len__(self) -> int: ...

@disjoint_base
class BinaryColumn:
    null_count: int
    def __len__(self) -> int: ...
    def buffers(self) -> list[Buffer | None]: ...

@disjoint_base
class Aborted:
    def __new__(cls, pairs: Iterable[tuple[int, int]]) -> Aborted: ...

@disjoint_base
class Columns:
    next_offset: int
    size: int
    key: BinaryColumn
    value: BinaryColumn
    header_key: BinaryColumn
    header_value: BinaryColumn
    def __len__(self) -> int: ...
    @property
    def offset(self) -> Buffer: ...
    @property
    def timestamp(self) -> Buffer: ...
    @property
    def timestamp_type(self) -> Buffer: ...
    @property
    def header_lists(self) -> Buffer: ...

def is_transactional(data: _Bytes) -> bool: ...
def columns(
    data: _Bytes,
    *,
    partial_tail: bool = False,
    first_offset: int = 0,
    end_offset: int = ...,
    size_max: int = ...,
    aborted: Aborted | None = None,
    keys: bool = True,
    values: bool = True,
    headers: bool = True,
    enough: int = ...,
) -> Columns: ...
