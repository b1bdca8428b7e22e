"""Quotas as the data plane holds them, over real sockets: what is answered at once, and for how
long the connection is not read after that."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.access.client_quotas import CONNECT, FETCH, PRODUCE
from appliance.config import LogConfig
from appliance.protocol.messages.fetch import FetchResponse
from appliance.protocol.messages.produce import ProduceResponse
from tests.support.data_plane import NETWORK, Plane, batch
from tests.support.small_control import SmallControl, small_control
from tests.support.wire_client import WireClient, produce_frame

pytestmark = pytest.mark.alone

RATE = 1_000_000
WINDOW = 1.0  # seconds of its rate that a client may use at once
LARGE = 10_000_000
SLOW = float(os.environ.get("TESTS_SLOW", "1"))  # the sanitizers make it more
LATE = 0.5 * SLOW  # by so much, in seconds, may a busy machine be late


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    made = Plane(tmp_path, NETWORK, LogConfig(visibility="appended", max_message_bytes=LARGE))
    yield made
    made.stop()


# Of user and client id, which are named, any, or not in it: as `_quota.pxd` numbers them.
USER_CLIENT, USER_ANY_CLIENT, USER = 0, 1, 2
ANY_USER_CLIENT, ANY_ANY, ANY_USER = 3, 4, 5
CLIENT, ANY_CLIENT = 6, 7


def limit(plane: Plane, kind: int, rate: int, **named: int) -> None:
    """Of client ids: those that are named, and all others."""
    rates = [(CLIENT, "", name, each) for name, each in named.items()]
    plane.data_plane.set_rates(kind, [*rates, (ANY_CLIENT, "", "", rate)])


def produce(client: WireClient, size: int, version: int = 9, **facts: Any) -> int:
    """Milliseconds of throttling that the answer tells."""
    client.send_produce(batch(bytes(size)), version=version, **facts)
    answer = client.answer(ProduceResponse, 0, version)
    assert answer.responses[0].partition_responses[0].error_code == 0
    return int(answer.throttle_time_ms)


def fetch(client: WireClient, offset: int, **facts: Any) -> tuple[int, int]:
    """Bytes of records, and milliseconds of throttling."""
    answer = client.fetch(offset, **facts)
    size = sum(len(part.records) for topic in answer.responses for part in topic.partitions)
    return size, int(answer.throttle_time_ms)


class Watch:
    def __init__(self) -> None:
        self.begin = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begin

    def is_owed(self, told_ms: int, wanted_ms: int) -> bool:
        """What was earned meanwhile is owed no more, and headers count."""
        return wanted_ms - self.seconds * 1000 - 5 <= told_ms <= wanted_ms + 5


# Produce


@pytest.mark.parametrize("version", range(3, 14))
def test_a_throttled_produce_is_answered_at_once_and_the_next_one_later(
    plane: Plane, version: int
) -> None:
    limit(plane, PRODUCE, RATE)
    with plane.client() as client:
        watch = Watch()
        assert produce(client, 500_000, version) == 0
        told_ms = produce(client, 1_000_000, version)
        assert watch.seconds < 0.4 * SLOW
        assert watch.is_owed(told_ms, 500)
        produce(client, 1, version)
        assert told_ms / 1000 < watch.seconds < told_ms / 1000 + LATE
    assert plane.data_plane.counters()["throttled_requests"] >= 1


def test_a_producer_is_held_to_its_rate(plane: Plane) -> None:
    limit(plane, PRODUCE, RATE)
    with plane.client() as client:
        watch, sent, told_ms = Watch(), 0, 0
        while watch.seconds < 4:
            told_ms += produce(client, 100_000)
            sent += 100_000
        assert sent / RATE == pytest.approx(watch.seconds + WINDOW, rel=0.1 * SLOW)
        assert told_ms / 1000 == pytest.approx(watch.seconds, rel=0.15 * SLOW)


def test_requests_that_are_on_their_way_already_are_held_back_too(plane: Plane) -> None:
    """A client that does not wait for answers, as acks=0, gains nothing."""
    limit(plane, PRODUCE, RATE)
    with plane.client() as client:
        watch = Watch()
        for _ in range(30):
            client.send_produce(batch(bytes(100_000)), acks=0)
        produce(client, 1)
        assert 3 - WINDOW < watch.seconds < 3 - WINDOW + LATE


def test_a_frame_that_is_cut_short_by_the_delay_goes_on_after_it(plane: Plane) -> None:
    limit(plane, PRODUCE, RATE)
    with plane.client() as client:
        produce(client, 1_500_000)
        watch = Watch()
        assert produce(client, 3_000_000) > 0
        assert 0.3 < watch.seconds < 0.5 + LATE


def test_connections_of_a_client_share_its_quota_and_others_do_not(plane: Plane) -> None:
    limit(plane, PRODUCE, RATE)
    with plane.client() as one, plane.client() as two, plane.client() as other:
        watch = Watch()
        assert produce(one, 900_000) == 0
        assert watch.is_owed(produce(two, 900_000), 800)
        assert produce(other, 900_000, client_id="other") == 0
        assert watch.is_owed(produce(one, 100_000), 900)


def test_a_named_client_has_its_own_rate(plane: Plane) -> None:
    limit(plane, PRODUCE, 1000, big=100 * RATE, free=0)
    with plane.client() as client:
        assert produce(client, 5_000_000, client_id="big") == 0
        assert produce(client, 5_000_000, client_id="free") == 0
        assert 1000 < produce(client, 2000, client_id="small") < 1400


def test_a_quota_that_changes_begins_anew(plane: Plane) -> None:
    limit(plane, PRODUCE, 1000)
    with plane.client() as client:
        assert 0 < produce(client, 1300) < 1000
        limit(plane, PRODUCE, 0)
        assert produce(client, 5_000_000) == 0
        limit(plane, PRODUCE, 1000, test=100 * RATE)
        assert produce(client, 5_000_000) == 0


def test_a_client_that_changes_its_name_is_known_by_the_new_one(plane: Plane) -> None:
    limit(plane, PRODUCE, RATE, free=0)
    with plane.client() as client:
        assert produce(client, 900_000) == 0
        assert produce(client, 1000, client_id="free") == 0
        assert produce(client, 4_000_000) > 0


def test_many_names_do_not_stay_in_memory_or_lose_what_they_owe(plane: Plane) -> None:
    """More names than the table is swept at; the one that owes is remembered."""
    limit(plane, PRODUCE, RATE)
    with plane.client() as client, plane.client() as other:
        assert produce(client, 3_500_000, client_id="owes") > 2000
        most = 0
        for number in range(3000):
            produce(other, 1, acks=1, client_id=f"name-{number}")
            most = max(most, plane.data_plane.counters()["quota_names"])
        assert 1000 <= most <= 1024
        with plane.client() as third:
            assert produce(third, 1, client_id="owes") > 0


def test_names_that_owe_are_bounded_in_length_and_number(tmp_path: Path) -> None:
    """They owe for less than the window, so that their connection is read on and on."""
    plane = Plane(tmp_path, replace(NETWORK, quota_window_s=3600), LogConfig())
    limit(plane, PRODUCE, 1, named=RATE)
    with plane.client() as client:
        for first in range(0, 24_000, 1000):
            frames = (
                produce_frame(batch(b""), acks=1, client_id=f"{number}-".ljust(1500, "x"))
                for number in range(first, first + 1000)
            )
            client.socket.sendall(b"".join(frames))
            for _ in range(1000):
                client.receive()
        # those of fetches owe nothing, and go
        assert 20_000 <= plane.data_plane.counters()["quota_names"] < 20_000 + 1024
        assert produce(client, 1000, client_id="named") == 0
    plane.stop()


def test_a_frame_that_is_held_back_takes_no_memory_from_others(plane: Plane) -> None:
    limit(plane, PRODUCE, RATE)
    with plane.client() as client:
        first = produce_frame(batch(bytes(1_900_000)), version=9)
        second = produce_frame(batch(bytes(1_000_000)), version=9)
        client.socket.sendall(first + second[:200_000])
        assert client.answer(ProduceResponse, 0, 9).throttle_time_ms > 500
        assert plane.data_plane.counters()["queued_bytes"] == 0
        client.socket.sendall(second[200_000:])
        answer = client.answer(ProduceResponse, 0, 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert plane.data_plane.counters()["queued_bytes"] == 0


def test_what_waits_for_the_control_plane_is_counted_too(tmp_path: Path) -> None:
    made = Plane(tmp_path, NETWORK, LogConfig(cleanup_policy="compact"))
    try:
        limit(made, PRODUCE, RATE)
        with made.client() as client:
            client.send_produce(batch(bytes(1_400_000), codec="gzip"), acks=1)
            client.send_produce(batch(b"x", codec="gzip"), acks=1)
            deadline = time.monotonic() + 5
            while not (punts := made.data_plane.punts()[0]):
                assert time.monotonic() < deadline
            assert len(punts) >= 1
    finally:
        made.stop()


# Fetch


def filled(plane: Plane, count: int, size: int) -> None:
    with plane.client() as client:
        for _ in range(count):
            assert produce(client, size, client_id="filler") == 0


def test_a_consumer_is_held_to_its_rate(plane: Plane) -> None:
    filled(plane, 90, 100_000)
    limit(plane, FETCH, RATE)
    with plane.client() as client:
        watch, offset, told_ms = Watch(), 0, 0
        while watch.seconds < 4:
            size, delay_ms = fetch(client, offset, partition_max_bytes=300_000)
            offset += size // 100_000
            told_ms += delay_ms
        assert offset / 10 == pytest.approx(watch.seconds + WINDOW, rel=0.15 * SLOW)
        assert told_ms / 1000 == pytest.approx(watch.seconds, rel=0.15 * SLOW)


def test_an_answer_is_no_larger_than_what_may_be_used_at_once(plane: Plane) -> None:
    filled(plane, 30, 100_000)
    limit(plane, FETCH, RATE)
    with plane.client() as client:
        size, delay_ms = fetch(client, 0, min_bytes=2_500_000, wait_ms=10_000,
                               partition_max_bytes=5_000_000)
        assert (size, delay_ms) == (RATE, 0)


def test_a_batch_larger_than_the_quota_comes_all_the_same(plane: Plane) -> None:
    filled(plane, 2, 500_000)
    limit(plane, FETCH, 200_000)
    with plane.client() as client:
        watch = Watch()
        size, delay_ms = fetch(client, 0)
        assert size > 500_000
        assert watch.is_owed(delay_ms, 1500)


def test_while_a_client_owes_its_other_connections_get_nothing(plane: Plane) -> None:
    filled(plane, 3, 500_000)
    limit(plane, FETCH, 400_000)
    with plane.client() as one, plane.client() as two:
        _, delay_ms = fetch(one, 0, partition_max_bytes=400_000)
        assert 0 < delay_ms < 500
        watch = Watch()
        size, owed_ms = fetch(two, 0, session=(0, 0))
        assert (size, 0 < owed_ms <= delay_ms + 5) == (0, True)
        size, _ = fetch(two, 0, session=(0, 0))
        assert size > 500_000
        assert delay_ms / 1000 - 0.05 < watch.seconds < delay_ms / 1000 + LATE


def test_a_session_goes_on_after_an_empty_answer(plane: Plane) -> None:
    filled(plane, 4, 500_000)
    limit(plane, FETCH, 450_000)
    with plane.client() as one, plane.client() as two:
        begun = two.fetch(4, session=(0, 0))
        assert begun.session_id > 0
        fetch(one, 0, partition_max_bytes=400_000)
        filled(plane, 1, 1000)
        two.send_fetch(partitions=(), session=(begun.session_id, 1))
        empty = two.answer(FetchResponse, 1, 12)
        assert (empty.error_code, empty.session_id, empty.responses) == (0, begun.session_id, [])
        assert empty.throttle_time_ms > 0
        two.send_fetch(partitions=(), session=(begun.session_id, 2))
        after = two.answer(FetchResponse, 1, 12)
        assert (after.error_code, len(after.responses[0].partitions[0].records) > 1000) == (0, True)


def test_a_fetch_that_waited_is_charged_when_it_is_answered(plane: Plane) -> None:
    limit(plane, FETCH, 100_000)
    with plane.client() as client:
        client.send_fetch(0, wait_ms=5000)
        filled(plane, 1, 130_000)
        watch = Watch()
        answer = client.answer(FetchResponse, 1, 12)
        assert watch.is_owed(answer.throttle_time_ms, 300)


# Users


@pytest.fixture
def control(tmp_path: Path) -> Iterator[SmallControl]:
    with small_control(tmp_path) as made:
        yield made


def is_throttled(client: WireClient, client_id: str = "test") -> bool:
    """Uses more than the small rates of these tests allow, and less than the large one."""
    client.send_produce(batch(bytes(2000)), acks=1, version=9, client_id=client_id)
    answer = client.answer(ProduceResponse, 0, 9)
    assert answer.responses[0].partition_responses[0].error_code == 0
    return bool(answer.throttle_time_ms > 0)


SMALL, FREE = 1900, 10**9


def test_connections_of_a_user_share_its_quota_whatever_their_client_ids(
    control: SmallControl,
) -> None:
    control.plane.set_rates(PRODUCE, [(USER, "alice", "", 3000)])
    with (
        control.logged_in("User:alice")[0] as one,
        control.logged_in("User:alice")[0] as two,
        control.logged_in("User:bob")[0] as other,
    ):
        assert not is_throttled(one, "a")
        assert is_throttled(two, "b")
        assert not is_throttled(other, "a")
        assert not is_throttled(other, "a")


def test_each_user_has_what_any_user_has_for_itself(control: SmallControl) -> None:
    control.plane.set_rates(PRODUCE, [(ANY_USER, "", "", 3000)])
    with (
        control.logged_in("User:alice")[0] as alice,
        control.logged_in("User:bob")[0] as bob,
        control.client() as anonymous,
    ):
        for each in (alice, bob, anonymous):
            assert not is_throttled(each)
        for each in (alice, bob, anonymous):
            assert is_throttled(each, "another")


def test_each_client_id_of_a_user_has_its_own(control: SmallControl) -> None:
    control.plane.set_rates(PRODUCE, [(USER_ANY_CLIENT, "alice", "", 3000)])
    with control.logged_in("User:alice")[0] as one, control.logged_in("User:alice")[0] as two:
        assert not is_throttled(one, "a")
        assert not is_throttled(two, "b")
        assert is_throttled(one, "a")


def test_users_share_the_quota_of_a_client_id(control: SmallControl) -> None:
    control.plane.set_rates(PRODUCE, [(CLIENT, "", "a", 3000)])
    with control.logged_in("User:alice")[0] as one, control.logged_in("User:bob")[0] as two:
        assert not is_throttled(one, "a")
        assert is_throttled(two, "a")


# Alice at the client id "a", and those whom the same quota does not concern
LADDER = [
    (USER_CLIENT, "alice", "a"), (USER_ANY_CLIENT, "alice", ""), (USER, "alice", ""),
    (ANY_USER_CLIENT, "", "a"), (ANY_ANY, "", ""), (ANY_USER, "", ""), (CLIENT, "", "a"),
    (ANY_CLIENT, "", ""),
]  # fmt: skip


@pytest.mark.parametrize("counts", range(len(LADDER)))
def test_the_first_in_kafkas_order_counts(control: SmallControl, counts: int) -> None:
    after = [(*each, SMALL) for each in LADDER[counts + 1 :]]
    control.plane.set_rates(PRODUCE, [(*LADDER[counts], FREE), *after])
    with control.logged_in("User:alice")[0] as alice:
        assert not is_throttled(alice, "a")
        free = [(*each, FREE) for each in LADDER[counts + 1 :]]
        control.plane.set_rates(PRODUCE, [(*LADDER[counts], SMALL), *free])
        assert is_throttled(alice, "a")


@pytest.mark.parametrize("name", ["anonymous", "alic", "alice2", "bob"])
def test_a_quota_is_of_nobody_with_a_similar_name(control: SmallControl, name: str) -> None:
    rates = [(USER, "alice", "", SMALL), (USER_CLIENT, "al", "icea", SMALL),
             (USER_CLIENT, "alice", "b", SMALL), (CLIENT, "", "al", SMALL)]  # fmt: skip
    control.plane.set_rates(PRODUCE, rates)
    with control.logged_in(f"User:{name}")[0] as client:
        assert not is_throttled(client, "a")


def test_who_logs_in_is_no_longer_who_was_there_before(control: SmallControl) -> None:
    """The requests of the login were the unknown client's."""
    rates = [(USER, "ANONYMOUS", "", FREE), (USER, "alice", "", SMALL)]
    control.plane.set_rates(PRODUCE, rates)
    with control.logged_in("User:alice")[0] as client:
        assert is_throttled(client)


def test_ever_more_client_ids_of_one_user_take_nothing_from_another(tmp_path: Path) -> None:
    """Where there is no room for more names, those of one user share one quota."""
    with small_control(tmp_path, quota_window_s=3000) as control:
        rates = [(USER_ANY_CLIENT, "alice", "", 1), (USER_ANY_CLIENT, "bob", "", 1)]
        control.plane.set_rates(PRODUCE, rates)
        with control.logged_in("User:alice")[0] as alice:
            for first in range(0, 20_030, 1000):
                numbers = range(first, min(first + 1000, 20_030))
                frames = (produce_frame(batch(b""), acks=1, client_id=f"{n}") for n in numbers)
                alice.socket.sendall(b"".join(frames))
                for _ in numbers:
                    alice.receive()
        assert control.plane.counters()["quota_names"] == 20_000
        with control.logged_in("User:alice")[0] as alice, control.logged_in("User:bob")[0] as bob:
            assert is_throttled(alice, "new")
            assert not is_throttled(bob, "new")


# Both


def test_a_connection_that_is_held_back_is_neither_idle_nor_late(tmp_path: Path) -> None:
    network = replace(NETWORK, idle_timeout_ms=300, frame_timeout_ms=300)
    made = Plane(tmp_path, network, LogConfig())
    try:
        limit(made, PRODUCE, 100_000)
        with made.client() as client:
            watch = Watch()
            assert watch.is_owed(produce(client, 250_000), 1500)
            produce(client, 1)
    finally:
        made.stop()


def test_a_window_may_be_longer(tmp_path: Path) -> None:
    made = Plane(tmp_path, replace(NETWORK, quota_window_s=5),
                 LogConfig(max_message_bytes=LARGE))
    try:
        limit(made, PRODUCE, RATE)
        with made.client() as client:
            watch = Watch()
            assert produce(client, 4_900_000) == 0
            assert watch.is_owed(produce(client, 2_000_000), 1900)
    finally:
        made.stop()


# Connections


def test_connections_come_at_their_rate(plane: Plane) -> None:
    plane.data_plane.set_rates(CONNECT, [(CLIENT, "", "127.0.0.1", 10)])
    watch = Watch()
    clients = [plane.client() for _ in range(15)]
    try:
        for each in clients:
            produce(each, 1)
        assert 0.5 <= watch.seconds < 0.5 + LATE
    finally:
        for each in clients:
            each.socket.close()


def test_connections_far_beyond_their_rate_are_refused(plane: Plane) -> None:
    limit(plane, CONNECT, 5)
    clients = [plane.client() for _ in range(15)]
    try:
        plane.wait_for("connections_refused", 4)
        (closures, _) = plane.data_plane.closures()
        assert {each.kind for each in closures} == {"connection rate"}
        assert all(each.got >= each.wanted == 1000 for each in closures)
    finally:
        for each in clients:
            each.socket.close()
