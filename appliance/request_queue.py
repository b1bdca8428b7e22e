"""Requests that wait for the control plane, and whose turn is next.

Each connection in turn, so that a client that sends much waits for itself; those first whose next
request is small, since a large one takes as long as thousands of them. What one connection sent
keeps its order.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, Protocol, TypeVar

SMALL_BYTES = 4096  # decoded in 1 ms; what clients send all day has tens to hundreds of bytes


class Request(Protocol):
    @property
    def connection(self) -> int: ...
    @property
    def frame(self) -> bytes: ...


Waiting = TypeVar("Waiting", bound=Request)


class RequestQueue(Generic[Waiting]):
    def __init__(self) -> None:
        self._requests: dict[int, deque[Waiting]] = {}  # by connection
        self._small: OrderedDict[int, None] = OrderedDict()  # connections, next one first
        self._large: OrderedDict[int, None] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._requests)

    def put(self, request: Waiting) -> None:
        queue = self._requests.setdefault(request.connection, deque())
        queue.append(request)
        if len(queue) == 1:
            self._line_up(request)

    def next_size(self) -> int:
        return len(self._requests[self._next()][0].frame)

    def take(self) -> Waiting:
        connection = self._next()
        queue = self._requests[connection]
        request = queue.popleft()
        self._small.pop(connection, None)
        self._large.pop(connection, None)
        if queue:
            self._line_up(queue[0])
        else:
            del self._requests[connection]
        return request

    def drop(self, connection: int) -> None:
        """Nobody waits for its answers. What is small is done all the same: a consumer that ends
        says so, or commits what it read, and closes."""
        requests = self._requests.pop(connection, ())
        self._small.pop(connection, None)
        self._large.pop(connection, None)
        for each in requests:
            if len(each.frame) <= SMALL_BYTES:
                self.put(each)

    def clear(self) -> None:
        self._requests.clear()
        self._small.clear()
        self._large.clear()

    def _line_up(self, request: Waiting) -> None:
        is_small = len(request.frame) <= SMALL_BYTES
        (self._small if is_small else self._large)[request.connection] = None

    def _next(self) -> int:
        return next(iter(self._small or self._large))
