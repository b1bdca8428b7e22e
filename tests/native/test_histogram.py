"""What the data plane counts for metrics, over real sockets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from appliance.config import LogConfig
from appliance.native._histogram import TIME_BOUNDS_NS
from appliance.storage._log_metrics import log_facts
from tests.support.data_plane import NETWORK, Plane, batch
from tests.support.wire_client import TOPIC_ID

PRODUCE, FETCH = 0, 1


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    plane = Plane(tmp_path, NETWORK, LogConfig(flush_ms=3_600_000))
    yield plane
    plane.stop()


def requests(plane: Plane) -> dict[tuple[int | None, bool], int]:
    """How many of each API were timed; True: a Fetch that waited."""
    return {(key, waited): sum(counts)
            for key, counts, _, waited in plane.data_plane.request_times()}


def until(condition: Callable[[], bool]) -> None:
    # An answer is here a moment before its thread has counted it.
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_requests_are_timed_by_api(plane: Plane) -> None:
    with plane.client() as client:
        for _ in range(3):
            client.produce(batch(), acks=-1)
        client.fetch_one(0)
        client.fetch_one(9, wait_ms=1)
        client.fetch_one(3, wait_ms=120)
    wanted = {(PRODUCE, False): 3, (FETCH, False): 2, (FETCH, True): 1}
    until(lambda: requests(plane) == wanted)
    (waited,) = [each for each in plane.data_plane.request_times() if each[3]]
    assert waited[2] >= 100_000_000
    assert sum(waited[1][: TIME_BOUNDS_NS.index(100_000_000) + 1]) == 0


def test_a_topic_counts_what_comes_and_goes(plane: Plane) -> None:
    sent = batch(count=5)
    with plane.client() as client:
        for _ in range(4):
            client.produce(sent, acks=-1)
        client.produce(sent[:-1] + b"?", acks=1)
        client.fetch_one(0)
        client.fetch_one(999)
    (facts, other, _) = log_facts(plane.logs)
    assert (facts.batches_of_clients, facts.records_of_clients) == (4, 20)
    assert facts.bytes_of_clients == 4 * len(sent) == facts.size
    assert other.bytes_of_clients == 0
    assert plane.data_plane.topic_counts("t") == (4 * len(sent), 1, 1)
    assert plane.data_plane.topic_counts("gone") is None


def test_counts_go_on_when_a_topic_grows_and_begin_anew_in_a_new_topic(plane: Plane) -> None:
    def read() -> None:
        with plane.client() as client:
            client.produce(batch(), acks=-1)
            client.fetch_one(0)

    read()
    size = plane.data_plane.topic_counts("t")
    assert size is not None
    plane.data_plane.put_topic("t", TOPIC_ID.bytes, [*plane.logs, None])
    assert plane.data_plane.topic_counts("t") == size
    plane.data_plane.remove_topic("t")
    plane.data_plane.put_topic("t", TOPIC_ID.bytes, [*plane.logs])
    assert plane.data_plane.topic_counts("t") == (0, 0, 0)


def test_what_is_not_flushed_is_told_with_its_age(plane: Plane) -> None:
    with plane.client() as client:
        client.produce(batch(count=2), acks=1)
        time.sleep(0.03)
        (facts, *_) = log_facts(plane.logs)
        assert (facts.unflushed_records, facts.unflushed_bytes) == (2, facts.size)
        assert 25 <= facts.unflushed_age_ms < 10_000
        assert facts.flushed_ago_ms == -1
        client.produce(batch(), acks=-1)
    (facts, *_) = log_facts(plane.logs)
    assert (facts.unflushed_records, facts.unflushed_bytes, facts.unflushed_age_ms) == (0, 0, 0)
    assert facts.flush_took_us > 0
    assert 0 <= facts.flushed_ago_ms < 10_000
    counts, sum_ns = plane.log_dir.engine.commit_times()
    assert sum(counts) > 0
    assert sum_ns > 0


def test_turns_of_each_network_thread_are_timed(plane: Plane) -> None:
    for _ in range(4):
        with plane.client() as client:
            client.produce(batch(), acks=1)
    until(lambda: all(sum(counts) > 0 for counts, _ in plane.data_plane.turn_times()))
    assert len(plane.data_plane.turn_times()) == NETWORK.network_threads
