from collections.abc import Sequence
from typing import NamedTuple

from typing_extensions import disjoint_base

from appliance._log import Log
from appliance.errors import ApplianceError

class Written(NamedTuple):
    error: ApplianceError | None
    base_offset: int
    last_offset: int
    append_time: int
    election: int

@disjoint_base
class LogWriter:
    def __new__(cls) -> LogWriter: ...
    @property
    def fd(self) -> int: ...
    def begin(
        self,
        batches: Sequence[tuple[Log, bytes, int] | tuple[Log, bytes, int, str, bool]],
        timeout_s: float | None,
    ) -> None: ...
    def take(self) -> list[Written] | None: ...
    def close(self) -> None: ...
