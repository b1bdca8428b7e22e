"""Pieces of a range from the thread that reads them straight into a connection's socket.

By way of an event loop a piece is copied twice more, joined with the head of its HTTP chunk and
kept for as long as the socket is full, and the loop wakes up for each part that went: as much again
as reading and sending cost. Nobody else writes to the socket meanwhile.
"""

from __future__ import annotations

import asyncio
import select
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from appliance.bulk.line import Buffer, Line

# For a reader that keeps up, the socket has room again within that. For all others the event loop
# waits, and the thread is somebody else's.
WAIT_MS = 5

# So long a reader may be busy with what it has, as a Spark task that waits for its sink. It goes on
# where it was cut off; one that never reads again would hold a stream and a connection for good.
STALLED_SECONDS = 600.0


class Reader(Protocol):
    @property
    def bytes(self) -> int: ...
    @property
    def passed_bytes(self) -> int: ...
    @property
    def is_quiet(self) -> bool: ...


@dataclass(frozen=True)
class Body:
    """A range as pieces of an answer."""

    media: str
    reader: Reader
    piece: Callable[[], Buffer | None]  # reads; None: that was all. An empty one is none
    step_bytes: int  # of the range, that are read and sent in one go while nobody commits
    headers: tuple[tuple[str, str], ...] = ()


class Sending:
    def __init__(
        self, body: Body, line: Line, framed: Callable[[Buffer], Sequence[Buffer]]
    ) -> None:
        """`framed`: as a piece stands in the answer."""
        self.has_ended = False
        self._body, self._line, self._framed = body, line, framed
        self._left: deque[memoryview] = deque()  # of the piece at hand
        self._room = select.poll()
        self._room.register(line.socket, select.POLLOUT)

    def step(self) -> None:
        """Reads and sends until the socket is full, the range ends, or it was enough for once."""
        reader = self._body.reader
        begin, has_read = reader.bytes, False
        while self._send_left() and not self.has_ended:
            is_enough = reader.bytes - begin >= self._body.step_bytes
            if has_read and (is_enough or not reader.is_quiet):
                return
            self._read()
            has_read = True

    @property
    def is_blocked(self) -> bool:
        return len(self._left) > 0

    async def room(self) -> None:
        """Waits until the socket takes more, or is broken. OSError: it has not for long."""
        loop = asyncio.get_running_loop()
        is_stalled: asyncio.Future[bool] = loop.create_future()

        def tell(found: bool) -> None:
            if not is_stalled.done():
                is_stalled.set_result(found)

        loop.add_writer(self._line.socket.fileno(), tell, False)
        timer = loop.call_later(STALLED_SECONDS, tell, True)
        try:
            if await is_stalled:
                raise TimeoutError(f"nothing was taken for {STALLED_SECONDS:.0f} s")
        finally:
            timer.cancel()
            loop.remove_writer(self._line.socket.fileno())

    def _read(self) -> None:
        piece = self._body.piece()
        if piece is None:
            self.has_ended = True
        elif len(piece):
            self._left.extend(map(memoryview, self._framed(piece)))

    def _send_left(self) -> bool:
        """False when the socket was full for a while."""
        while self._left:
            try:
                sent = self._line.send_some(self._left)
            except BlockingIOError:
                if not self._room.poll(WAIT_MS):
                    return False
            else:
                self._take(sent)
        return True

    def _take(self, sent: int) -> None:
        while sent > 0 and sent >= len(self._left[0]):
            sent -= len(self._left.popleft())
        if sent > 0:
            self._left[0] = self._left[0][sent:]
