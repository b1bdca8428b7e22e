from collections.abc import Iterable

from appliance.record._records import Record

_Bytes = bytes | bytearray | memoryview
_Headers = Iterable[tuple[str, _Bytes | None]]
_Given = (
    Record
    | tuple[int, _Bytes | None, _Bytes | None]
    | tuple[int, _Bytes | None, _Bytes | None, _Headers]
)

def batch(
    records: Iterable[_Given],
    base_offset: int = 0,
    codec: int | str = 0,
    base_timestamp: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    leader_epoch: int = -1,
) -> bytes: ...
def control_batch(
    kind: str,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes: ...
