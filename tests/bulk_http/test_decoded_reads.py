"""Bulk reads that the broker decodes: for readers of files, and for people."""

from __future__ import annotations

import base64
import csv
import io
import json
import socket
import urllib.request
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlencode

import pyarrow
import pytest
from pyarrow import parquet

from appliance.bulk._range_reader import RangeReader
from appliance.bulk.line import Line
from appliance.bulk.sending import Body, Reader, Sending
from appliance.bulk_http.formats import PIECE_BYTES, Decoded
from appliance.bulk_http.range_read import DECODED_STEP_BYTES
from appliance.testing import RunningBroker, running_broker
from tests.support.bulk_broker import (
    BEGIN_MS,
    COUNT,
    DEADLINE_S,
    appliance_settings,
    produce,
    producer,
)
from tests.support.logs import batch, one_log
from tests.support.rest import Rest

__all__ = ["appliance_settings"]

COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]


def decoded(broker: RunningBroker, kind: str, **query: Any) -> bytes:
    text = urlencode({"format": kind, **query})
    path = f"/export/v1/topics/t/partitions/0/batches?{text}"
    with urllib.request.urlopen(f"http://{broker.admin}{path}", timeout=DEADLINE_S) as answer:
        data: bytes = answer.read()
        return data


def produce_some(broker: RunningBroker) -> None:
    made = producer(broker, **{"compression.type": "zstd"})
    for number in range(COUNT):
        key = None if number % 5 == 0 else b"k%d" % number
        value = b"\xff%d" % number if number % 7 == 0 else b"value %d" % number
        made.produce("t", value, key, partition=0, timestamp=BEGIN_MS + number,
                     headers=[("h", b"x"), ("none", None)] if number % 3 == 0 else None)
    assert made.flush(DEADLINE_S) == 0


def check_rows(rows: list[dict[str, Any]]) -> None:
    assert [row["offset"] for row in rows] == list(range(10, COUNT - 10))
    one = rows[35 - 10]
    assert (one["key"], one["value"], one["topic"], one["partition"]) == (None, b"\xff35", "t", 0)
    assert one["timestamp"].timestamp() * 1000 == BEGIN_MS + 35
    assert one["timestampType"] == 0
    assert rows[36 - 10]["headers"] == [
        {"key": "h", "value": b"x"}, {"key": "none", "value": None}]


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_columns_for_readers_of_files(appliance_broker: RunningBroker, kind: str) -> None:
    produce_some(appliance_broker)
    data = decoded(appliance_broker, kind, start=10, end=COUNT - 10)
    found = (pyarrow.ipc.open_stream(data).read_all() if kind == "arrow"
             else parquet.read_table(io.BytesIO(data)))
    assert found.column_names == COLUMNS
    check_rows(found.to_pylist())


def test_text_for_people(appliance_broker: RunningBroker) -> None:
    produce_some(appliance_broker)
    lines = decoded(appliance_broker, "jsonl", start=10, end=COUNT - 10).decode().splitlines()
    rows = [json.loads(line) for line in lines]
    table = decoded(appliance_broker, "csv", start=10, end=COUNT - 10).decode()
    assert [int(row["offset"]) for row in csv.DictReader(io.StringIO(table))] == [
        row["offset"] for row in rows]
    for row in rows:
        for name in ("key", "value"):
            text, is_base64 = row[name], row.pop(f"{name}_is_base64")
            row[name] = (None if text is None else base64.b64decode(text) if is_base64
                         else text.encode())
        row["timestamp"] = datetime.fromisoformat(row["timestamp"])
        for each in row["headers"]:
            assert not each.pop("is_base64")
            each["value"] = None if each["value"] is None else each["value"].encode()
    check_rows(rows)


@pytest.mark.parametrize("kind", ["arrow", "parquet", "jsonl", "csv"])
def test_an_empty_range_is_a_file(appliance_broker: RunningBroker, kind: str) -> None:
    produce(appliance_broker, 1)
    data = decoded(appliance_broker, kind, start=1)
    if kind == "parquet":
        assert parquet.read_table(io.BytesIO(data)).num_rows == 0
    elif kind == "arrow":
        assert pyarrow.ipc.open_stream(data).read_all().num_rows == 0
    else:
        assert len(data.splitlines()) == (1 if kind == "csv" else 0)


def test_what_was_aborted_is_not_decoded(appliance_broker: RunningBroker) -> None:
    made = producer(appliance_broker, **{"transactional.id": "one"})
    made.init_transactions()
    for ends in (made.commit_transaction, made.abort_transaction, made.commit_transaction):
        made.begin_transaction()
        for number in range(10):
            made.produce("t", b"%d" % number, partition=0)
        assert made.flush(DEADLINE_S) == 0  # an abort forgets what was not sent
        ends()
    offsets = [json.loads(line)["offset"]
               for line in decoded(appliance_broker, "jsonl").splitlines()]
    assert offsets == [*range(10), *range(22, 32)]
    every = decoded(appliance_broker, "jsonl", isolation="read_uncommitted").splitlines()
    assert len(every) == 30


def test_so_many_are_decoded_and_no_more(tmp_path: Path) -> None:
    given = {"export.decoded.streams.max": "1", "export.bytes.per.second": "1000"}
    with running_broker(tmp_path, given) as broker:
        produce(broker, 3000)
        path = "/export/v1/topics/t/partitions/0/batches"
        url, told = f"http://{broker.admin}{path}", "1 bulk reads are decoded here, wanted"
        with urllib.request.urlopen(f"{url}?format=jsonl", timeout=DEADLINE_S):
            answer = Rest(broker.admin).raw("GET", f"{path}?format=csv")
            assert answer.status == 429
            assert told in answer.body["error"]["message"]
            with urllib.request.urlopen(url, timeout=DEADLINE_S) as found:
                assert found.status == 200


def test_what_packs_much_is_decoded_in_parts(tmp_path: Path) -> None:
    """Until its reader takes it, a piece is in memory."""
    with one_log(tmp_path) as log:
        for number in range(40):
            log.append_durable(batch(f"{number:02}" + "v" * 1_000_000, codec="zstd"))
        decoded = Decoded(RangeReader(log, 0, 40, "end"), "arrow", ("t", 0), (0, 40), [])
        pieces = list(iter(decoded.piece, None))
        assert max(map(len, pieces)) < PIECE_BYTES + 1_100_000
        table = pyarrow.ipc.open_stream(b"".join(pieces)).read_all()
        assert [each[:2] for each in table["value"].to_pylist()] == [
            f"{number:02}".encode() for number in range(40)]  # fmt: skip


def test_a_step_decodes_one_piece(tmp_path: Path) -> None:
    """Others wait for the thread."""
    with one_log(tmp_path) as log:
        for _ in range(40):
            log.append_durable(batch("v" * 1_000_000, codec="zstd"))
        decoded, made = Decoded(RangeReader(log, 0, 40, "end"), "arrow", ("t", 0), (0, 40), []), 0

        def piece() -> bytes | None:
            nonlocal made
            made += 1
            return decoded.piece()

        ours, theirs = socket.socketpair()
        line = SimpleNamespace(socket=ours, send_some=lambda left: sum(map(len, left)))
        reader = SimpleNamespace(bytes=0, is_quiet=True)  # nobody commits, and the frame is read
        body = Body("", cast(Reader, reader), piece, DECODED_STEP_BYTES)
        sending = Sending(body, cast(Line, line), lambda each: [each])
        with ours, theirs:
            for number in range(1, 4):
                sending.step()
                assert made == number
