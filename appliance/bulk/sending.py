"""Frames of a range from the thread that reads them straight into a connection's socket.

By way of asyncio a frame is copied twice more, joined with the head of its HTTP chunk and kept for
as long as the socket is full, and the event loop wakes up for each part that went: as much again as
reading and sending cost. Whoever uses this keeps the connection's transport from writing meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import threading
from collections import deque

from appliance.bulk._range_reader import RangeReader

# Read and sent in one go while nobody commits: handing over to a thread and back is 0.1 ms.
STEP_BYTES = 4 << 20

# For a reader that keeps up, the socket has room again within that. For all others the event loop
# waits, and the thread is somebody else's.
WAIT_MS = 5


# So long a reader may be busy with what it has, as a Spark task that waits for its sink. It goes on
# where it was cut off; one that never reads again would hold a stream and a connection for good.
STALLED_SECONDS = 600.0


class Sending:
    def __init__(self, reader: RangeReader, fd: int, frame_bytes: int, is_chunked: bool) -> None:
        """`is_chunked`: a frame is a chunk of HTTP."""
        self.reader, self.frame_bytes, self.is_chunked = reader, frame_bytes, is_chunked
        self.has_ended = False
        self._left: deque[memoryview] = deque()  # of the frame at hand
        # One of our own: the transport's number may be another connection's by the next step.
        self._socket = socket.socket(fileno=os.dup(fd))
        self._room = select.poll()
        self._room.register(self._socket, select.POLLOUT)
        self._guard = threading.Lock()  # the handler may be cancelled during a step

    def step(self) -> None:
        """Reads and sends until the socket is full, the range ends, or it was enough for once."""
        with self._guard:
            begin = self.reader.bytes
            while self._send_left() and not self.has_ended:
                done = self.reader.bytes - begin
                if done >= STEP_BYTES or (done > 0 and not self.reader.is_quiet):
                    return
                self._read()

    @property
    def is_blocked(self) -> bool:
        return len(self._left) > 0

    async def room(self) -> None:
        """Waits until the socket takes more, or is broken. OSError: it has not for long."""
        loop, fd = asyncio.get_running_loop(), self._socket.fileno()
        is_stalled: asyncio.Future[bool] = loop.create_future()

        def tell(found: bool) -> None:
            if not is_stalled.done():
                is_stalled.set_result(found)

        loop.add_writer(fd, tell, False)
        timer = loop.call_later(STALLED_SECONDS, tell, True)
        try:
            if await is_stalled:
                raise TimeoutError(f"nothing was taken for {STALLED_SECONDS:.0f} s")
        finally:
            timer.cancel()
            loop.remove_writer(fd)

    def close(self) -> None:
        with self._guard:
            self._socket.close()

    def _read(self) -> None:
        frame = self.reader.read(self.frame_bytes)
        if not len(frame):
            self.has_ended = True
        elif self.is_chunked:
            head, end = b"%x\r\n" % len(frame), b"\r\n"
            self._left.extend((memoryview(head), frame.whole, memoryview(end)))
        else:
            self._left.append(frame.whole)

    def _send_left(self) -> bool:
        """False when the socket was full for a while."""
        while self._left:
            try:
                sent = self._socket.sendmsg(self._left, (), socket.MSG_DONTWAIT)
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
