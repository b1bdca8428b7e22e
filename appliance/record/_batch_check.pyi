from appliance.record._batch import BatchInfo

_Bytes = bytes | bytearray | memoryview

def check(
    batch: _Bytes, *, deep: bool = False, keys_required: bool = False, size_max: int = ...
) -> BatchInfo: ...
