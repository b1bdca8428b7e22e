_Ints = memoryview
_Borrowed = tuple[memoryview, memoryview | None, memoryview | None, int]

def record_hashes(
    partition: int,
    offsets: _Ints,
    timestamps: _Ints,
    key: _Borrowed,
    value: _Borrowed,
    lists: _Borrowed,
    header_key: _Borrowed,
    header_value: _Borrowed,
) -> bytearray: ...
