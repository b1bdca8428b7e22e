"""Decisions about topics that the data plane keeps, so that it answers by itself what is allowed.

It asks for what it does not know (`network/_rights.pyx`): a Fetch waits for the answer, Produce and
ListOffsets come to their handlers, which tell what they decided. It forgets everything when the
generation of the rules moves.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from appliance.access.acls import CLUSTER_NAME, Operation, ResourceType
from appliance.access.authorizer import Authorizer
from appliance.access.principal import Principal

READ, WRITE, DESCRIBE, CLUSTER_ACTION = 1, 2, 4, 8  # bits, as `_rights.pxd` numbers them
OPERATIONS = {
    READ: Operation.READ,
    WRITE: Operation.WRITE,
    DESCRIBE: Operation.DESCRIBE,
    CLUSTER_ACTION: Operation.CLUSTER_ACTION,
}
ID = "\0"  # before a transactional id, which the data plane keeps like a topic
CLUSTER = ID + CLUSTER_NAME  # what a follower's fetch asks for, in the place of a topic

# Topics decided in one turn of the event loop, at some microseconds each. A change of rules may
# have ten thousand fetches ask at once; whoever else waits for the loop comes in between.
TURN_TOPICS_MAX = 1000


class Question(Protocol):
    """A fetch that waits, in the data plane's words."""

    @property
    def connection(self) -> int: ...
    @property
    def slot(self) -> int: ...
    @property
    def principal(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def topics(self) -> Sequence[str]: ...


class Keeper(Protocol):
    """What the data plane does with decisions."""

    def enforce(self, generation: int) -> None: ...
    def decide(
        self, principal: str, host: str, topic: str, known: int, allowed: int, generation: int
    ) -> None: ...
    def questions(self) -> list[Any]: ...
    def wake(self, connection: int, slot: int) -> None: ...


class TopicDecisions:
    """On the event loop."""

    def __init__(
        self,
        authorizer: Authorizer,
        refused: Callable[[Question, str], object] = lambda question, topic: None,
    ) -> None:
        """`refused` is told of each fetch, and each topic that it may not read, or `CLUSTER`."""
        self._authorizer = authorizer
        self._refused = refused
        self._keeper: Keeper | None = None
        self._waiting: deque[Question] = deque()
        self._turn: asyncio.Handle | None = None
        # Of this turn: connections of one principal mostly ask the same
        self._made: set[tuple[str, str, str]] = set()

    def connect(self, keeper: Keeper) -> None:
        self._keeper = keeper
        if self._authorizer.is_enforced:
            self._authorizer.on_change(keeper.enforce)
            keeper.enforce(self._authorizer.generation)

    def tell(self, principal: Principal, host: str, right: int, topic: str) -> None:
        """Of a request that came to its handler. What is refused comes there again: clients that
        may do nothing must not push out the decisions of others."""
        self._tell_allowed(principal, host, right, ResourceType.TOPIC, topic, topic)

    def tell_id(self, principal: Principal, host: str, transactional_id: str) -> None:
        """Whether it may write under a transactional id."""
        kind = ResourceType.TRANSACTIONAL_ID
        self._tell_allowed(principal, host, WRITE, kind, transactional_id, ID + transactional_id)

    def _tell_allowed(
        self, principal: Principal, host: str, right: int, kind: ResourceType, name: str, key: str
    ) -> None:
        if self._allows(principal, host, right, kind, name):
            self._decide(str(principal), host, right, key, True)

    def _allows(
        self, principal: Principal, host: str, right: int, kind: ResourceType, name: str
    ) -> bool:
        return self._authorizer.allows(principal, host, OPERATIONS[right], kind, name)

    def _decide(self, who: str, host: str, right: int, key: str, is_allowed: bool) -> None:
        if self._keeper is not None:
            allowed = right if is_allowed else 0
            self._keeper.decide(who, host, key, right, allowed, self._authorizer.generation)

    # Questions of fetches

    def take_questions(self) -> None:
        assert self._keeper is not None
        self._waiting.extend(self._keeper.questions())
        if self._waiting and self._turn is None:
            self._answer_some()

    def close(self) -> None:
        self._waiting.clear()
        if self._turn is not None:
            self._turn.cancel()

    def _answer_some(self) -> None:
        assert self._keeper is not None
        self._turn = None
        left = TURN_TOPICS_MAX
        while self._waiting and left > 0:
            question = self._waiting.popleft()
            left -= 1 + self._answer(question)
            self._keeper.wake(question.connection, question.slot)
        self._made.clear()
        if self._waiting:
            self._turn = asyncio.get_running_loop().call_soon(self._answer_some)

    def _answer(self, question: Question) -> int:
        """How many decisions it took. None are made twice in a turn: rules do not change in it."""
        who, host = question.principal, question.host
        principal, count = Principal.parse(who), 0
        for topic in question.topics:
            if (who, host, topic) not in self._made:
                self._made.add((who, host, topic))
                right, kind, name = READ, ResourceType.TOPIC, topic
                if topic == CLUSTER:
                    right, kind, name = CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
                is_allowed = self._allows(principal, host, right, kind, name)
                self._decide(who, host, right, topic, is_allowed)
                if not is_allowed:
                    self._refused(question, topic)
                count += 1
        return count
