from collections.abc import Iterable
from typing import NamedTuple

from appliance.storage._log_description import LogView

class LogFacts(NamedTuple):
    log_start_offset: int
    log_end_offset: int
    durable_offset: int
    high_watermark: int
    last_stable_offset: int
    leader_epoch: int
    segments: int
    size: int
    largest_timestamp: int
    unflushed_records: int
    unflushed_bytes: int
    unflushed_age_ms: int
    flush_took_us: int
    flushed_ago_ms: int
    batches_of_clients: int
    bytes_of_clients: int
    records_of_clients: int
    is_alive: bool

def log_facts(logs: Iterable[LogView]) -> list[LogFacts]: ...
