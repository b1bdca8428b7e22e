"""A connection of one user: one request, one response, over a plain Python socket.

Locust replaces Python's sockets by gevent's, so that other users run while one waits. Client
libraries that wait in C would block all of them; here C only encodes and decodes messages.

It retries nothing. A failure closes it, because the next bytes would belong to a request that
nobody waits for any more.

Logins and TLS are those of the client library.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from typing import Any

from appliance import __version__
from appliance.client import login, tls
from appliance.client.config import ClientConfig
from appliance.client.connection import Address
from appliance.client.errors import BrokerRefused, BrokerUnavailable, ConnectionLost
from appliance.errors import ApplianceError
from appliance.protocol import Api, MalformedMessage, VersionUnsupported, codec, headers
from appliance.protocol.messages.api_versions import API as API_VERSIONS
from appliance.protocol.messages.api_versions import ApiVersionsRequest

SIZE = struct.Struct(">i")
ANSWER_SIZE_MAX = 256 << 20  # far above the fetch size of any user
READ_SIZE = 64 << 10  # most responses arrive in one call
TIMEOUT_MS = 30_000.0  # a broker that is silent for so long has failed
ORDINARY_VERSION = 3  # of ApiVersions: every broker since 2018 supports it
BY_NAME_MAX = {0: 12, 1: 12, 8: 9, 9: 9}  # later versions of these APIs name topics by id


class Connection:
    def __init__(self, address: Address, config: ClientConfig) -> None:
        self.address, self.config = address, config
        self._correlation_id = 0
        self._login_due = login.NEVER  # of time.monotonic
        try:
            where = (address.host, address.port)
            self._socket = socket.create_connection(where, TIMEOUT_MS / 1000)
        except OSError as error:
            raise BrokerUnavailable(f"broker {address}: no connection: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._versions = {API_VERSIONS.key: ORDINARY_VERSION}
        try:
            self._secure()
            self._versions |= self._negotiated()
            self._log_in()
        except BaseException:
            self.close()
            raise

    def _secure(self) -> None:
        if not self.config.is_encrypted:
            return
        where, host = f"broker {self.address}", self.address.host
        try:
            self._socket = tls.secured(self._socket, self.config, host)
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:  # a broker that is stopped
            raise BrokerUnavailable(f"{where}: no handshake of TLS: {error}") from error
        except ssl.SSLError as error:
            raise tls.explained(error, self.config, where, host) from error
        except OSError as error:
            raise BrokerUnavailable(f"{where}: no handshake of TLS: {error}") from error

    def _log_in(self) -> None:
        if self.config.has_login:
            self._login_due = login.NEVER  # for the requests of the login itself
            self._login_due = login.log_in(self)

    def _negotiated(self) -> dict[int, int]:
        """The newest version of each API that the broker supports."""
        answer = self.ask(API_VERSIONS, ApiVersionsRequest("appliance-loadtest", __version__))
        if answer.error_code:
            raise BrokerRefused(answer.error_code, f"broker {self.address}: ApiVersions")
        return {each.api_key: each.max_version for each in answer.api_keys}

    @property
    def is_open(self) -> bool:
        return self._socket.fileno() >= 0

    def close(self) -> None:
        self._socket.close()

    def version(self, api: Api) -> int:
        first, last = api.versions
        newest = min(last, self._versions.get(api.key, -1), BY_NAME_MAX.get(api.key, last))
        if newest < first:
            raise VersionUnsupported(
                f"broker {self.address}: {api.name} {newest}, wanted {first} or newer"
            )
        return newest

    def ask(self, api: Api, request: Any, timeout_ms: float = TIMEOUT_MS) -> Any:
        """`timeout_ms`: for a response that may take longer than usual."""
        if self._login_due <= time.monotonic():
            self._renew_login()
        version = self.version(api)
        body = self._exchange(api, version, codec.encode_parts(request, version), timeout_ms)
        # fields of bytes are views of the response, which nobody overwrites
        return codec.decode(api.response, body, version, borrow=True)

    def _renew_login(self) -> None:
        try:
            self._log_in()
        except BaseException:
            self.close()
            raise

    def _exchange(
        self, api: Api, version: int, body: list[codec.Bytes], timeout_ms: float
    ) -> memoryview:
        self._correlation_id += 1
        client_id = self.config.client_id
        asked = headers.RequestHeader(api.key, version, self._correlation_id, client_id)
        frame = b"".join([headers.encode_request(asked), *body])
        if timeout_ms != TIMEOUT_MS:
            self._socket.settimeout(timeout_ms / 1000)
        try:
            self._socket.sendall(SIZE.pack(len(frame)) + frame)
            answer = self._answer()
            got, found = headers.decode_response(answer, api.key, version)
            if got != self._correlation_id:
                raise MalformedMessage(f"correlation id {got}, wanted {self._correlation_id}")
        except (OSError, MalformedMessage) as error:
            self.close()
            raise self._explained(error, f"broker {self.address}: {api.name}") from error
        except BaseException:  # the user is stopped while it waits for a response
            self.close()
            raise
        if timeout_ms != TIMEOUT_MS:
            self._socket.settimeout(TIMEOUT_MS / 1000)
        return found

    def _explained(self, error: Exception, facts: str) -> ApplianceError:
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
            return tls.explained(error, self.config, facts, self.address.host)
        return ConnectionLost(f"{facts}: {error}")

    def _answer(self) -> bytes | bytearray:
        """A response without its size. Nothing follows: there is one request at a time."""
        first = self._socket.recv(READ_SIZE)
        while 0 < len(first) < SIZE.size:
            more = self._socket.recv(READ_SIZE)
            first = first + more if more else b""
        if not first:
            raise ConnectionResetError("closed by the broker")
        (size,) = SIZE.unpack_from(first)
        if not 0 <= size <= ANSWER_SIZE_MAX:
            raise MalformedMessage(f"an answer of {size} bytes, {ANSWER_SIZE_MAX} allowed")
        if len(first) == SIZE.size + size:
            return first[SIZE.size :]
        return self._rest(first, size)

    def _rest(self, first: bytes, size: int) -> bytearray:
        answer = bytearray(size)
        at = len(first) - SIZE.size
        answer[:at] = first[SIZE.size :]
        if len(answer) > size:
            raise MalformedMessage(f"{len(answer)} bytes of an answer of {size}")
        left = memoryview(answer)[at:]
        while left:
            got = self._socket.recv_into(left)
            if not got:
                raise ConnectionResetError(
                    f"closed by the broker, {len(left)} bytes before the end"
                )
            left = left[got:]
        return answer
