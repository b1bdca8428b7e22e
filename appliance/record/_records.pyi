from collections.abc import Iterable

from typing_extensions import disjoint_base

_Bytes = bytes | bytearray | memoryview

@disjoint_base
class Record:
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    def __init__(
        self,
        timestamp: int,
        key: _Bytes | None,
        value: _Bytes | None,
        headers: Iterable[tuple[str, _Bytes | None]] = (),
        offset: int = -1,
    ) -> None: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
