from typing import NamedTuple

from appliance._log import Log

class HoleInfo(NamedTuple):
    first_offset: int
    end_offset: int
    position: int
    end_position: int
    is_skipped: bool

def holes(log: Log) -> list[HoleInfo]: ...
def skip(log: Log, first_offset: int, end_offset: int) -> list[HoleInfo]: ...
def fill(
    log: Log,
    source_fd: int,
    batches: list[tuple[int, int]],
    *,
    dry_run: bool = ...,
) -> None: ...
