"""From a frame to its answer: what is answered, what closes the connection, what waits its turn."""

from __future__ import annotations

import asyncio
import itertools
import logging
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from appliance.api import closed_connections, dispatch
from appliance.api.handlers import HANDLERS, SERVED
from appliance.errors import TimedOut
from appliance.process import event_log
from appliance.protocol import API, codec, headers
from appliance.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from appliance.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from appliance.protocol.messages.list_offsets import ListOffsetsRequest
from appliance.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.control import Closed, Control
from tests.support.wire_client import frame_of


def header(key: int, version: int, correlation_id: int = 5) -> bytes:
    return struct.pack(">hhih", key, version, correlation_id, -1)


def test_an_answer_has_the_correlation_id_of_its_request(control: Control) -> None:
    frame = control.raw(frame_of(MetadataRequest(topics=[]), 3, 1, correlation_id=-9))
    assert frame is not None
    correlation_id, body = headers.decode_response(frame, 3, 1)
    assert correlation_id == -9
    assert codec.decode(MetadataResponse, body, 1).brokers[0].node_id == 1


def test_a_client_without_a_name_is_served(control: Control) -> None:
    assert control.raw(header(3, 0) + struct.pack(">i", 0)) is not None


@pytest.mark.parametrize("key", [-1, 4, 52, 999])
def test_an_unknown_key_closes_the_connection(
    control: Control, key: int, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(Closed):
        control.raw(header(key, 0))
    (record,) = caplog.records
    assert f"API key {key} is not served" in record.facts["why"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("key", sorted(SERVED))
def test_a_version_outside_the_range_closes_the_connection(
    control: Control,
    key: int,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(closed_connections, "WINDOW_S", 0.0)  # each is told
    first, last = max(SERVED[key][0], API[key].versions[0]), SERVED[key][1]
    for connection, version in enumerate((first - 1, last + 1, 32767, -1), 1):
        event_log.repeats.forget()
        frame = header(key, version) + b"\0" * 40
        if key == 18:
            assert control.raw(frame, connection) is not None
            continue
        with pytest.raises(Closed):
            control.raw(frame, connection)
        facts = caplog.records[-1].facts  # type: ignore[attr-defined]
        assert f"version {version} is not served, only {first} to {last}" in facts["why"]
        assert facts["api_key"] == key


@pytest.mark.parametrize("version", [5, 6, 127, 32767, -1])
def test_api_versions_of_an_unknown_version_tells_its_range(control: Control, version: int) -> None:
    # what follows the first eight bytes is anybody's guess
    frame = control.raw(struct.pack(">hhi", 18, version, 5) + b"\xff" * 7)
    assert frame is not None
    correlation_id, body = headers.decode_response(frame, 18, 0)
    answer = codec.decode(ApiVersionsResponse, body, 0)
    assert (correlation_id, answer.error_code) == (5, 35)
    rows = [(each.api_key, each.min_version, each.max_version) for each in answer.api_keys]
    assert rows == [(18, 0, 4)]


MALFORMED = {
    "no bytes": b"",
    "half a header": header(3, 1)[:7],
    "client id longer than the frame": struct.pack(">hhih", 3, 1, 5, 300) + b"abc",
    "client id that is not text": struct.pack(">hhih", 3, 1, 5, 2) + b"\xff\xfe\0\0\0\0",
    "half a body": header(3, 1) + b"\0\0",
    "an array of two thousand million": header(3, 1) + struct.pack(">i", 2**31 - 1),
    "a negative count": header(3, 0) + struct.pack(">i", -1),
    "tags that never end": header(3, 9) + b"\xff" * 9,
}


@pytest.mark.parametrize("frame", MALFORMED.values(), ids=MALFORMED)
def test_what_cannot_be_read_closes_the_connection(
    control: Control, frame: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(Closed):
        control.raw(frame)
    assert [each.message for each in caplog.records] == ["connection closed"]
    assert control.raw(header(3, 0) + struct.pack(">i", 0), connection=2) is not None


def test_bytes_after_the_end_are_ignored(control: Control) -> None:
    """librdkafka sends some behind an empty array, and Kafka does not mind."""
    assert control.raw(header(3, 1) + struct.pack(">i", 0) + b"xyz") is not None


def test_every_handler_survives_every_cut_of_its_request(control: Control) -> None:
    connection = 1
    for key in HANDLERS:
        whole = frame_of(API[key].request(), key, HANDLERS[key].VERSIONS[1])
        for size in range(len(whole)):
            connection += 1
            if key == 18:
                continue
            with pytest.raises(Closed):
                control.raw(whole[:size], connection)


def broken(monkeypatch: pytest.MonkeyPatch, key: int, fault: Exception, is_async: bool) -> None:
    def handle(*_: Any) -> Any:
        raise fault

    async def handle_later(*_: Any) -> Any:
        await asyncio.sleep(0)
        raise fault

    monkeypatch.setattr(HANDLERS[key], "handle", handle_later if is_async else handle)


@pytest.mark.parametrize("is_async", [False, True])
def test_an_error_is_told_in_the_apis_own_words(
    control: Control, monkeypatch: pytest.MonkeyPatch, is_async: bool
) -> None:
    broken(monkeypatch, 60, TimedOut("the disk sleeps"), is_async)
    answer = control.ask(DescribeClusterRequest(), 0)
    assert (answer.error_code, answer.error_message) == (7, "the disk sleeps")


@pytest.mark.parametrize("is_async", [False, True])
def test_a_fault_of_ours_is_logged_and_told_as_such(
    control: Control,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    is_async: bool,
) -> None:
    broken(monkeypatch, 60, KeyError("oops"), is_async)
    assert control.ask(DescribeClusterRequest(), 0).error_code == -1
    (record,) = caplog.records
    assert record.exc_info is not None


def test_an_error_that_the_api_has_no_word_for_closes_the_connection(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch, 2, TimedOut("the disk sleeps"), False)
    with pytest.raises(Closed):
        control.ask(ListOffsetsRequest(), 5)


def test_an_error_is_not_dropped_by_a_version_without_a_place_for_it(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch, 3, TimedOut("the disk sleeps"), False)
    assert control.ask(MetadataRequest(topics=[]), 13).error_code == 7
    with pytest.raises(Closed):
        control.ask(MetadataRequest(topics=[]), 12)


def test_an_answer_that_cannot_be_written_is_a_fault_of_ours(
    control: Control, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = DescribeClusterResponse(controller_id="one")  # type: ignore[arg-type]
    monkeypatch.setattr(HANDLERS[60], "handle", lambda *_: wrong)
    assert control.ask(DescribeClusterRequest(), 0).error_code == -1
    assert caplog.records[0].exc_info is not None


def held(monkeypatch: pytest.MonkeyPatch, key: int) -> SimpleNamespace:
    """A handler that answers when it is let go."""
    state = SimpleNamespace(begun=0, has_begun=asyncio.Event(), gate=asyncio.Event())

    async def handle(*_: Any) -> Any:
        state.begun += 1
        state.has_begun.set()
        await state.gate.wait()
        return API[key].response()

    monkeypatch.setattr(HANDLERS[key], "handle", handle)
    return state


def test_requests_of_one_connection_run_side_by_side(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = held(monkeypatch, 60)
    late = control.queue.put(frame_of(DescribeClusterRequest(), 60, 0))
    assert control.raw(frame_of(ApiVersionsRequest("a", "1"), 18, 3)) is not None
    assert late not in control.queue.answers
    state.gate.set()
    control.until(lambda: late in control.queue.answers)


def test_no_more_than_so_many_are_in_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    control = Control(tmp_path, requests_max=3)
    state = held(monkeypatch, 60)
    places = [control.queue.put(frame_of(DescribeClusterRequest(), 60, 0)) for _ in range(50)]

    async def turns() -> None:
        for _ in range(50):
            await asyncio.sleep(0)

    control.run(turns())
    assert state.begun == 3
    state.gate.set()
    control.until(lambda: set(places) <= set(control.queue.answers))
    assert state.begun == 50
    control.close()


def test_a_flood_leaves_the_loop_its_turns(control: Control) -> None:
    count = 20 * dispatch.TURN_REQUESTS_MAX
    turns_seen = []

    async def watch() -> None:
        places = [control.queue.put(header(3, 0) + struct.pack(">i", 0)) for _ in range(count)]
        while not set(places) <= set(control.queue.answers):
            turns_seen.append(len(control.queue.answers))
            await asyncio.sleep(0)

    control.run(watch())
    steps = [later - sooner for sooner, later in itertools.pairwise(turns_seen)]
    assert max(steps) <= dispatch.TURN_REQUESTS_MAX


def test_a_stop_cuts_off_what_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    control = Control(tmp_path)
    state = held(monkeypatch, 60)
    control.queue.put(frame_of(DescribeClusterRequest(), 60, 0))

    control.run(state.has_begun.wait())
    control.close()
    assert control.queue.answers == {}
    assert caplog.records == []
