"""Who is next at the control plane."""

from __future__ import annotations

from typing import NamedTuple

from appliance.api.request_queue import SMALL_BYTES, RequestQueue


class Request(NamedTuple):
    connection: int
    frame: bytes


def order(*requests: Request) -> list[Request]:
    queue: RequestQueue[Request] = RequestQueue()
    for each in requests:
        queue.put(each)
    taken = []
    while queue:
        size = queue.next_size()
        taken.append(taken_of(queue))
        assert size == len(taken[-1].frame)
    assert queue.take() is None
    return taken


def taken_of(queue: RequestQueue[Request]) -> Request:
    found = queue.take()
    assert found is not None
    return found


def test_connections_take_turns() -> None:
    many = [Request(1, b"%d" % i) for i in range(5)]
    one, two = Request(2, b"a"), Request(3, b"b")
    assert order(*many, one, two) == [many[0], one, two, *many[1:]]


def test_small_requests_go_before_large_ones() -> None:
    large = Request(1, bytes(SMALL_BYTES + 1))
    small = Request(2, bytes(SMALL_BYTES))
    assert order(large, small) == [small, large]


def test_one_connection_keeps_the_order_of_its_requests() -> None:
    requests = [Request(1, bytes(SMALL_BYTES + i % 2)) for i in range(9)]
    assert order(*requests) == requests


def test_what_stands_behind_a_large_request_waits_with_it() -> None:
    large, behind = Request(1, bytes(SMALL_BYTES + 1)), Request(1, b"behind")
    others = [Request(2, b"%d" % i) for i in range(3)]
    assert order(large, behind, *others) == [*others, large, behind]


def test_what_is_large_is_dropped_when_nobody_waits_for_it() -> None:
    queue: RequestQueue[Request] = RequestQueue()
    for size in (1, SMALL_BYTES + 1, 2):
        for connection in (1, 2, 3):
            queue.put(Request(connection, bytes(size)))
    queue.drop(2)
    queue.drop(9)
    taken = [taken_of(queue) for _ in range(8)]
    assert [len(each.frame) for each in taken if each.connection == 2] == [1, 2]
    assert [each.connection for each in taken].count(1) == 3
    assert not queue


def test_nothing_waits_after_clear() -> None:
    queue: RequestQueue[Request] = RequestQueue()
    queue.put(Request(1, b""))
    queue.put(Request(1, bytes(SMALL_BYTES + 1)))
    queue.clear()
    assert not queue
