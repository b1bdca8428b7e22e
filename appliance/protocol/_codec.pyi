from collections.abc import Callable
from typing import Any
from uuid import UUID

from typing_extensions import disjoint_base

_Bytes = bytes | bytearray | memoryview

KINDS: dict[str, int]
NO_UUID: UUID

class Malformed(Exception): ...

@disjoint_base
class Field:
    def __init__(
        self,
        name: str,
        kind: str,
        *,
        nullable: bool = ...,
        tag: int = ...,
        default: object = ...,
        factory: Callable[[], object] | None = ...,
        each: Field | None = ...,
        plan: Plan | None = ...,
        bytes_min: int = ...,
    ) -> None: ...

@disjoint_base
class Plan:
    def __init__(
        self,
        made: type,
        *,
        line: tuple[Field, ...],
        tagged: tuple[Field, ...],
        absent: tuple[Field, ...],
        flexible: bool,
    ) -> None: ...
    def encode(self, message: object) -> bytes: ...
    def encode_parts(self, message: object) -> list[_Bytes]: ...
    def decode(self, octets: _Bytes, at: int = ..., borrow: bool = ...) -> tuple[Any, int]: ...

def skip_tags(octets: _Bytes, at: int) -> int: ...
