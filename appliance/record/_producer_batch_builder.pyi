from typing_extensions import Buffer, disjoint_base

@disjoint_base
class EncodedRecords:
    data: bytes
    count: int
    base_timestamp: int
    max_timestamp: int

def encode_records(
    values: list[bytes | None],
    keys: list[bytes | None] | None,
    timestamps: int | list[int],
    start: int,
    size_max: int,
    headers: list[bytes | None] | None = None,
) -> EncodedRecords: ...
def encode_headers(pairs: list[tuple[bytes, bytes | None]]) -> bytes: ...
def batch_head(
    records: EncodedRecords,
    payload: Buffer,
    codec: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes: ...
def key_hash(key: bytes) -> int: ...
def check_fields(given: list[bytes | None], what: str) -> None: ...
def split_by_key(
    keys: list[bytes | None], values: list[bytes | None], count: int
) -> list[tuple[list[bytes | None], list[bytes | None]]]: ...
