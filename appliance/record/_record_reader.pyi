from collections.abc import Iterator
from typing import Any

from typing_extensions import disjoint_base

_Bytes = bytes | bytearray | memoryview

@disjoint_base
class Message:
    topic: str
    partition: Any
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

@disjoint_base
class ConsumerPosition:
    next_offset: int
    done: int
    is_over: bool
    def __init__(self, offset: int) -> None: ...

@disjoint_base
class RecordReader:
    progress: ConsumerPosition
    end_offset: int
    size: int
    def __init__(
        self,
        data: _Bytes,
        topic: str,
        partition: Any,
        progress: ConsumerPosition,
        *,
        end_offset: int = ...,
        size_max: int = ...,
    ) -> None: ...
    def __iter__(self) -> Iterator[Message]: ...
    def __next__(self) -> Message: ...

@disjoint_base
class MessageIterator:
    def __iter__(self) -> Iterator[Message]: ...
    def __next__(self) -> Message: ...
    def next_reader(self) -> RecordReader: ...

def whole_batches(data: _Bytes, end_offset: int) -> tuple[int, int]: ...
