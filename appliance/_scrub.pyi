from typing import NamedTuple

from typing_extensions import disjoint_base

from appliance._engine import Log

class ScrubFinding(NamedTuple):
    what: str
    first_offset: int
    end_offset: int
    file: str
    position: int
    end_position: int
    text: str

@disjoint_base
class SegmentScan:
    def __new__(cls, log: Log, base_offset: int) -> SegmentScan: ...
    def step(self, bytes_max: int) -> bool: ...
    def settle(self) -> list[ScrubFinding]: ...
    def mark(self) -> None: ...
    @property
    def is_moot(self) -> bool: ...
    @property
    def read_bytes(self) -> int: ...
    @property
    def position(self) -> int: ...
    @property
    def held_bytes(self) -> int: ...
    @property
    def is_direct(self) -> bool: ...
