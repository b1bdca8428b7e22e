"""Who is at each connection: logins that are under way, and those that succeeded.

    nobody   SaslHandshake names a mechanism -> asked
    asked    SaslAuthenticate, once or more  -> logged in, or refused: the connection is closed
    logged in, with an end (KIP-368)         -> SaslHandshake again, by the same principal only

What a mechanism does slowly runs on threads of its own, and no more than a bounded number of logins
wait for them. A refusal is told after a delay, by a timer: it grows with the failures of who asks.
How often may be tried is counted for both ports together (`login_attempts.py`). A client that has
logged in is known at its address: guesses from elsewhere do not keep it out, nor do few from there.
A listener may have a bound for all failures together (`max.failed.authentication.rate`).

What a user logged in with may be withdrawn: the user is deleted, or has another password. Then the
connections that rest on it end. In Apache Kafka they stay.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from appliance.access import scram_keys
from appliance.access.audit import Asking, AuditTrail
from appliance.access.login_attempts import HERE, LoginAttempts, LoginRefused
from appliance.access.login_counts import LoginCounts
from appliance.access.principal import ANONYMOUS, USER, Principal
from appliance.access.sasl import Exchange, LoginFailed, Mechanism, Work
from appliance.config import AccessConfig
from appliance.config.access import PLAIN
from appliance.config.setting import limit_of
from appliance.errors import ApplianceError, Refused
from appliance.native._peer_network import network_of
from appliance.process import event_log
from appliance.protocol import ErrorCode

log = event_log.named("logins")

# What a client is told, whatever was wrong.
REFUSED = (
    "Authentication failed: the name or the password is wrong, or logging in is not allowed, or not"
    " yet, after too many that failed: wait a minute"
)

DOUBLINGS_MAX = 5  # of the delay: 100 ms become 3.2 s, well within the time for a login
KNOWN_MAX = 10_000  # names at addresses that have logged in
MS = 1_000_000


class DataPlane(Protocol):
    def log_in(self, connection: int, principal: str, expires_ns: int = 0) -> None: ...
    def close_after(self, connection: int, slot: int) -> None: ...
    def expect_raw(self, connection: int) -> None: ...
    def close(self, connection: int) -> None: ...


class ListenerLogins(NamedTuple):
    """How clients of one listener log in."""

    name: str
    asks: bool
    access: AccessConfig
    mechanisms: Mapping[str, Mechanism]  # in the order in which clients are told of them


class Asker(NamedTuple):
    """Who sends a message of a login, and with what request."""

    connection: int
    slot: int
    peer: str
    listener: int


class Answer(NamedTuple):
    data: bytes = b""
    error: ApplianceError | None = None
    lifetime_ms: int = 0  # until the client has to log in again; 0: never


Give = Callable[[Answer], object]

OTHER = "other"  # in the place of a mechanism that is not offered: a client may make up any


@dataclass
class Login:
    mechanism: str
    exchange: Exchange | None  # None: none is under way
    is_raw: bool = False  # its messages come without headers (SaslHandshake 0)
    principal: Principal | None = None
    has_end: bool = False  # and has to log in again
    is_by_token: bool = False  # a delegation token

    def is_of(self, name: str) -> bool:
        """Whether this user has logged in, or is about to."""
        claims = self.exchange is not None and self.exchange.claimed == name
        return claims or (self.principal is not None and self.principal.name == name)

    def rests_on(self, mechanisms: Collection[int]) -> bool:
        """Whether by a credential of one of these. PLAIN may have used any; a token uses none."""
        is_by_one = scram_keys.NUMBERS.get(self.mechanism) in mechanisms
        return self.mechanism == PLAIN or (is_by_one and not self.is_by_token)


class Logins:
    """On the event loop."""

    def __init__(
        self,
        listeners: list[ListenerLogins],
        access: AccessConfig,
        attempts: LoginAttempts,
        audit: AuditTrail,
        now_ms: Callable[[], int],
    ) -> None:
        self._listeners = listeners
        self._access = access
        self._attempts = attempts
        self._audit = audit
        self.counts = LoginCounts()
        for each in listeners:
            if each.asks:
                self.counts.expect(each.name, [*each.mechanisms, OTHER])
        # By the number of a listener, and -1: of all together
        self._bounds = {each: attempts.failure_rate() for each in range(-1, len(listeners))}
        self.limit_failures(limit_of(access.failed_rate_max))
        self._now_ms = now_ms
        self._data_plane: DataPlane | None = None
        self._logins: dict[int, Login] = {}  # by connection
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._threads = ThreadPoolExecutor(access.login_threads, "logins")
        self._is_free = asyncio.Semaphore(access.login_threads)
        self._working: set[asyncio.Task[None]] = set()
        self._delayed: dict[asyncio.TimerHandle, Callable[[], object]] = {}

    def connect(self, data_plane: DataPlane) -> None:
        self._data_plane = data_plane

    def stop(self) -> None:
        """Who waits to be refused need not wait any more."""
        for handle, tell in list(self._delayed.items()):
            handle.cancel()
            tell()
        self._delayed.clear()

    async def close(self) -> None:
        self.stop()
        for task in self._working:
            task.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)
        await asyncio.to_thread(self._threads.shutdown)

    def limit_failures(self, rate: int, listener: int = -1) -> None:
        """In a second at a listener, or at all together; 0: no limit."""
        self._bounds[listener].rate = rate

    def principal_of(self, connection: int) -> Principal:
        login = self._logins.get(connection)
        return ANONYMOUS if login is None or login.principal is None else login.principal

    def is_by_token(self, connection: int) -> bool:
        """Whether a delegation token let it in."""
        login = self._logins.get(connection)
        return login is not None and login.is_by_token

    def mechanism_of(self, connection: int) -> str:
        """By which it logged in; "" where it has not."""
        login = self._logins.get(connection)
        return "" if login is None or login.principal is None else login.mechanism

    def gone(self, connection: int) -> None:
        """It ended, or never logged in."""
        self._logins.pop(connection, None)

    def withdraw(self, name: str, mechanisms: Collection[int] | None) -> None:
        """The user has other credentials of these mechanisms than before; None: it is gone. Ends
        connections that rest on what it had, and logins that are under way with it."""
        ended = [
            connection
            for connection, login in self._logins.items()
            if login.is_of(name) and (mechanisms is None or login.rests_on(mechanisms))
        ]
        for connection in ended:
            if self._data_plane is not None:
                self._data_plane.close(connection)
        if ended:
            why = "the user is deleted" if mechanisms is None else "its password was changed"
            log.info("connections ended", count=len(ended), user=name, why=why)

    # The handshake

    def mechanisms(self, listener: int) -> list[str]:
        return list(self._listeners[listener].mechanisms)

    def begin(self, who: Asker, mechanism: str, *, is_raw: bool) -> None:
        """The client chose a mechanism. What it may not do ends its connection."""
        try:
            self._begin(who, mechanism, is_raw)
        except ApplianceError:
            here, login = self._listeners[who.listener], self._logins.get(who.connection)
            known = mechanism if mechanism in here.mechanisms else OTHER
            self._count(who, known, login, is_good=False)
            self._end(who)
            raise

    def _begin(self, who: Asker, mechanism: str, is_raw: bool) -> None:
        here, login = self._listeners[who.listener], self._logins.get(who.connection)
        if not here.asks:
            raise Refused(ErrorCode.ILLEGAL_SASL_STATE, f"listener {here.name} has no logins")
        if login is not None and (login.exchange is not None or not login.has_end):
            text = "a login is under way, or was successful and has no end"
            raise Refused(ErrorCode.ILLEGAL_SASL_STATE, text)
        if mechanism not in here.mechanisms:
            raise Refused(
                ErrorCode.UNSUPPORTED_SASL_MECHANISM,
                f"got mechanism {mechanism[:80]!r}, wanted one of {', '.join(here.mechanisms)}",
            )
        exchange = here.mechanisms[mechanism]()
        if login is None:
            self._logins[who.connection] = Login(mechanism, exchange, is_raw)
        elif login.mechanism != mechanism or is_raw:
            raise Refused(
                ErrorCode.ILLEGAL_SASL_STATE,
                f"got mechanism {mechanism}, wanted {login.mechanism} as in the first login",
            )
        else:
            login.exchange = exchange
        if is_raw:
            assert self._data_plane is not None, "it handed the request over"
            self._data_plane.expect_raw(who.connection)

    # Messages of a mechanism

    def step(self, who: Asker, data: bytes, give: Give) -> None:
        """Gives the answer, at once or later."""
        login = self._logins.get(who.connection)
        if login is None or login.exchange is None:
            self._end(who)
            text = "no login is under way: SaslHandshake comes first"
            give(Answer(error=Refused(ErrorCode.ILLEGAL_SASL_STATE, text)))
            return
        exchange = login.exchange
        try:
            if exchange.claimed:
                self._check_attempts(who, exchange)
            found = exchange.step(data)
        except ApplianceError as error:
            self._refuse(who, login, exchange, error, give)
            return
        if isinstance(found, bytes):
            self._go_on(who, login, exchange, found, give)
        elif len(self._working) >= self._access.logins_max:
            text = f"{len(self._working)} logins wait for a thread (sasl.logins.max)"
            self._refuse(who, login, exchange, Busy(text), give)
        else:
            job = self._work(who, login, exchange, found, give)
            task = asyncio.get_running_loop().create_task(job)
            self._working.add(task)
            task.add_done_callback(self._working.discard)

    async def _work(
        self, who: Asker, login: Login, exchange: Exchange, work: Work, give: Give
    ) -> None:
        try:
            async with self._is_free:
                if exchange.claimed:
                    self._check_attempts(who, exchange)  # as it is now that its turn has come
                loop = asyncio.get_running_loop()
                found = await loop.run_in_executor(self._threads, work)
        except ApplianceError as error:
            self._refuse(who, login, exchange, error, give)
        except Exception as error:
            log.exception("login failed unexpectedly", peer=who.peer)
            self._refuse(who, login, exchange, LoginFailed(type(error).__name__), give)
        else:
            self._go_on(who, login, exchange, found, give)

    def _go_on(
        self, who: Asker, login: Login, exchange: Exchange, data: bytes, give: Give
    ) -> None:
        if exchange.proven is None:
            give(Answer(data))
            return
        now, principal = self._now_ms(), Principal(USER, exchange.proven.name)
        most = self._listeners[who.listener].access.reauth_ms_max
        ends = [] if exchange.proven.expires_ms is None else [exchange.proven.expires_ms - now]
        ends += [most] if most else []
        fault = ""
        if login.principal not in (None, principal):
            fault = f"{login.principal} logged in again as {principal}"
        elif ends and min(ends) <= 0:
            fault = "what was shown is over"
        elif not exchange.proven.holds():
            fault = "what was shown is from before its user was deleted, or was ended meanwhile"
        if fault:
            self._refuse(who, login, exchange, LoginFailed(fault), give)
            return
        lifetime_ms = min(ends, default=0)
        is_first = login.principal is None
        self._count(who, login.mechanism, login, is_good=True)
        login.is_by_token = exchange.proven.is_by_token
        login.principal, login.exchange, login.has_end = principal, None, lifetime_ms > 0
        if self._data_plane is not None and who.connection in self._logins:
            end_ns = time.monotonic_ns() + lifetime_ms * MS if lifetime_ms else 0
            self._data_plane.log_in(who.connection, str(principal), end_ns)
        self._succeeded(who, exchange.claimed or principal.name)
        if is_first:
            self._audit.logged_in(Asking(principal.name, who.peer, mechanism=login.mechanism))
            log.info("logged in", principal=principal, peer=who.peer,
                        mechanism=login.mechanism, listener=self._listeners[who.listener].name)
        give(Answer(data, lifetime_ms=lifetime_ms))

    # Attempts

    def _device(self, who: Asker, name: str) -> str | None:
        """As which this client is counted, if it has logged in at its address before."""
        return HERE if (name, network_of(who.peer)) in self._known else None

    def _check_attempts(self, who: Asker, exchange: Exchange) -> None:
        """Before anything is proven. Nothing happens between this and counting the failure but what
        few threads do, so that many at once are no way around."""
        name = exchange.claimed
        device = self._device(who, name)
        self._attempts.check(network_of(who.peer), name, device)
        if device is None and any(self._bounds[each].is_reached() for each in (who.listener, -1)):
            raise LoginRefused(
                "too many logins fail (max.failed.authentication.rate), and this user has not "
                "logged in from this address before"
            )

    def _succeeded(self, who: Asker, name: str) -> None:
        place = name, network_of(who.peer)
        self._attempts.forget(place[1], name, self._device(who, name))
        self._known[place] = None
        self._known.move_to_end(place)
        while len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)

    def _refuse(
        self,
        who: Asker,
        login: Login,
        exchange: Exchange,
        error: ApplianceError,
        give: Give,
    ) -> None:
        """Told late, and always with the same words."""
        name, login.exchange = exchange.claimed, None
        address, device = network_of(who.peer), self._device(who, name)
        doublings = min(self._attempts.failures(address, name, device), DOUBLINGS_MAX)
        is_refused = isinstance(error, (LoginRefused, Busy))
        if name and not is_refused:
            self._attempts.count(address, name, device)
            for each in (who.listener, -1):
                self._bounds[each].count()
        self._count(who, login.mechanism, login, is_good=False)
        self._audit.failed(Asking(name, address, mechanism=login.mechanism), is_refused=is_refused)
        log.warning("login failed", peer=who.peer, user=name[:80], mechanism=login.mechanism,
                       why=error)  # fmt: skip
        delay_ms = self._access.failed_delay_ms * 2**doublings
        answer = Answer(error=LoginFailed(REFUSED))

        def tell() -> None:
            self._end(who)
            give(answer)

        def told() -> None:
            del self._delayed[handle]
            tell()

        handle = asyncio.get_running_loop().call_later(delay_ms / 1000, told)
        self._delayed[handle] = tell

    def _count(self, who: Asker, mechanism: str, login: Login | None, *, is_good: bool) -> None:
        """Before it is known who that is from now on."""
        is_renewal = login is not None and login.principal is not None
        name = self._listeners[who.listener].name
        self.counts.count(name, mechanism, is_good=is_good, is_renewal=is_renewal)

    def _end(self, who: Asker) -> None:
        """After the answer."""
        if self._data_plane is not None:
            self._data_plane.close_after(who.connection, who.slot)


class Busy(ApplianceError):
    """Nobody has failed at anything."""
