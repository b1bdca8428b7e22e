"""One connection of the bulk port: heads in, answers out, one after the other.

    TLS        is agreed upon within `admin.request.timeout.ms`
    a head     comes whole within the same time, in HEAD_BYTES_MAX; no body comes
    an answer  in JSON is taken, some of it every `admin.send.timeout.ms`; of bulk data
               `bulk/sending.py` says how long nothing may be taken
    idle       for `admin.idle.timeout.ms` at most

What HTTP is is h11's to know: what a head says, how an answer is framed, whether another request
may follow. What comes before an answer is over stays in the socket.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any, cast

import h11

from appliance.admin.admission import (
    HEAD_BYTES_MAX,
    HEADERS_MAX,
    LINGER_SECONDS,
    STALLED_SECONDS,
    UNSENT_MAX,
    Connections,
    Phase,
)
from appliance.admin.api import ANSWER_HEADERS
from appliance.bulk.line import Buffer, Line
from appliance.bulk_http.request import Request, request_of
from appliance.config import AdminConfig

Answer = Callable[[Request, "Connection"], Awaitable[None]]
Headers = Sequence[tuple[str, str]]


class HeadRefused(Exception):
    """It is answered, and the connection ends."""

    def __init__(self, status: int, code: str, text: str) -> None:
        super().__init__(text)
        self.status, self.code = status, code


class Connection:
    def __init__(self, owner: Connections, line: Line, address: str) -> None:
        self.owner, self.line, self.address = owner, line, address
        self.phase, self.since = Phase.HEAD, time.monotonic()  # of TLS, before that of HTTP
        self._http = h11.Connection(h11.SERVER, HEAD_BYTES_MAX)
        self._blocked_since: float | None = None
        task = asyncio.current_task()
        assert task is not None, "a connection is made by the task that runs it"
        self._task = task
        self._is_head = False  # of HTTP: an answer has no body

    async def run(self, answer: Answer) -> None:
        self.owner.came(self)
        try:
            if await self._begin():
                await self._requests(answer)
        except OSError:
            pass  # whoever it was is gone, or takes nothing
        finally:
            self.line.close()
            self.owner.went(self)

    async def _begin(self) -> bool:
        try:
            if await self.line.begin():
                self._now(Phase.IDLE)
                return True
            reason = "something else"
        except ssl.SSLError as error:
            reason = error.reason
        self.owner.told(self, "no tls", reason)
        return False

    async def _requests(self, answer: Answer) -> None:
        remote, arrived = self.line.socket.getpeername()[0], self.line.socket.getsockname()
        try:
            while (head := await self._head()) is not None:
                self._now(Phase.ANSWER)
                check_head(head)
                await answer(request_of(head, remote, arrived), self)
                if not self._goes_on():
                    return
        except h11.RemoteProtocolError as error:
            self.owner.told(self, "malformed", str(error)[:100])
            status = error.error_status_hint
            await self._refuse(status, "bad_request", f"no request of HTTP: {str(error)[:100]}")
        except HeadRefused as refused:
            await self._refuse(refused.status, refused.code, str(refused))
        except ValueError as error:
            await self._refuse(HTTPStatus.BAD_REQUEST, "bad_request", str(error)[:200])

    # Heads

    async def _head(self) -> h11.Request | None:
        """None: there is none to come."""
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Request):
                self._is_head = event.method == b"HEAD"
                return event
            if event is not h11.NEED_DATA:
                return None
            data = await self.line.receive(HEAD_BYTES_MAX)
            if self.phase is Phase.IDLE:
                self._now(Phase.HEAD)
            self._http.receive_data(data)

    def _goes_on(self) -> bool:
        """Another request may follow, or has come already."""
        if isinstance(self._http.next_event(), h11.EndOfMessage) and self._is_done():
            self._http.start_next_cycle()
            self._now(Phase.HEAD if self._http.trailing_data[0] else Phase.IDLE)
            return True
        return False

    def _is_done(self) -> bool:
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    # Answers

    @property
    def has_begun(self) -> bool:
        return self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE)

    async def tell(self, status: int, told: Any, headers: Headers = ()) -> None:
        """A whole answer, in JSON."""
        body = json.dumps(told).encode()
        kind = [("Content-Type", "application/json; charset=utf-8")]
        await self.begin(status, [*headers, *kind, ("Content-Length", str(len(body)))])
        if not self._is_head:
            await self._send(b"".join(self.framed(body)))
        await self.finish()

    async def refuse(self, status: int, code: str, text: str, headers: Headers = ()) -> None:
        await self.tell(status, {"error": {"code": code, "message": text}}, headers)

    async def begin(self, status: int, headers: Headers) -> None:
        every = [*ANSWER_HEADERS.items(), *headers]
        head = h11.Response(
            status_code=status, reason=HTTPStatus(status).phrase.encode(), headers=every
        )
        await self._send(self._http.send(head) or b"")

    def framed(self, piece: Buffer) -> Sequence[Buffer]:
        data = h11.Data(data=cast(bytes, piece))  # h11 asks for its length, and hands it back
        return self._http.send_with_data_passthrough(data) or ()

    async def finish(self) -> None:
        await self._send(self._http.send(h11.EndOfMessage()) or b"")

    async def _send(self, data: bytes) -> None:
        timeout_ms = self.owner.config.send_timeout_ms
        for at in range(0, len(data), UNSENT_MAX):
            self._blocked_since = time.monotonic()
            sent = self.line.send_all(data[at : at + UNSENT_MAX])
            try:
                await asyncio.wait_for(sent, timeout_ms / 1000)
            except asyncio.TimeoutError as error:
                self.owner.told(self, "send timeout", len(data) - at, timeout_ms)
                raise ConnectionAbortedError from error
        self._blocked_since = None

    async def _refuse(self, status: int, code: str, text: str) -> None:
        if self.has_begun:
            return
        await self.refuse(status, code, text, [("Connection", "close")])
        self._now(Phase.HEAD)  # we wait for it again, and not for long
        self.line.end_sending()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._linger(), LINGER_SECONDS)

    async def _linger(self) -> None:
        """What is left unread would reset the connection before the answer is seen."""
        while await self.line.receive(HEAD_BYTES_MAX):
            pass

    # As all of them together see it

    def _now(self, phase: Phase) -> None:
        self.phase, self.since = phase, time.monotonic()

    def waits_since(self, now: float) -> float | None:
        if self.phase is not Phase.ANSWER:
            return self.since
        blocked = self._blocked_since
        return blocked if blocked is not None and now > blocked + STALLED_SECONDS else None

    def sweep(self, config: AdminConfig, now: float) -> None:
        waits = now - self.since
        if self.phase is Phase.HEAD and waits > config.request_timeout_ms / 1000:
            self.end("request timeout", 0, config.request_timeout_ms)
        elif self.phase is Phase.IDLE and waits > config.idle_timeout_ms / 1000:
            self.end("idle")

    def end(self, reason: str, got: object = 0, wanted: object = 0) -> None:
        self.owner.told(self, reason, got, wanted)
        self._task.cancel()


def check_head(head: h11.Request) -> None:
    size = len(head.target) + sum(len(name) + len(value) + 4 for name, value in head.headers)
    if size > HEAD_BYTES_MAX or len(head.headers) > HEADERS_MAX:
        raise HeadRefused(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large",
            f"the head of the request has {size} bytes and {len(head.headers)} headers, wanted at "
            f"most {HEAD_BYTES_MAX} and {HEADERS_MAX}",
        )  # fmt: skip
    named = dict(head.headers)
    if b"transfer-encoding" in named or named.get(b"content-length", b"0") != b"0":
        raise HeadRefused(HTTPStatus.BAD_REQUEST, "body_refused", "a body: got one, wanted none")
