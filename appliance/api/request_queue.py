"""Requests that wait for the control plane, and whose turn is next.

Each connection in turn, so that a client that sends much waits for itself; those first whose next
request is small, since a large one takes as long as thousands of them. What one connection sent
keeps its order.
"""

from __future__ import annotations

from collections import deque
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
        self._next: dict[int, Waiting] = {}  # of each connection
        self._behind: dict[int, deque[Waiting]] = {}  # what else it sent; few send ahead
        self._small: deque[int] = deque()  # connections in turn, by the size of their next
        self._large: deque[int] = deque()

    def __bool__(self) -> bool:
        return bool(self._next)

    def put(self, request: Waiting) -> None:
        connection = request.connection
        if connection not in self._next:
            self._line_up(connection, request)
        elif connection in self._behind:
            self._behind[connection].append(request)
        else:
            self._behind[connection] = deque((request,))

    def next_size(self) -> int:
        return len(self._next[(self._small or self._large)[0]].frame)

    def take(self) -> Waiting | None:
        """None: nobody waits."""
        if not self._next:
            return None
        connection = (self._small or self._large).popleft()
        request = self._next.pop(connection)
        behind = self._behind.get(connection)
        if behind is not None:
            self._line_up(connection, behind.popleft())
            if not behind:
                del self._behind[connection]
        return request

    def drop(self, connection: int) -> None:
        """Nobody waits for its answers. What is small is done all the same: a consumer that ends
        says so, or commits what it read, and closes."""
        first = self._next.pop(connection, None)
        if first is None:
            return
        self._line_of(first).remove(connection)
        for each in (first, *self._behind.pop(connection, ())):
            if len(each.frame) <= SMALL_BYTES:
                self.put(each)

    def clear(self) -> None:
        self._next.clear()
        self._behind.clear()
        self._small.clear()
        self._large.clear()

    def _line_up(self, connection: int, request: Waiting) -> None:
        self._next[connection] = request
        (self._small if len(request.frame) <= SMALL_BYTES else self._large).append(connection)

    def _line_of(self, request: Waiting) -> deque[int]:
        return self._small if len(request.frame) <= SMALL_BYTES else self._large
