"""The session with ZooKeeper: questions that do not block the event loop, changes of several nodes
at once, and the time until which the session lasts for sure.

When does it end? (Rule 6 of `docs/replication.md`: a leader stops by its own clock.) ZooKeeper's
own leader ends a session when it has not heard of it for the timeout. The server that we are
connected with may be another, which tells its leader of us with each of its pings, twice in a tick;
and if it was just cut off from it, it goes on answering our pings and reads. So a heartbeat here is
a `sync`, which the leader itself must answer. An answer to the one of now proves that the leader
has heard of those that were sent half a tick before, and half a tick is a quarter of the timeout at
most (ZooKeeper allows no timeout below two ticks). A connection is made by the leader: it counts.

kazoo has its own threads, and the heartbeats theirs. Their callbacks only pass a function to the
event loop.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooState
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    RolledBackError,
    SessionExpiredError,
    SessionMovedError,
    WriterNotClosedException,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KeeperState
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from appliance.config import ZooKeeperConfig
from appliance.errors import ApplianceError
from appliance.process import event_log
from appliance.zookeeper.registration import client

log = event_log.named("cluster")

# The outcome of what was under way is unknown; a change of state follows.
AWAY = (ConnectionLoss, ConnectionClosedError, SessionExpiredError, SessionMovedError)
HEARTBEATS = 10  # in a timeout
UNTOLD = 4  # the part of a timeout for which the leader may not have heard of us yet


class ChangeRefused(ApplianceError):
    """Nothing of it was done. `number` is the operation's place in it."""

    def __init__(self, number: int, error: Exception) -> None:
        super().__init__(f"operation {number} of a change in ZooKeeper: {error!r}")
        self.number, self.error = number, error


class Session:
    def __init__(self, config: ZooKeeperConfig, on_state: Callable[[], None]) -> None:
        """`on_state` is called on the loop when a connection or session begins or ends."""
        self.root = config.ensemble.root
        self.is_connected = False
        self.away_since_ns = time.monotonic_ns()
        self.ends = 0, 0  # of which session, and when; one object, so that any thread may read it
        self._on_state = on_state
        self._wakers: dict[Callable[[], None], Callable[[Any], None]] = {}
        self._loop = asyncio.get_running_loop()
        self._connected = asyncio.Event()
        self._is_closed = False
        self.has_login = is_ours = config.has_login
        self.acl = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE] if is_ours else [*OPEN_ACL_UNSAFE]
        # of nodes that nobody else may read; without a login nobody can be kept out
        self.secret_acl = [*CREATOR_ALL_ACL] if is_ours else [*OPEN_ACL_UNSAFE]
        self.client = client(config)
        self.client.add_listener(self._follow)
        self._heartbeats = Heartbeats(self)

    def start(self) -> None:
        self.client.start_async()
        self._heartbeats.start()

    async def close(self) -> None:
        """Ends the session, which removes its ephemeral nodes."""
        if self._is_closed:
            return
        self._is_closed = True
        self._heartbeats.stop()
        self.ends = 0, 0
        try:
            await asyncio.to_thread(self.client.stop)
            self.client.close()
        except WriterNotClosedException as error:
            log.warning("not closed: our nodes stay until the session times out", error=error)
        if self._heartbeats.is_alive():
            await asyncio.to_thread(self._heartbeats.join)
        self._connected.set()

    @property
    def number(self) -> int:
        """Of the session that is or was in use; 0: there was none yet."""
        identity = self.client.client_id
        return int(identity[0]) if identity else 0

    async def connected(self) -> None:
        """Waits until it is. ConnectionClosedError: it is closed."""
        await self._connected.wait()
        if self._is_closed:
            raise ConnectionClosedError("closed")

    async def ask(self, question: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """The answer of one of kazoo's `..._async`."""
        future: asyncio.Future[Any] = self._loop.create_future()

        def pass_on(result: Any) -> None:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(settle, future, result)

        question(*args, **named).rawlink(pass_on)
        return await future

    async def get(self, path: str, watch: Callable[[], None] | None = None) -> tuple[bytes, Any]:
        data, stat = await self.ask(self.client.get_async, self.root + path, self._waker(watch))
        return data or b"", stat

    async def exists(self, path: str, watch: Callable[[], None] | None = None) -> Any:
        return await self.ask(self.client.exists_async, self.root + path, self._waker(watch))

    async def children(self, path: str, watch: Callable[[], None] | None = None) -> list[str]:
        question = self.client.get_children_async
        found: list[str] = await self.ask(question, self.root + path, self._waker(watch))
        return found

    async def ensure(self, path: str) -> None:
        await self.ask(self.client.ensure_path_async, self.root + path, self.acl)

    async def sync(self) -> None:
        """What is read afterwards is at least as new as now."""
        await self.ask(self.client.sync_async, self.root or "/")

    async def create(
        self, path: str, data: bytes, is_secret: bool = False, **kind: bool
    ) -> str:
        question, acl = self.client.create_async, self.secret_acl if is_secret else self.acl
        made: str = await self.ask(question, self.root + path, data, acl, **kind)
        return made.removeprefix(self.root)

    async def delete(self, path: str) -> None:
        await self.ask(self.client.delete_async, self.root + path)

    def change(self) -> Change:
        return Change(self)

    def _waker(self, watch: Callable[[], None] | None) -> Any:
        """A watch that calls on the loop, and says no more than that: who was woken looks."""
        if watch is None:
            return None

        def wake(event: Any) -> None:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(watch)

        return self._wakers.setdefault(watch, wake)  # kazoo keeps a set for each node

    def forget(self, watch: Callable[[], None]) -> None:
        self._wakers.pop(watch, None)

    # called by kazoo's threads

    def _follow(self, state: str) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._followed, state == KazooState.CONNECTED)

    # on the loop

    def _followed(self, is_connected: bool) -> None:
        if self._is_closed:
            return
        if is_connected:
            self._connected.set()
        else:
            self._connected.clear()
        if is_connected != self.is_connected:
            self.is_connected = is_connected
            self.away_since_ns = 0 if is_connected else time.monotonic_ns()
            tell = log.info if is_connected else log.warning
            tell("connected" if is_connected else "away: the last view is kept")
        self._on_state()


def settle(future: asyncio.Future[Any], result: Any) -> None:
    if future.done():
        return  # nobody waits any more
    if result.successful():
        future.set_result(result.value)
    else:
        future.set_exception(result.exception)


class Change:
    """Several operations, done at once or not at all."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._request = session.client.transaction()

    def check(self, path: str, version: int = -1) -> Change:
        """Refused if the node has another version, or (-1) is not there."""
        self._request.check(self._session.root + path, version)
        return self

    def create(
        self, path: str, data: bytes, ephemeral: bool = False, sequence: bool = False,
        is_secret: bool = False,
    ) -> Change:  # fmt: skip
        acl = self._session.secret_acl if is_secret else self._session.acl
        self._request.create(self._session.root + path, data, acl, ephemeral, sequence)
        return self

    def set(self, path: str, data: bytes, version: int) -> Change:
        self._request.set_data(self._session.root + path, data, version)
        return self

    def delete(self, path: str, version: int = -1) -> Change:
        self._request.delete(self._session.root + path, version)
        return self

    async def commit(self) -> list[Any]:
        """The answer to each operation. ChangeRefused: nothing was done; `AWAY`: who knows."""
        results: list[Any] = await self._session.ask(self._request.commit_async)
        for number, result in enumerate(results):
            if isinstance(result, Exception) and not isinstance(result, RolledBackError):
                raise ChangeRefused(number, result)
        return results


class Heartbeats(threading.Thread):
    """Keeps `Session.ends`. A thread of its own: the event loop may be busy."""

    def __init__(self, session: Session) -> None:
        super().__init__(name="zookeeper-heartbeats", daemon=True)
        self._session, self._client = session, session.client
        self._ended = threading.Event()
        self._timeout_ns = 0
        self._heard_ns = 0  # the leader heard of us then, or later
        self._sent: deque[int] = deque()
        self._number = 0  # of the session
        self._lock = threading.Lock()
        self._connect = self._client._connection._connect
        self._client._connection._connect = self._connected

    def stop(self) -> None:
        self._ended.set()

    def _connected(self, *server: Any) -> Any:
        """kazoo tells the timeout on which it agreed with the server nowhere else."""
        began = time.monotonic_ns()
        answer = self._connect(*server)
        with self._lock:
            self._timeout_ns = int(answer[0] * 1_500_000)  # it answers two thirds, in ms
            self._number = self._session.number
            self._heard_ns = began
            self._sent.clear()
            self._tell()
        return answer

    def run(self) -> None:
        while not self._ended.wait((self._timeout_ns or 1_000_000_000) / 1e9 / HEARTBEATS):
            if self._client._state == KeeperState.CONNECTED:
                self._beat()

    def _beat(self) -> None:
        number, sent = self._number, time.monotonic_ns()
        question = self._client.sync_async(self._session.root or "/")
        try:
            question.get(timeout=self._timeout_ns / 1e9)
        except (KazooException, KazooTimeoutError):
            return  # the connection was lost, and a new one is a heartbeat
        with self._lock:
            if number == self._number == self._session.number:
                self._beaten(sent)

    def _beaten(self, sent: int) -> None:
        self._sent.append(sent)
        while self._sent and self._sent[0] <= sent - self._timeout_ns // UNTOLD:
            self._heard_ns = max(self._heard_ns, self._sent.popleft())
        self._tell()

    def _tell(self) -> None:
        if not self._ended.is_set():
            self._session.ends = self._number, self._heard_ns + self._timeout_ns
