"""A connection to one broker: requests out, responses in, in the same order.

It has no thread and belongs to one thread at a time. Several requests may be in flight; a broker
answers them in order. `select` on the connection is reliable unless `has_answer`: a plain
connection without a login buffers no received bytes, but TLS may have decrypted the next answer
with the last one, and a renewed login reads those in front of its own.

Any failure closes it, because the next bytes would belong to a request that has no reader any
more.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from appliance import __version__
from appliance.client import login, tls
from appliance.client.config import ClientConfig
from appliance.client.errors import (
    BrokerRefused,
    BrokerUnavailable,
    ConfigInvalid,
    ConnectionLost,
    RequestTimedOut,
    TlsFailed,
)
from appliance.native.loopback_congestion import choose_congestion
from appliance.protocol import Api, ErrorCode, MalformedMessage, VersionUnsupported, codec, headers
from appliance.protocol.messages.api_versions import API as API_VERSIONS
from appliance.protocol.messages.api_versions import ApiVersionsRequest
from appliance.protocol.messages.sasl_authenticate import API as SASL_AUTHENTICATE
from appliance.protocol.messages.sasl_handshake import API as SASL_HANDSHAKE

Room = Callable[[int], bytearray | memoryview]

SIZE = struct.Struct(">i")
FRAME_SIZE_MAX = 1 << 30  # a larger response is broken: no request asks for as much
PORT_MAX = 65535
CORRELATION_ID_MAX = 2**31 - 1
LARGE = 64 << 10  # a response of this size arrives in parts
TIMEVAL = struct.Struct("@ll")  # seconds and microseconds, for SO_RCVTIMEO
PARTS_MAX = 512  # per sendmsg; Linux allows 1024
CLOSE_S = 1.0  # how long who closes a client waits for a thread of it that connects
BEFORE_LOGIN = {API_VERSIONS.key, SASL_HANDSHAKE.key, SASL_AUTHENTICATE.key}
TLS_ALERT = 0x1503  # how TLS begins to refuse what is not TLS


@dataclass(frozen=True, order=True)
class Address:
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        host, _, port = text.strip().rpartition(":")
        is_number = port.isdecimal() and len(port) <= len(str(PORT_MAX))
        if not host or not is_number or not 0 < int(port) <= PORT_MAX:
            raise ConfigInvalid(f"address {text!r}: wanted host:port")
        return cls(host.removeprefix("[").removesuffix("]"), int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class InFlight:
    correlation_id: int
    api: Api
    version: int
    deadline: float  # of time.monotonic
    timeout_ms: float


Received = tuple[int, Api, int, memoryview]  # correlation id, API, version, body


class Connection:
    def __init__(self, address: Address, config: ClientConfig) -> None:
        self.address, self.config = address, config
        self._in_flight: deque[InFlight] = deque()
        self._early: deque[Received] = deque()  # in front of the answers in flight
        self._last_id = 0
        self._login_due = login.NEVER  # of time.monotonic
        self._is_encrypted = config.is_encrypted
        self._is_accepted = False  # the broker has answered more than everybody may ask
        self._versions: dict[int, tuple[int, int]] = {}
        self._socket = self._connected()
        try:
            self._socket = self._secured()
            self._versions = self._negotiated()
            self._log_in()
        except BaseException:
            self.close()
            raise

    def _connected(self) -> socket.socket:
        timeout_ms = self.config.connect_timeout_ms
        where = (self.address.host, self.address.port)
        try:
            made = socket.create_connection(where, timeout_ms / 1000)
        except OSError as error:
            why = f"no connection within {timeout_ms} ms: {error}"
            unavailable = BrokerUnavailable(f"broker {self.address}: {why}")
            raise unavailable.at(broker=self.address) from error
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        choose_congestion(made)
        if self.config.socket_buffer_size:
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                made.setsockopt(socket.SOL_SOCKET, option, self.config.socket_buffer_size)
        return made

    def _secured(self) -> socket.socket:
        if not self._is_encrypted:
            return self._socket
        where = f"broker {self.address}"
        try:
            return tls.secured(self._socket, self.config, self.address.host)
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError, TimeoutError) as error:
            why = f"security_protocol is {self.config.security_protocol}: no handshake of TLS"
            raise BrokerUnavailable(f"{where}: {why}: {error}") from error
        except ssl.SSLError as error:
            raise tls.explained(error, self.config, where, self.address.host) from error
        except OSError as error:
            raise BrokerUnavailable(f"{where}: {error}") from error

    def _log_in(self) -> None:
        if self.config.has_login:
            self._login_due = login.NEVER  # for the requests of the login itself
            self._login_due = login.log_in(self)

    def _renew_login(self) -> None:
        """The broker answers in order, so the answers in flight come first and wait here."""
        try:
            early = [
                *self._early,
                *(self._received(bytearray) for _ in range(len(self._in_flight))),
            ]
            self._early.clear()  # the login reads its own answers
            self._log_in()
            self._early.extend(early)
        except BaseException:
            self.close()
            raise

    def _negotiated(self) -> dict[int, tuple[int, int]]:
        """The API versions of the broker. A broker that does not know our version of this request
        answers in the oldest format, with an error."""
        self._versions = {API_VERSIONS.key: API_VERSIONS.versions}
        request = ApiVersionsRequest("appliance", __version__)
        timeout_ms = self.config.connect_timeout_ms
        self.send(API_VERSIONS, request, timeout_ms)
        _, _, version, body = self.receive_bytes()
        if SIZE.size <= len(body) and body[:2] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big"):
            self.send(API_VERSIONS, request, timeout_ms, version=0)
            _, _, version, body = self.receive_bytes()
        answer = codec.decode(API_VERSIONS.response, body, version)
        if answer.error_code:
            refusal = BrokerRefused(answer.error_code, f"broker {self.address}: ApiVersions")
            raise refusal.at(broker=self.address)
        return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "" if self.is_open else ", closed"
        return f"Connection({self.address}, {self.in_flight} in flight{state})"

    @property
    def is_open(self) -> bool:
        return self._socket.fileno() >= 0

    @property
    def in_flight(self) -> int:
        return len(self._in_flight) + len(self._early)

    @property
    def has_answer(self) -> bool:
        """Whether bytes of an answer are here already, of which `select` does not know."""
        return bool(self._early) or (self._is_encrypted and self._pending() > 0)

    def _pending(self) -> int:
        assert isinstance(self._socket, ssl.SSLSocket)
        return self._socket.pending()

    @property
    def deadline(self) -> float | None:
        """The time (of time.monotonic) at which the oldest request in flight times out."""
        return self._in_flight[0].deadline if self._in_flight else None

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def cut(self) -> None:
        """From any thread: makes all waits for this connection fail at once."""
        with suppress(OSError):  # the broker or another thread has closed it already
            # not SSLSocket's, after which the other thread would read encrypted bytes as they are
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def version(self, api: Api, most: int | None = None) -> int:
        """The newest version of this API that both sides speak."""
        first, last = api.versions
        their_first, their_last = self._versions.get(api.key, (0, -1))
        newest = min(last if most is None else most, their_last)
        if newest < max(first, their_first):
            raise VersionUnsupported(
                f"broker {self.address}: {api.name} {their_first} to {their_last}, wanted one of "
                f"{first} to {last if most is None else most}"
            )
        return newest

    # requests

    def ask(
        self, api: Api, request: Any, timeout_ms: float | None = None, version: int | None = None
    ) -> Any:
        """Sends a request and returns its response. No other request may be in flight."""
        if self.in_flight:
            raise RuntimeError(f"{self!r}: {api.name} would get the answer of another request")
        self.send(api, request, timeout_ms, version)
        return self.receive()[1]

    def send(
        self, api: Api, request: Any, timeout_ms: float | None = None, version: int | None = None
    ) -> int:
        """Sends a request; returns the correlation id of its response."""
        chosen = self.version(api) if version is None else version
        return self.send_bytes(api, chosen, [codec.encode(request, chosen)], timeout_ms)

    def send_bytes(
        self,
        api: Api,
        version: int,
        body: Sequence[bytes | bytearray | memoryview],
        timeout_ms: float | None = None,
    ) -> int:
        """The same for an encoded request. Its bytes are not copied."""
        now = time.monotonic()
        if self._login_due <= now:
            self._renew_login()
            now = time.monotonic()
        self._last_id = self._last_id % CORRELATION_ID_MAX + 1
        header = headers.RequestHeader(api.key, version, self._last_id, self.config.client_id)
        head = headers.encode_request(header)
        size = len(head) + sum(map(len, body))
        timeout_ms = self.config.socket_timeout_ms if timeout_ms is None else timeout_ms
        deadline = now + timeout_ms / 1000
        self._in_flight.append(InFlight(self._last_id, api, version, deadline, timeout_ms))
        self._send_all([SIZE.pack(size) + head, *body], deadline)
        return self._last_id

    def _send_all(self, parts: Sequence[bytes | bytearray | memoryview], deadline: float) -> None:
        left = [memoryview(part) for part in parts if len(part)]
        while left:
            try:
                self._wait_until(deadline)
                sent = self._socket.sendmsg(left[:PARTS_MAX])
            except OSError as error:
                self._fail(error)
            while left and sent >= len(left[0]):
                sent -= len(left.pop(0))
            if sent:
                left[0] = left[0][sent:]

    # responses

    def receive(self) -> tuple[int, Any]:
        """The answer to the oldest request in flight, with its correlation id."""
        correlation_id, api, version, body = self.receive_bytes()
        try:
            return correlation_id, codec.decode(api.response, body, version)
        except MalformedMessage:
            self.close()
            raise

    def receive_bytes(self, room: Room = bytearray) -> Received:
        """Correlation id, API, version and undecoded body of the answer. `room` returns a buffer of
        a given size, because new memory is the largest cost of a large answer."""
        if self._early:
            return self._early.popleft()
        if not self._in_flight:
            raise RuntimeError(f"{self!r}: no request is in flight")
        return self._received(room)

    def _received(self, room: Room) -> Received:
        asked = self._in_flight[0]
        head = self._exactly(SIZE.size, asked.deadline)
        (size,) = SIZE.unpack(head)
        if size >> 16 == TLS_ALERT and not self._is_encrypted:
            why = f"security_protocol is {self.config.security_protocol}, this listener wants TLS"
            self._fail(TlsFailed(f"broker {self.address}: {why}"))
        if not SIZE.size <= size <= FRAME_SIZE_MAX:
            self._fail(MalformedMessage(f"an answer of {size} bytes, {FRAME_SIZE_MAX} allowed"))
        frame = self._exactly(size, asked.deadline, room)
        try:
            got, body = headers.decode_response(frame, asked.api.key, asked.version)
            if got != asked.correlation_id:
                raise MalformedMessage(f"correlation id {got}, wanted {asked.correlation_id}")
        except MalformedMessage as error:
            self._fail(error)
        self._in_flight.popleft()
        self._is_accepted = self._is_accepted or asked.api.key not in BEFORE_LOGIN
        return asked.correlation_id, asked.api, asked.version, body

    def _exactly(
        self, size: int, deadline: float, room: Room = bytearray
    ) -> bytearray | memoryview:
        buffer = room(size)
        left = memoryview(buffer)
        while left:
            try:
                got = self._some(left, deadline)
            except OSError as error:
                self._fail(error)
            if not got:
                self._fail(EOFError("the broker closed it"))
            left = left[got:]
        return buffer

    def _some(self, left: memoryview, deadline: float) -> int:
        """Reads a large answer in one call. If other threads keep the GIL busy, each return from a
        call may wait for it longer than the bytes took."""
        self._wait_until(deadline)
        if len(left) < LARGE or self._is_encrypted:  # from TLS a record at a time
            return self._socket.recv_into(left)
        micros = int((self._socket.gettimeout() or 0) * 1e6) + 1
        self._socket.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVTIMEO, TIMEVAL.pack(*divmod(micros, 1_000_000))
        )
        self._socket.setblocking(True)  # for Python; the kernel keeps the timeout
        try:
            return self._socket.recv_into(left, 0, socket.MSG_WAITALL)
        except BlockingIOError as error:
            raise TimeoutError from error

    # failures

    def _wait_until(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)

    def _fail(self, error: Exception) -> NoReturn:
        self.close()
        if isinstance(error, TlsFailed):
            raise error
        waiting = ", ".join(
            f"{each.api.name} {each.correlation_id}" for each in list(self._in_flight)[:3]
        )
        more = f" and {self.in_flight - 3} more" if self.in_flight > 3 else ""
        facts = f"broker {self.address}, in flight: {waiting or 'nothing'}{more}"
        if isinstance(error, TimeoutError):
            waited = f"{self._in_flight[0].timeout_ms:.0f} ms" if self._in_flight else "its time"
            late = RequestTimedOut(f"{facts}: no answer within {waited}")
            raise late.at(broker=self.address) from error
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
            raise tls.explained(error, self.config, facts, self.address.host) from error
        lost = ConnectionLost(f"{facts}: {error}{self._hint()}")
        raise lost.at(broker=self.address) from error

    def _hint(self) -> str:
        """A broker that does not want this client often just closes the connection."""
        protocol = f"security_protocol is {self.config.security_protocol}"
        has_talked = bool(self._versions.keys() - BEFORE_LOGIN)
        if self._is_accepted or (has_talked and self.config.has_login):
            return ""
        if has_talked:
            return f"; it may want a login: {protocol}"
        if not self._is_encrypted:
            return f"; it may want TLS: {protocol}"
        return f"; it may want another certificate: {tls.own_certificate(self.config)}"
