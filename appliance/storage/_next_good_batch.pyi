from collections.abc import Iterator

from typing_extensions import disjoint_base

@disjoint_base
class WholeBatches:
    def __new__(
        cls,
        fd: int,
        size: int,
        *,
        position: int = ...,
        low: int = ...,
        end_offset: int = ...,
        is_sure: bool = ...,
    ) -> WholeBatches: ...
    def __iter__(self) -> Iterator[tuple[int, int, int, int, int, bool]]: ...
    def __next__(self) -> tuple[int, int, int, int, int, bool]: ...
