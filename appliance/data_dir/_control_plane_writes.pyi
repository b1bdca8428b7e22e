from collections.abc import Sequence

from typing_extensions import disjoint_base

from appliance._log import Log
from appliance.errors import ApplianceError

_Bytes = bytes | bytearray | memoryview

@disjoint_base
class LogWriter:
    def __new__(cls) -> LogWriter: ...
    @property
    def fd(self) -> int: ...
    def begin(self, batches: Sequence[tuple[Log, _Bytes, int]], timeout_s: float) -> None: ...
    def take(self) -> list[tuple[ApplianceError | None, int]] | None: ...
    def close(self) -> None: ...
