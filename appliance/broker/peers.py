"""Requests from this broker to others of its cluster: one kept connection to each, made by the
first request. Several may be in flight; answers come in the order of the requests.

A connection that fails, or on which an answer does not come in time, is closed, and all that wait
on it are told. Nothing is sent again here: who asked knows whether that may be.
"""

from __future__ import annotations

import asyncio
import math
import ssl
import struct
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import suppress
from importlib import import_module
from typing import Any, NamedTuple, Protocol

from appliance.config import Address
from appliance.errors import ApplianceError
from appliance.process.detached_tasks import Tasks
from appliance.protocol import Api, ErrorCode, MalformedMessage, codec, headers

SIZE = struct.Struct(">i")
ANSWER_SIZE_MAX = 100 << 20
LOGIN_SIZE_MAX = 64 << 10
CORRELATION_ID_MAX = 2**31 - 1


class PeerUnreachable(ApplianceError):
    """Whether the request was carried out is not known."""

    kafka_code = int(ErrorCode.NETWORK_EXCEPTION)
    retriable = True


class Login(Protocol):
    def steps(self) -> Generator[bytes, bytes, int]: ...


class Security(Protocol):
    """`inter_broker_security.py`"""

    @property
    def context(self) -> ssl.SSLContext | None: ...
    @property
    def login(self) -> Login | None: ...


class Waiting(NamedTuple):
    correlation_id: int
    api: Api
    version: int
    answer: asyncio.Future[Any]


class Peers:
    """On the event loop."""

    def __init__(
        self,
        where: Callable[[int], Address | None],
        client_id: str,
        security: Security | None = None,
    ) -> None:
        """`where` a broker listens for others, by its id; None: it is not there. Without `security`
        what goes there is plain."""
        self._security = security
        self._where = where
        self._client_id = client_id
        self._peers: dict[int, _Peer] = {}
        self._tasks = Tasks()
        self._is_closed = False

    async def ask(self, node_id: int, request: Any, version: int, timeout_s: float) -> Any:
        """The answer. Raises PeerUnreachable when there is none in time."""
        address = None if self._is_closed else self._where(node_id)
        if address is None:
            raise PeerUnreachable(f"broker {node_id} is not registered")
        peer = self._peers.get(node_id)
        if peer is None or peer.address != address:
            if peer is not None:
                peer.close("it has moved")
            peer = self._peers[node_id] = _Peer(
                node_id, address, self._client_id, self._tasks, self._security
            )
        try:
            return await asyncio.wait_for(peer.ask(request, version), timeout_s)
        except asyncio.TimeoutError:
            peer.close(f"no answer within {timeout_s:g} s")
            raise PeerUnreachable(f"{peer}: no answer within {timeout_s:g} s") from None

    async def close(self) -> None:
        self._is_closed = True
        for each in self._peers.values():
            each.close("this broker stops")
        await self._tasks.settled()


class _Peer:
    def __init__(
        self,
        node_id: int,
        address: Address,
        client_id: str,
        tasks: Tasks,
        security: Security | None,
    ) -> None:
        self._security = security
        self.address = address
        self._node_id = node_id
        self._client_id = client_id
        self._tasks = tasks
        self._connecting = asyncio.Lock()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._waiting: deque[Waiting] = deque()
        self._last_id = 0
        self._good_until_s = math.inf

    def __str__(self) -> str:
        return f"broker {self._node_id} at {self.address}"

    async def ask(self, request: Any, version: int) -> Any:
        async with self._connecting:
            if not self._waiting and time.monotonic() > self._good_until_s:
                self.close("its login is over")
            if self._streams is None:
                await self._connect()
        assert self._streams is not None
        api = _api_of(type(request))
        self._last_id = self._last_id % CORRELATION_ID_MAX + 1
        header = headers.RequestHeader(api.key, version, self._last_id, self._client_id)
        frame = headers.encode_request(header) + codec.encode(request, version)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append(Waiting(self._last_id, api, version, answer))
        self._streams[1].write(SIZE.pack(len(frame)) + frame)
        return await answer

    async def _connect(self) -> None:
        try:
            self._streams = await self._open()
        except (OSError, asyncio.IncompleteReadError, ApplianceError) as error:
            raise PeerUnreachable(f"{self}: {error}") from error
        self._tasks.begin(self._read_all(self._streams))

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        security, address = self._security, self.address
        context = None if security is None else security.context
        streams = await asyncio.open_connection(address.host, address.port, ssl=context)
        if security is not None and security.login is not None:
            try:
                self._good_until_s = await log_in(streams, security.login)
            except BaseException:
                streams[1].transport.abort()
                raise
        return streams

    async def _read_all(
        self, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    ) -> None:
        try:
            while self._streams is streams:
                await self._read(streams[0])
        except asyncio.IncompleteReadError:
            self._lose(streams, "it closed the connection")
        except (OSError, MalformedMessage) as error:
            self._lose(streams, str(error))
        with suppress(OSError):
            await streams[1].wait_closed()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        (size,) = SIZE.unpack(await reader.readexactly(SIZE.size))
        if not SIZE.size <= size <= ANSWER_SIZE_MAX:
            raise MalformedMessage(f"an answer of {size} bytes, {ANSWER_SIZE_MAX} allowed")
        frame = await reader.readexactly(size)
        if not self._waiting:
            raise MalformedMessage("an answer that nobody asked for")
        asked = self._waiting[0]
        got, body = headers.decode_response(frame, asked.api.key, asked.version)
        if got != asked.correlation_id:
            raise MalformedMessage(f"correlation id {got}, wanted {asked.correlation_id}")
        found = codec.decode(asked.api.response, body, asked.version)
        self._waiting.popleft()
        if not asked.answer.done():  # else whoever asked waits no more
            asked.answer.set_result(found)

    def close(self, why: str) -> None:
        if self._streams is not None:
            self._lose(self._streams, why)

    def _lose(
        self, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], why: str
    ) -> None:
        streams[1].transport.abort()
        if self._streams is not streams:
            return
        self._streams = None
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            if not each.answer.done():
                each.answer.set_exception(PeerUnreachable(f"{self}: {each.api.name}: {why}"))


async def log_in(
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], login: Login
) -> float:
    """Up to when it holds, by the time of `time.monotonic`."""
    reader, writer = streams
    steps = login.steps()
    frame = await asyncio.to_thread(next, steps)  # it reads a file, and counts hashes
    while True:
        writer.write(frame)
        (size,) = SIZE.unpack(await reader.readexactly(SIZE.size))
        if not SIZE.size <= size <= LOGIN_SIZE_MAX:
            raise MalformedMessage(f"an answer of {size} bytes, {LOGIN_SIZE_MAX} allowed")
        answer = await reader.readexactly(size)
        found, lifetime_ms = await asyncio.to_thread(_next, steps, answer)
        if found is None:
            return time.monotonic() + lifetime_ms / 1000 if lifetime_ms else math.inf
        frame = found


def _next(steps: Generator[bytes, bytes, int], answer: bytes) -> tuple[bytes | None, int]:
    try:
        return steps.send(answer), 0
    except StopIteration as over:
        return None, int(over.value)


def _api_of(request: type[Any]) -> Api:
    """Each message's module has its API."""
    api = import_module(request.__module__).API
    assert isinstance(api, Api)
    return api
