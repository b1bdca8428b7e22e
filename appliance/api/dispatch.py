"""From a request that the data plane handed over to its answer: decode, call the handler, reply.

    punt -> header -> key and version known?   no: connection closed, as Kafka does
         -> body   -> well formed?             no: connection closed
         -> handler, at once or as a task
         -> answer, an error in the API's own words, or, where it has none, connection closed

ApiVersions is the exception: asked for in an unknown version it is answered in version 0, since
that is how clients find out what a broker speaks.

Requests of one connection run side by side, but for what a handler does in turn; the data plane
sends the answers in order. A turn of the event loop begins a bounded number of requests, at most
one large one, and a bounded number of them and of their bytes is in work: what comes on top waits
for its turn (`request_queue.py`), each connection's in the order in which it came. A request that
waits for others is not in work. How many a connection may have, whether they wait or not, is the
data plane's bound.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from types import CoroutineType, ModuleType
from typing import Any, NamedTuple, Protocol
from weakref import WeakValueDictionary

from appliance.access.audit import Asking
from appliance.access.certificate_logins import CERTIFICATE
from appliance.access.kept_per_address import asker
from appliance.access.logins import Answer as LoginAnswer
from appliance.access.logins import Asker
from appliance.access.principal import ANONYMOUS
from appliance.access.topic_decisions import Keeper
from appliance.api.audited import ADMINISTRATIVE, RequestAudit
from appliance.api.closed_connections import ClosureLog
from appliance.api.handlers import HANDLERS, SERVED, api_versions, sasl_authenticate
from appliance.api.handlers.call import Call, ConnectionDropped, Later
from appliance.api.request_queue import SMALL_BYTES, RequestQueue
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.native._peer_network import network_of
from appliance.process import event_log
from appliance.protocol import API, ErrorCode, MalformedMessage
from appliance.protocol.codec import decode, encode
from appliance.protocol.headers import (
    KINDS_MAX,
    RequestHeader,
    decode_request,
    encode_response_header,
)
from appliance.protocol.types import rows_of

log = event_log.named("dispatch")

# Requests begun in one turn of the event loop. At 20 to 200 microseconds each, whatever else the
# loop does waits for a few milliseconds at most.
TURN_REQUESTS_MAX = 32

# Answers given at once. More of them, and who sends them would wait for who makes them.
ANSWERS_MAX = 32

# The part of a header that is the same in every version of every API: what is needed to answer, or
# to say in a log line, when nothing else can be read.
PREFIX = struct.Struct(">hhi")


class Punt(Protocol):
    """A request in the data plane's words."""

    @property
    def connection(self) -> int: ...
    @property
    def slot(self) -> int: ...
    @property
    def peer(self) -> str: ...
    @property
    def listener(self) -> int: ...
    @property
    def is_raw(self) -> bool: ...  # a message of a login, without a header
    @property
    def frame(self) -> bytes: ...


# Connection, slot, and the whole response; None where the request wants none
Answer = tuple[int, int, bytes | None]


class Arrival(Protocol):
    @property
    def connection(self) -> int: ...
    @property
    def listener(self) -> int: ...
    @property
    def peer(self) -> str: ...
    @property
    def subject(self) -> bytes: ...  # of its certificate, in DER
    @property
    def not_before_s(self) -> int: ...  # from when that is good, since 1970


class DataPlane(Keeper, Protocol):
    """What dispatch wants of the data plane; tests have a small one of their own."""

    @property
    def punt_fd(self) -> int: ...
    def punts(self) -> tuple[list[Any], list[int]]: ...
    def arrivals(self) -> list[Any]: ...
    def log_in(self, connection: int, principal: str, expires_ns: int = 0) -> None: ...
    def closures(self) -> tuple[list[Any], int]: ...
    def reply_all(self, answers: list[Answer]) -> None: ...
    def close(self, connection: int) -> None: ...


class Dispatcher:
    def __init__(self, broker: Broker, data_plane: DataPlane) -> None:
        control = broker.config.control
        self._broker = broker
        self._data_plane = data_plane
        self._running_max = control.requests_max
        self._bytes_max = control.bytes_max
        self._waiting: RequestQueue[Punt] = RequestQueue()
        self._running_bytes = 0
        self._closures = ClosureLog()
        self._audit = RequestAudit(broker)
        self._running: set[asyncio.Task[Any]] = set()
        self._threads = ThreadPoolExecutor(control.threads, "handlers")
        self._turn: asyncio.Handle | None = None
        self._is_turn = False
        self._now_ns = self._wall_ms = 0  # when the turn began, on the monotonic and the wall clock
        self._answers: list[Answer] = []  # not given yet
        self._giving: asyncio.Handle | None = None
        # Of connections with a request that holds or awaits one
        self._turns: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()

    def start(self) -> None:
        """On the event loop that every handler is to run on."""
        self._broker.groups.table.topic.together = self._answering
        self._broker.groups.start()
        self._broker.transactions.start()
        self._broker.share_partitions.start()
        self._broker.lag.start()
        self._broker.decisions.connect(self._data_plane)
        self._broker.audit.start()
        asyncio.get_running_loop().add_reader(self._data_plane.punt_fd, self._take)

    def stop_waiting(self) -> None:
        """Answers the requests that wait for others, so that a stop need not."""
        self._is_turn = True
        self._broker.groups.stop()
        self._broker.transactions.stop()
        self._broker.share_partitions.stop()
        self._broker.logins.stop()
        self._is_turn = False
        self._give()

    async def close(self) -> None:
        """Begins nothing more and cuts off what runs; the data plane was drained before. When it
        returns no thread of ours touches a log."""
        asyncio.get_running_loop().remove_reader(self._data_plane.punt_fd)
        self._waiting.clear()
        self._broker.decisions.close()
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._broker.lag.close()
        await asyncio.to_thread(self._threads.shutdown)

    # RequestQueue

    def _take(self) -> None:
        punts, gone = self._data_plane.punts()
        for arrival in self._data_plane.arrivals():
            self._let_in(arrival)  # before it may be among those that are gone
        for punt in punts:
            self._waiting.put(punt)
        for connection in gone:
            self._waiting.drop(connection)
            self._broker.share_partitions.connection_gone(connection)
            self._broker.software.pop(connection, None)
            self._broker.logins.gone(connection)
            self._broker.certificate_logins.gone(connection)
        closures, left_out = self._data_plane.closures()
        for each in closures:
            self._closures.note(each)
        self._closures.note_left_out(left_out)
        self._broker.decisions.take_questions()
        if self._turn is None:
            self._begin_some()  # a turn of the loop costs as much as a heartbeat

    def _let_in(self, arrival: Arrival) -> None:
        """Whose certificate says who it is."""
        logins, connection = self._broker.certificate_logins, arrival.connection
        try:
            principal = logins.came(
                connection, arrival.listener, arrival.subject, arrival.not_before_s
            )
        except ApplianceError as error:
            self._broker.audit.failed(Asking("", network_of(arrival.peer), mechanism=CERTIFICATE))
            self._closures.say(arrival.peer, "certificate", str(error))
            self._data_plane.close(connection)
        else:
            self._data_plane.log_in(connection, str(principal))
            if principal != ANONYMOUS:
                asking = Asking(principal.name, arrival.peer, mechanism=CERTIFICATE)
                self._broker.audit.logged_in(asking)

    def _begin_later(self) -> None:
        if self._turn is None and self._waiting:
            self._turn = asyncio.get_running_loop().call_soon(self._begin_some)

    def _begin_some(self) -> None:
        self._turn, self._is_turn = None, True
        self._now_ns, self._wall_ms = time.monotonic_ns(), self._broker.clock.latest_ms()
        for _ in range(TURN_REQUESTS_MAX):
            punt = None if self._running and not self._may_begin() else self._waiting.take()
            if punt is None:
                break
            self._begin(punt)
            if len(punt.frame) > SMALL_BYTES:
                break
        self._is_turn = False
        self._give()
        if self._waiting and self._may_begin():
            self._begin_later()

    def _may_begin(self) -> bool:
        if not self._running or not self._waiting:
            return True
        size = self._waiting.next_size()
        is_bearable = size <= SMALL_BYTES or self._running_bytes + size <= self._bytes_max
        return len(self._running) < self._running_max and is_bearable

    # One request

    def _begin(self, punt: Punt) -> None:
        if punt.is_raw:
            self._guarded(self._log_in_raw, punt, RequestHeader(sasl_authenticate.KEY, 0, -1))
            return
        try:
            header, body = decode_request(punt.frame)
        except MalformedMessage as error:
            self._guarded(self._begin_unreadable, punt, RequestHeader(-1, -1, -1), error)
            return
        self._guarded(self._handle, punt, header, body)

    def _begin_unreadable(self, punt: Punt, header: RequestHeader, error: ApplianceError) -> None:
        """Who asks for what we speak is told, whatever else stands in the header."""
        header.api_key, header.api_version, header.correlation_id = _prefix(punt.frame)
        if header.api_key != api_versions.KEY or _kind(header.api_key, header.api_version):
            raise error
        self._reply_unknown(punt, header)

    def _handle(self, punt: Punt, header: RequestHeader, body: bytes) -> None:
        key, version = header.api_key, header.api_version
        kind = _kind(key, version)
        if kind is None:
            if key != api_versions.KEY:
                raise ConnectionDropped(_not_served(key, version))
            self._reply_unknown(punt, header)
            return
        request = decode(kind.request, body, version, may_go_on=True)
        peer, connection, broker = punt.peer, punt.connection, self._broker
        call = Call(
            header,
            peer,
            connection,
            punt.slot,
            punt.listener,
            self._now_ns,
            self._wall_ms,
            SERVED,
            self._threads,
            self._turns,
            broker.certificate_logins.principal_of(connection)
            or broker.logins.principal_of(connection),
            broker.authorizer,
        )
        if key in ADMINISTRATIVE:
            call.request = request
        asker.set(network_of(peer))
        try:
            result = kind.handler.handle(broker, request, call)
        except ApplianceError as error:
            self._audit.failed(call, error)
            raise
        if isinstance(result, Later):
            result.send_to(partial(self._guarded, self._reply_to, punt, header, call))
        elif isinstance(result, CoroutineType):
            task = asyncio.ensure_future(result)
            self._running.add(task)
            self._running_bytes += len(punt.frame)
            task.add_done_callback(partial(self._ended, punt, header, call))
        else:
            self._reply_to(punt, header, call, result)

    def _log_in_raw(self, punt: Punt, header: RequestHeader) -> None:
        """After SaslHandshake 0. A failed login has no answer."""

        def give(answer: LoginAnswer) -> None:
            self._put(punt, None if answer.error else answer.data)

        who = Asker(punt.connection, punt.slot, punt.peer, punt.listener)
        self._broker.logins.step(who, punt.frame, give)

    def _reply_unknown(self, punt: Punt, header: RequestHeader) -> None:
        header.api_version = 0
        self._reply(punt, header, api_versions.of_unknown_version())

    def _ended(
        self, punt: Punt, header: RequestHeader, call: Call, task: asyncio.Task[Any]
    ) -> None:
        self._running.discard(task)
        self._running_bytes -= len(punt.frame)
        if not task.cancelled():
            self._guarded(self._reply_result, punt, header, call, task)
        self._begin_later()

    # Answering

    def _reply(self, punt: Punt, header: RequestHeader, answer: Any) -> None:
        frame = None
        if answer is not None:
            key, version = header.api_key, header.api_version
            head = encode_response_header(key, version, header.correlation_id)
            frame = head + encode(answer, version)
        self._put(punt, frame)

    def _put(self, punt: Punt, frame: bytes | None) -> None:
        self._answers.append((punt.connection, punt.slot, frame))
        if len(self._answers) == ANSWERS_MAX:
            self._give()
        elif self._giving is None and not self._is_turn:
            self._giving = asyncio.get_running_loop().call_soon(self._give)

    def _give(self) -> None:
        """The answers of a turn together."""
        if self._giving is not None:
            self._giving.cancel()
            self._giving = None
        if self._answers:
            answers, self._answers = self._answers, []
            self._data_plane.reply_all(answers)

    def _answering(self, job: Callable[[], None]) -> None:
        """What it answers leaves with its end, not a turn of the loop later."""
        self._is_turn = True
        try:
            job()
        finally:
            self._is_turn = False
        self._give()

    def _reply_result(
        self, punt: Punt, header: RequestHeader, call: Call, task: asyncio.Task[Any]
    ) -> None:
        try:
            answer = task.result()
        except ApplianceError as error:
            self._audit.failed(call, error)
            raise
        self._reply_to(punt, header, call, answer)

    def _reply_to(self, punt: Punt, header: RequestHeader, call: Call, answer: Any) -> None:
        if call.denied or call.request is not None:
            self._audit.answered(call, answer)
        self._reply(punt, header, answer)

    def _guarded(
        self, job: Callable[..., None], punt: Punt, header: RequestHeader, *given: Any
    ) -> None:
        """However it goes, the request is answered or its connection closed."""
        try:
            job(punt, header, *given)
        except (MalformedMessage, ConnectionDropped) as error:
            self._drop(punt, header, str(error))
        except ApplianceError as error:
            self._refuse(punt, header, error.kafka_code, str(error))
        except Exception as error:
            log.exception("request failed unexpectedly", peer=punt.peer, **_facts(header))
            self._refuse(punt, header, ErrorCode.UNKNOWN_SERVER_ERROR, type(error).__name__)

    def _refuse(self, punt: Punt, header: RequestHeader, code: int, text: str) -> None:
        answer = error_answer(header, code, text)
        if answer is None:
            self._drop(punt, header, text)
        else:
            self._reply(punt, header, answer)

    def _drop(self, punt: Punt, header: RequestHeader, why: str) -> None:
        reason = header.api_key if header.api_key in HANDLERS else "unknown key"
        self._closures.say(punt.peer, reason, why, **_facts(header))
        self._give()  # to those before it
        self._data_plane.close(punt.connection)


def error_answer(header: RequestHeader, code: int, text: str) -> Any:
    """What says in the API's own words that the whole request failed; None where it has no word for
    it in this version."""
    api = API[header.api_key]
    rows = {each.name: row for each, row in rows_of(api.response)}
    if "error_code" not in rows or header.api_version not in rows["error_code"].versions:
        return None
    message = {"error_message": text} if "error_message" in rows else {}
    return api.response(error_code=code, **message)


def _prefix(frame: bytes) -> tuple[int, int, int]:
    try:
        key, version, correlation_id = PREFIX.unpack_from(frame)
    except struct.error as error:
        raise MalformedMessage(f"request header in {len(frame)} bytes") from error
    return key, version, correlation_id


class Kind(NamedTuple):
    """What there is to know of all requests of one key and version."""

    handler: ModuleType
    request: Any


@lru_cache(maxsize=KINDS_MAX)
def _kind(key: int, version: int) -> Kind | None:
    """None: it is not served."""
    first, last = _versions(key)
    return Kind(HANDLERS[key], API[key].request) if first <= version <= last else None


def _not_served(key: int, version: int) -> str:
    if key not in HANDLERS:
        return f"API key {key} is not served"
    first, last = _versions(key)
    return f"{API[key].name}: version {version} is not served, only {first} to {last}"


def _versions(key: int) -> tuple[int, int]:
    """What is advertised, less what is so only for old clients' sake and has no messages."""
    if key not in HANDLERS:
        return 0, -1
    first, last = HANDLERS[key].VERSIONS
    return max(first, API[key].versions[0]), last


def _facts(header: RequestHeader) -> dict[str, Any]:
    return {
        "api_key": header.api_key,
        "api_version": header.api_version,
        "correlation_id": header.correlation_id,
    }
