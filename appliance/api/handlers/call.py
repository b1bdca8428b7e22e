"""The context of a request for its handler: facts, later responses, and refusals."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, MutableMapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, TypeVar

from appliance.access.acls import Operation, ResourceType
from appliance.access.authorizer import Authorizer
from appliance.access.principal import Principal
from appliance.errors import ApplianceError
from appliance.protocol.headers import RequestHeader

Result = TypeVar("Result")

CLIENT_ID_MAX = 255  # characters
DENIED_KEPT = 10


class ConnectionDropped(ApplianceError):
    """No answer can carry this news, so the connection is closed, as Kafka does."""


class Later:
    """The answer of a request that waits for other requests, or for the disk.

    All that waits in the control plane is a coroutine, but for the requests that come in bursts:
    JoinGroup, SyncGroup, OffsetCommit, and heartbeats of groups in which the broker assigns. A task
    for each of them would add a fifth to a third to what it costs (docs/decisions/
    control-plane-cost.md), so their groups call back, down to `InternalTopic.write`, which tells
    all writes of a round in the order of the log. ShareFetch and ShareAcknowledge are coroutines
    that answer this way, since they wait for other requests, too.

    Nobody works on it meanwhile, so it takes none of the `control.max.requests` that may be in work
    at a time: a thousand consumers in JoinGroup must not keep out the one that they wait for. Whom
    it waits for calls `give`, once.
    """

    __slots__ = ("_given", "_send")

    def __init__(self) -> None:
        self._given: list[Any] | None = None
        self._send: Callable[[Any], None] | None = None

    def give(self, answer: Any) -> None:
        if self._send is None:
            self._given = [*(self._given or ()), answer]
        else:
            self._send(answer)

    def send_to(self, send: Callable[[Any], None]) -> None:
        self._send = send
        for each in self._given or ():
            send(each)


@dataclass(slots=True)
class Call:
    """One request on its way. Handlers read no clock and own no thread: both come from here."""

    header: RequestHeader
    peer: str
    connection: int
    slot: int  # of the request at its connection
    listener: int  # its number: the place in `listeners`
    received_ns: int  # monotonic
    now_ms: int  # wall clock
    served: Mapping[int, tuple[int, int]]  # API key to the versions that this listener answers
    threads: Executor
    turns: MutableMapping[int, asyncio.Lock]  # by connection
    principal: Principal
    authorizer: Authorizer
    denied: list[str] | None = None  # operations and resources that were; mostly nobody is told
    request: Any = None  # of an administrative act: it is for the audit trail

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether who asks may do it."""
        if not self.authorizer.is_enforced:
            return True
        if self.authorizer.allows(self.principal, self.peer, operation, resource_type, name):
            return True
        self._note_denied(f"{operation.name} {resource_type.name} {name}")
        return False

    def _note_denied(self, what: str) -> None:
        if self.denied is None:
            self.denied = []
        if len(self.denied) < DENIED_KEPT:
            self.denied.append(what)

    @property
    def client_id(self) -> str:
        """As it is kept: a name of 32 KB is nobody's."""
        return (self.header.client_id or "")[:CLIENT_ID_MAX]

    @property
    def received_ms(self) -> int:
        """On the clock of sessions."""
        return self.received_ns // 1_000_000

    @property
    def version(self) -> int:
        return self.header.api_version

    async def on_thread(self, job: Callable[..., Result], *given: object) -> Result:
        """Runs what reads or writes the disk, or waits for it, beside the loop."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, job, *given)

    def turn(self) -> asyncio.Lock:
        """Held over what requests of one connection do in the order in which they came."""
        return self.turns.setdefault(self.connection, asyncio.Lock())

    def seconds_left(self, timeout_ms: int) -> float:
        """Of the time that the client said it will wait."""
        deadline_ns = self.received_ns + timeout_ms * 1_000_000
        return max(0, deadline_ns - time.monotonic_ns()) / 1e9
