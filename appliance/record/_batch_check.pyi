from appliance.record._batch import BatchInfo

_Bytes = bytes | bytearray | memoryview

def check(
    batch: _Bytes, *, deep: bool = False, keys_required: bool = False, size_max: int = ...
) -> BatchInfo: ...
def stamp(
    batch: bytearray | memoryview,
    base_offset: int,
    leader_epoch: int,
    append_time_ms: int | None = None,
) -> None: ...
