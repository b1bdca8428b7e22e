"""Bulk export over HTTP: what is planned and streamed equals the log, whatever the log is like."""

from __future__ import annotations

import asyncio
import ctypes
import json
import mmap
import os
import re
import socket
import struct
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse, IncompleteRead
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlencode

import pytest

from appliance.admin.bulk_read import BATCHES_MEDIA
from appliance.admin.route import Call
from appliance.bulk import sending
from appliance.bulk._range_reader import RangeReader
from appliance.bulk.sending import Body
from appliance.bulk_http import listener
from appliance.bulk_http.formats import Decoded
from appliance.bulk_http.range_read import OffsetsDeleted, framed
from appliance.bulk_http.routes import with_first_piece
from appliance.testing import RunningBroker, running_broker
from tests.support import logs
from tests.support.bulk_broker import (
    BEGIN_MS,
    COUNT,
    DEADLINE_S,
    SEGMENT_BYTES,
    appliance_settings,
    produce,
    producer,
)
from tests.support.export_stream import Stream, StreamCut, batches, read_stream
from tests.support.logs import batch, break_open, one_log
from tests.support.rest import Answer, Rest

__all__ = ["appliance_settings"]

QUIET_S = 1.0  # without a commit


@pytest.fixture
def rest(appliance_broker: RunningBroker) -> Rest:
    return Rest(appliance_broker.admin)


def plan(rest: Rest, topic: str = "t", **query: Any) -> Any:
    answer = rest.ask("GET", f"/topics/{topic}/plan", prefix="/export/v1", **query)
    assert answer.status == 200, answer.body
    return answer.body


def refused(rest: Rest, path: str, **query: Any) -> tuple[int, str]:
    return rest.refused("GET", path, prefix="/export/v1", **query)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def read(broker: RunningBroker, split: Mapping[str, Any], **query: Any) -> Stream:
    return batches(broker.admin, "t", split["partition"], start=split["start"], end=split["end"],
                   **query)


# The whole of it

@pytest.mark.parametrize("splits", [0, 1, 2, 7, 40])
def test_all_splits_together_are_the_log(
    rest: Rest, appliance_broker: RunningBroker, splits: int
) -> None:
    produce(appliance_broker)
    found = plan(rest, splits=splits)
    assert found["partitions"] == [
        {"partition": 0, "log_start_offset": 0, "end_offset": COUNT, "start": 0, "end": COUNT}]
    each = found["splits"]
    assert (each[0]["start"], each[-1]["end"]) == (0, COUNT)
    assert [one["end"] for one in each[:-1]] == [one["start"] for one in each[1:]]
    assert len(each) == max(1, splits)
    assert each[0]["split"] == "1/t/0/0"
    read_all = [offset for one in each
                for offset in read(appliance_broker, one).offsets(one["start"], one["end"])]
    assert read_all == list(range(COUNT))


def test_splits_are_even_in_bytes(rest: Rest, appliance_broker: RunningBroker) -> None:
    produce(appliance_broker)
    sizes = [each["bytes"] for each in plan(rest, splits=6)["splits"]]
    whole = sum(sizes)
    assert whole == sum(map(len, batches(appliance_broker.admin, "t").frames))
    # a cut lies on a batch that the index knows, or at the beginning of a segment
    assert all(abs(size - whole / 6) < whole / 6 / 4 + 1000 for size in sizes)


def test_partitions_share_the_splits_by_their_bytes(
    rest: Rest, appliance_broker: RunningBroker
) -> None:
    rest.post("/topics", {"name": "t", "partitions": 3})
    produce(appliance_broker)
    made = producer(appliance_broker)
    made.produce("t", b"little", partition=2)
    assert made.flush(DEADLINE_S) == 0
    each = plan(rest, splits=5)["splits"]
    assert [one["partition"] for one in each] == [0] * 5 + [2]


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_batches_are_as_they_are_stored(
    rest: Rest, appliance_broker: RunningBroker, codec: str
) -> None:
    produce(appliance_broker, **{"compression.type": codec})
    stored = b"".join(
        path.read_bytes() for path in sorted(appliance_broker.data_dir.glob("t-0/*.log")))
    found = batches(appliance_broker.admin, "t")
    assert b"".join(found.frames) == stored
    assert found.trailer["next_offset"] == COUNT
    # a frame is of one segment
    assert len(found.frames) >= len(stored) // SEGMENT_BYTES


def test_a_stream_goes_on_where_one_was_cut(appliance_broker: RunningBroker) -> None:
    produce(appliance_broker)
    first = batches(appliance_broker.admin, "t", start=100, end=1234)
    behind = first.trailer["next_offset"]
    assert first.offsets(100, 1234) == list(range(100, 1234))
    assert behind >= 1234
    assert batches(appliance_broker.admin, "t", start=behind).offsets(behind, COUNT) == list(
        range(behind, COUNT))


def test_who_leaves_in_the_middle_is_counted_and_no_error(
    appliance_broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    produce_large(appliance_broker)
    leave(appliance_broker.export, 0)  # maybe before anybody looked what was asked for
    for read_first in (1, 100_000, 1_000_000):
        leave(appliance_broker.export, read_first)
    until(lambda: re.search(r'export_streams_total{ended="cut"} [34]', metrics(
        appliance_broker.admin)) is not None)
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


def produce_large(broker: RunningBroker) -> None:
    """More than the sockets between them hold."""
    Rest(broker.admin).post("/topics", {"name": "t", "configs": {"segment.bytes": "6000000"}})
    made = producer(broker)
    for _ in range(300):
        made.produce("t", os.urandom(60_000), partition=0)
    assert made.flush(DEADLINE_S) == 0


def leave(export: str, read_first: int) -> None:
    """With a reset, as a process that is killed."""
    with asked(export) as connection:
        while read_first > 0:
            data = connection.recv(read_first)
            assert data, f"the answer ended {read_first} bytes early"
            read_first -= len(data)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def asked(export: str) -> socket.socket:
    """Who asked for all of the topic, and has not read anything."""
    host, _, port = export.partition(":")
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
    made.settimeout(DEADLINE_S)
    made.connect((host, int(port)))
    made.sendall(b"GET /export/v1/topics/t/partitions/0/batches HTTP/1.1\r\n"
                 b"Host: %s\r\n\r\n" % export.encode())
    return made


def test_who_does_not_read_holds_no_thread(tmp_path: Path) -> None:
    with running_broker(tmp_path, {"export.threads": "1"}) as broker:
        produce_large(broker)
        idle = [asked(broker.export) for _ in range(3)]
        wanted = batches(broker.admin, "t")
        slow = HTTPResponse(idle[0])
        slow.begin()
        found = bytearray()
        while data := slow.read(50_000):
            found += data
            time.sleep(0.0005)
        assert read_stream(bytes(found)) == wanted
        for each in idle:
            each.close()


def test_who_never_reads_again_holds_no_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sending, "STALLED_SECONDS", 0.3)
    with running_broker(tmp_path) as broker:
        produce_large(broker)
        with asked(broker.export):
            until(lambda: 'export_streams_total{ended="cut"} 1.0' in metrics(broker.admin))
        assert not [each for each in caplog.records if each.levelname == "ERROR"]


def test_one_connection_has_one_after_the_other(appliance_broker: RunningBroker) -> None:
    produce_large(appliance_broker)
    path = "/export/v1/topics/t/partitions/0/batches"
    with closing(HTTPConnection(appliance_broker.export, timeout=DEADLINE_S)) as connection:
        found = []
        for _ in range(3):
            connection.request("GET", path)
            found.append(read_stream(connection.getresponse().read()))
    assert found == [batches(appliance_broker.admin, "t")] * 3


def test_a_stop_lets_a_stream_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "STOP_SECONDS", DEADLINE_S)
    with running_broker(tmp_path, {"export.bytes.per.second": "6000000"}) as broker:
        produce_large(broker)
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(batches, broker.export, "t")
            until(lambda: "export_streams_open 1.0" in metrics(broker.admin))
            broker.stop()
            found = reading.result(DEADLINE_S)
    assert sum(map(len, found.frames)) > 300 * 60_000


def test_a_stop_waits_for_no_reader_for_long(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with running_broker(tmp_path) as broker:
        produce_large(broker)
        with asked(broker.export) as slow, closing(HTTPConnection(broker.export)) as idle:
            idle.request("GET", "/export/v1/topics")
            assert idle.getresponse().read() == b'{"topics": ["t"]}'
            until(lambda: "export_streams_open 1.0" in metrics(broker.admin))
            begin = time.monotonic()
            broker.stop()
            assert time.monotonic() - begin < DEADLINE_S
            with pytest.raises(StreamCut):
                read_stream(rest_of(slow))
            assert idle.sock.recv(1) == b""
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


def rest_of(connection: socket.socket) -> bytes:
    """What comes until it ends, whatever HTTP makes of that."""
    answer = HTTPResponse(connection)
    answer.begin()
    try:
        return answer.read()
    except IncompleteRead as cut:
        return cut.partial


def test_http_1_0_knows_no_chunks(appliance_broker: RunningBroker) -> None:
    produce_large(appliance_broker)
    host, _, port = appliance_broker.export.partition(":")
    with socket.create_connection((host, int(port)), DEADLINE_S) as connection:
        connection.sendall(b"GET /export/v1/topics/t/partitions/0/batches HTTP/1.0\r\n"
                           b"Host: %s\r\n\r\n" % appliance_broker.export.encode())
        head, _, body = b"".join(iter(lambda: connection.recv(1 << 20), b"")).partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert read_stream(body) == batches(appliance_broker.admin, "t")


def metrics(admin: str) -> str:
    with urllib.request.urlopen(f"http://{admin}/metrics", timeout=DEADLINE_S) as answer:
        found: str = answer.read().decode()
        return found


# Bounds

@pytest.mark.parametrize(
    ("begin", "end", "wanted"),
    [
        ("earliest", "latest", (0, COUNT)),
        ("-2", "-1", (0, COUNT)),
        ("10", "20", (10, 20)),
        ("10", "999999", (10, COUNT)),
        ("20", "10", (20, 20)),
        ("999999", "latest", (COUNT, COUNT)),
        (f"@{BEGIN_MS + 100}", f"@{BEGIN_MS + 200}", (100, 200)),
        ("@2023-11-14T22:13:20.500Z", "@2023-11-14T22:13:21", (500, 1000)),
        ("@2023-11-14T23:13:20.500+01:00", "@9999999999999", (500, COUNT)),
        ('{"0": 5}', '{"0": "latest"}', (5, COUNT)),
        ('{"0": -2}', '{"0": "@1700000000007"}', (0, 7)),
    ],
)
def test_bounds(rest: Rest, appliance_broker: RunningBroker, begin: str, end: str,
                wanted: tuple[int, int]) -> None:
    produce(appliance_broker)
    one = plan(rest, **{"from": begin, "to": end})["partitions"][0]
    assert (one["start"], one["end"]) == wanted


def test_a_map_leaves_partitions_out(rest: Rest) -> None:
    rest.post("/topics", {"name": "t", "partitions": 4})
    found = plan(rest, **{"from": '{"1": 0, "3": 0}', "to": '{"3": 0, "2": 0}'})
    assert [each["partition"] for each in found["partitions"]] == [3]
    assert found["splits"] == []


@pytest.mark.parametrize(
    "text", ["soon", "", "1.5", "@", "@monday", "{", '{"0": "soon"}', '{"7": 0}', '{"x": 0}',
             '{"0": null}', "-3", "1" * 30])
def test_what_is_no_bound_is_refused(
    rest: Rest, appliance_broker: RunningBroker, text: str
) -> None:
    produce(appliance_broker, 1)
    assert refused(rest, "/topics/t/plan", **{"from": text}) == (400, "invalid_request")


def test_what_is_not_there_is_refused(rest: Rest, appliance_broker: RunningBroker) -> None:
    assert refused(rest, "/topics/none/plan") == (404, "unknown_topic_or_partition")
    produce(appliance_broker, 1)
    path = "/topics/t/partitions/1/batches"
    assert refused(rest, path) == (404, "unknown_topic_or_partition")
    path = "/topics/t/partitions/0/batches"
    assert refused(rest, path, start=2) == (400, "invalid_request")


def test_a_disk_that_cannot_be_read_is_told_before_the_answer_begins(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        produce(broker, 1)
        (path,) = tmp_path.glob("t-0/*.log")
        break_open(path, by=tmp_path)
        asked = "/topics/t/partitions/0/batches"
        answer = Rest(broker.admin).ask("GET", asked, prefix="/export/v1")
    told = "t-0: cannot read on at offset 0; log start 0, log end 1"
    assert (answer.status, answer.body["error"]["message"]) == (503, told)


def test_offsets_that_retention_deleted_are_told(
    rest: Rest, appliance_broker: RunningBroker
) -> None:
    produce(appliance_broker)
    rest.ask("PATCH", "/topics/t", {"configs": {"retention.bytes": "40000"}})
    until(lambda: bool(plan(rest)["partitions"][0]["log_start_offset"]))
    one = plan(rest, **{"from": "7"})["partitions"][0]
    begin = one["log_start_offset"]
    assert (one["start"], one["lost"]) == (begin, begin - 7)
    assert "lost" not in plan(rest)["partitions"][0]
    answer: Answer = rest.raw("GET", "/export/v1/topics/t/partitions/0/batches?start=7")
    assert (answer.status, answer.body["error"]["code"]) == (410, "offset_out_of_range")
    assert "7" in answer.body["error"]["message"]
    assert str(begin) in answer.body["error"]["message"]


@pytest.mark.parametrize("kind", ["batches", "jsonl"])
def test_a_read_that_retention_overtakes_at_its_beginning_is_told(
    kind: str, tmp_path: Path
) -> None:
    with one_log(tmp_path) as log:
        for _ in range(10):
            log.append_durable(batch("v"))
        reader = RangeReader(log, 0, 10, "end")
        log.delete_before(7)
        read = framed(reader, list) if kind == "batches" else (
            Decoded(reader, kind, ("t", 0), (0, 10), []).piece)
        media = BATCHES_MEDIA if kind == "batches" else "application/x-ndjson"
        threads = SimpleNamespace(on_thread=asyncio.to_thread)
        with pytest.raises(OffsetsDeleted, match="t-0: got start 0, the log starts at 7"):
            asyncio.run(with_first_piece(
                cast(Call, SimpleNamespace(reading=threads)), Body(media, reader, read, 1)))


# Transactions

def test_committed_data_ends_at_the_last_stable_offset(
    rest: Rest, appliance_broker: RunningBroker
) -> None:
    made = producer(appliance_broker, **{"transactional.id": "one"})
    made.init_transactions()
    for ends in (made.commit_transaction, made.abort_transaction, None):
        made.begin_transaction()
        for number in range(10):
            made.produce("t", b"%d" % number, partition=0)
        assert made.flush(DEADLINE_S) == 0
        if ends is not None:
            ends()
    committed = plan(rest)["partitions"][0]
    assert committed["end_offset"] == 22
    assert plan(rest, isolation="read_uncommitted")["partitions"][0]["end_offset"] == 32
    found = batches(appliance_broker.admin, "t")
    [(_, first)] = found.trailer["aborted"]
    assert first == 11
    assert found.trailer["next_offset"] == 22
    assert found.offsets(0, 99) == [*range(10), *range(11, 21)]
    found = batches(appliance_broker.admin, "t", isolation="read_uncommitted")
    assert found.trailer["aborted"] == []
    assert found.offsets(0, 99)[-1] == 31
    made.abort_transaction()


def test_the_end_behind_what_compaction_took_is_reached(
    rest: Rest, appliance_broker: RunningBroker
) -> None:
    rest.post("/topics", {"name": "t", "configs": {
        "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}})
    made = producer(appliance_broker)
    for number in range(COUNT):
        made.produce("t", b"x" * 60, b"k%d" % (number % 10), partition=0)
    assert made.flush(DEADLINE_S) == 0

    def is_compacted() -> bool:
        return len(batches(appliance_broker.admin, "t").offsets(0, COUNT)) < COUNT // 2

    until(is_compacted)
    for end in range(1, COUNT, 111):
        found = batches(appliance_broker.admin, "t", start=0, end=end)
        assert found.trailer["next_offset"] >= end
    splits = plan(rest, splits=5)["splits"]
    assert (splits[0]["start"], splits[-1]["end"]) == (0, COUNT)


def test_json_of_a_plan_is_small_for_a_map_of_bounds(rest: Rest) -> None:
    """A map of a topic's every partition is a parameter of a URL, so it has to fit into one."""
    rest.post("/topics", {"name": "t", "partitions": 150})
    whole = json.dumps({str(number): 10**15 for number in range(150)})
    assert len(urlencode({"from": whole})) < 8190
    assert len(plan(rest, **{"from": whole})["partitions"]) == 150


# Reading leaves the broker as it was

def test_what_was_not_in_the_page_cache_is_not_left_there(
    appliance_broker: RunningBroker, tmp_path: Path
) -> None:
    rest = Rest(appliance_broker.admin)
    # far more than the kernel reads ahead when a batch is looked for
    rest.post("/topics", {"name": "t", "configs": {"segment.bytes": "6000000"}})
    made = producer(appliance_broker)
    for _ in range(600):
        made.produce("t", os.urandom(60_000), partition=0)
    assert made.flush(DEADLINE_S) == 0
    until(lambda: not rest.get("/health")["unflushed"]["records"])
    sealed = sorted(appliance_broker.data_dir.glob("t-0/*.log"))[:-1]
    cold, warm = sealed[: len(sealed) // 2], sealed[len(sealed) // 2 :]
    for path in cold:
        drop(path)
    for path in warm:
        path.read_bytes()
    if any(cached(path) for path in cold):
        pytest.fail(f"{tmp_path}: this file system keeps what it is asked to drop")
    batches(appliance_broker.admin, "t")
    # the last page of a file stays, since it is not whole; so do those that another processor is
    # just putting into its list when they are asked to go
    assert sum(map(cached, cold)) <= sum(map(pages, cold)) // 20
    assert all(cached(path) == pages(path) for path in warm)


def test_the_pace_holds_for_all_together(tmp_path: Path) -> None:
    settings = {"export.bytes.per.second": "1000000"}
    with running_broker(tmp_path, settings) as broker:
        produce(broker, 5000, **{"batch.num.messages": 1000})
        size = sum(map(len, batches(broker.admin, "t").frames))
        begin = time.monotonic()
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda _: batches(broker.admin, "t"), range(3)))
        wanted = 3 * size / 1_000_000
        assert wanted - 0.5 < time.monotonic() - begin < wanted * 3 + 2


def test_beside_commits_the_pace_is_another(tmp_path: Path) -> None:
    settings = {"export.beside.commits.bytes.per.second": "1000000"}
    with running_broker(tmp_path, settings) as broker:
        produce(broker, 50_000, **{"batch.num.messages": 1000})
        with committing(broker) as commits:

            def undisturbed() -> tuple[int, float] | None:
                """None: it was quiet for a while, since who commits got no processor."""
                begun = len(commits)
                found = timed(broker)
                times = [*commits[begun - 1 :], time.monotonic()]
                longest_s = max(later - sooner for sooner, later in pairwise(times))
                return found if longest_s < QUIET_S else None

            size, beside_s = logs.until(undisturbed, 2 * DEADLINE_S)
        assert size > 1_000_000
        assert beside_s > size / 1_000_000 - 0.5
        time.sleep(QUIET_S + 0.5)
        until(lambda: timed(broker)[1] < beside_s / 2)


def timed(broker: RunningBroker) -> tuple[int, float]:
    """Bytes of all batches, and seconds."""
    begin = time.monotonic()
    size = sum(map(len, batches(broker.admin, "t").frames))
    return size, time.monotonic() - begin


@contextmanager
def committing(broker: RunningBroker) -> Iterator[list[float]]:
    """When each was through."""
    begun, ends, through = threading.Event(), threading.Event(), list[float]()

    def commit() -> None:
        while not ends.wait(0.1):
            produce(broker, 1, "other")
            through.append(time.monotonic())
            begun.set()

    thread = threading.Thread(target=commit)
    thread.start()
    try:
        assert begun.wait(DEADLINE_S)
        yield through
    finally:
        ends.set()
        thread.join()


def test_so_many_streams_and_no_more(tmp_path: Path) -> None:
    with running_broker(tmp_path, {"export.streams.max": "1", "export.bytes.per.second": "1000"}
                        ) as broker:
        produce(broker, 3000)
        path = f"http://{broker.admin}/export/v1/topics/t/partitions/0/batches"
        rest = Rest(broker.admin)
        with urllib.request.urlopen(path, timeout=DEADLINE_S):
            answer = rest.raw("GET", path.partition(broker.admin)[2])
            assert (answer.status, answer.body["error"]["code"]) == (
                429, "throttling_quota_exceeded")


libc = ctypes.CDLL(None)


def drop(path: Path) -> None:
    with path.open("rb") as file:
        os.fdatasync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def pages(path: Path) -> int:
    return -(-path.stat().st_size // 4096)


def cached(path: Path) -> int:
    """Its pages in the page cache."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        found = (ctypes.c_ubyte * pages(path))()
        begin = ctypes.c_char.from_buffer(mapped)
        address = ctypes.c_void_p(ctypes.addressof(begin))
        assert libc.mincore(address, ctypes.c_size_t(len(mapped)), found) == 0
        del begin, address
        return sum(each & 1 for each in found)


def test_offsets_of_a_topic_that_was_made_anew_are_refused(
    rest: Rest, appliance_broker: RunningBroker
) -> None:
    produce(appliance_broker)
    was = plan(rest)["topic_id"]
    assert plan(rest, topic_id=was)["topic_id"] == was
    assert rest.ask("DELETE", "/topics/t").status == 204
    assert rest.ask("POST", "/topics", {"name": "t", "partitions": 1}).status == 201
    produce(appliance_broker)
    now = plan(rest)["topic_id"]
    for path in ("/topics/t/plan", "/topics/t/partitions/0/batches"):
        assert refused(rest, path, topic_id=was) == (409, "inconsistent_topic_id")
        answer = rest.ask("GET", path, prefix="/export/v1", topic_id=was)
        assert f"topic t has id {now}, got {was}: it was deleted and created" in str(answer.body)
    assert rest.raw("GET", f"/export/v1/topics/t/partitions/0/batches?topic_id={now}").status == 200
