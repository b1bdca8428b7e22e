"""Record batches: the broker's work on arrival of one, and the readers' work on many.

    python -m bench.batch

check    the rules for client batches: header, CRC and, if uncompressed, a walk of every record
records  a Python object per record
columns  Arrow columns, without a Python object per record

Best of many rounds; 1000 records of about 118 bytes per batch, 50 batches per read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from appliance.record import _batch, _batch_builder, _batch_check, _records, arrow
from appliance.record.compression import NAMES

RECORDS_COUNT = 1000
BATCHES_COUNT = 50
SECONDS_A_FIGURE = 0.5


def seconds(work: Callable[[], object]) -> float:
    """Seconds of the fastest call within SECONDS_A_FIGURE."""
    best, ends = float("inf"), time.perf_counter() + SECONDS_A_FIGURE
    while time.perf_counter() < ends:
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best


def given(headers_count: int) -> list[_records.Record]:
    headers = [("trace", b"0123456789abcdef")] * headers_count
    return [
        _records.Record(1700000000000 + i, b"key-%d" % i, os.urandom(100), headers)
        for i in range(RECORDS_COUNT)
    ]


def row(name: str, records: list[_records.Record], codec: str) -> str:
    batches = [
        _batch_builder.batch(records, base_offset=i * RECORDS_COUNT, codec=codec)
        for i in range(BATCHES_COUNT)
    ]
    one, data = bytearray(batches[0]), b"".join(batches)
    checked = len(one) / seconds(lambda: _batch_check.check(one)) / 1e9
    count = RECORDS_COUNT * BATCHES_COUNT
    decoded = count / seconds(lambda: _batch.records(data)) / 1e6
    columns = count / seconds(lambda: arrow.record_batch(data)) / 1e6
    figures = f"{checked:10.1f}{decoded:12.2f}{columns:12.2f}"
    return f"{name:12}{codec:8}{len(one):8}{figures}"


def small_batches() -> str:
    """Producers with keys send batches of one record, so the figure is nanoseconds per batch."""
    one = bytearray(_batch_builder.batch(given(0)[:1]))
    took = seconds(lambda: [_batch_check.check(one) for _ in range(1000)]) / 1000
    return (
        f"one record of {len(one)} bytes: check {took * 1e9:.0f} ns, with the call from Python"
    )


def main() -> None:
    print("records     codec      bytes  check GB/s records M/s columns M/s")
    for name, records in (("plain", given(0)), ("one header", given(1))):
        for codec in NAMES:
            print(row(name, records, codec))
    records = given(0)
    rate = RECORDS_COUNT / seconds(lambda: _batch_builder.batch(records))
    print(f"build: {rate / 1e6:.2f} M records/s")
    print(small_batches())


if __name__ == "__main__":
    main()
