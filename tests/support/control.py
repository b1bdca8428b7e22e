"""The control plane without sockets: real dispatch, handlers, broker and files, and a data plane
that is a list of requests and a list of answers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from appliance.api.dispatch import Dispatcher
from appliance.broker.broker import Broker
from appliance.config import (
    AccessConfig,
    ConsumerGroupsConfig,
    ControlConfig,
    GroupsConfig,
    KeptConfig,
    LogConfig,
    ShareGroupsConfig,
    ShareStateConfig,
    StreamsGroupsConfig,
    TransactionsConfig,
)
from appliance.config.listeners import Listeners
from appliance.protocol import API, codec, headers
from tests.support.broker import Recorder, broker_config
from tests.support.wire_client import frame_of

DEADLINE_S = 20

KEYS = {api.request: key for key, api in API.items()}


class Closed(Exception):
    """The connection was closed instead of an answer."""


class Punt(NamedTuple):
    connection: int
    slot: int
    peer: str
    listener: int
    is_raw: bool
    frame: bytes


class Sent(NamedTuple):
    place: tuple[int, int]
    key: int
    version: int


@dataclass
class PuntQueue(Recorder):
    """What dispatch sees of a data plane."""

    punt_fd: int = field(default_factory=lambda: os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC))
    waiting: list[Punt] = field(default_factory=list)
    answers: dict[tuple[int, int], bytes | None] = field(default_factory=dict)
    closed: set[int] = field(default_factory=set)
    gone: list[int] = field(default_factory=list)
    begun: int = 0
    peer: str = "127.0.0.1"
    generation: int = 0
    decided: dict[tuple[str, str, int], int] = field(default_factory=dict)
    on_answer: Callable[[], None] = lambda: None

    def put(self, frame: bytes, connection: int = 1) -> tuple[int, int]:
        self.begun += 1
        is_raw = connection in self.raw
        self.waiting.append(Punt(connection, self.begun, self.peer, 0, is_raw, frame))
        os.eventfd_write(self.punt_fd, 1)
        return connection, self.begun

    def punts(self) -> tuple[list[Punt], list[int]]:
        os.eventfd_read(self.punt_fd)
        taken, self.waiting = self.waiting, []
        gone, self.gone = self.gone, []
        return taken, gone

    def hang_up(self, connection: int) -> None:
        self.gone.append(connection)
        os.eventfd_write(self.punt_fd, 1)

    def questions(self) -> list[Any]:
        return []

    def enforce(self, generation: int) -> None:
        self.generation = generation

    def decide(
        self, principal: str, host: str, topic: str, known: int, allowed: int, generation: int
    ) -> None:
        self.decided[principal, topic, known] = allowed

    def wake(self, connection: int, slot: int) -> None:
        raise AssertionError("nothing was asked")

    def arrivals(self) -> list[Any]:
        return []

    def closures(self) -> tuple[list[Any], int]:
        return [], 0

    def reply_all(self, answers: list[tuple[int, int, bytes | None]]) -> None:
        for connection, slot, frame in answers:
            assert (connection, slot) not in self.answers, "answered twice"
            self.answers[connection, slot] = frame
        self.on_answer()

    def close(self, connection: int) -> None:
        self.closed.add(connection)
        self.on_answer()


class Control:
    """`ask` is a client's view; everything runs on a loop that turns only within its calls."""

    def __init__(
        self,
        path: Path,
        log: LogConfig | None = None,
        requests_max: int = 100,
        groups: GroupsConfig | None = None,
        transactions: TransactionsConfig | None = None,
        consumer_groups: ConsumerGroupsConfig | None = None,
        share_groups: ShareGroupsConfig | None = None,
        share_state: ShareStateConfig | None = None,
        streams_groups: StreamsGroupsConfig | None = None,
        access: AccessConfig | None = None,
        kept: KeptConfig | None = None,
        listeners: Listeners | None = None,
        **topics: Any,
    ) -> None:
        self.loop = asyncio.new_event_loop()
        control = ControlConfig(requests_max=requests_max, threads=2)
        config = broker_config(path / "data", log, **topics)
        config = replace(
            config,
            listeners=listeners or config.listeners,
            control=control,
            groups=groups or GroupsConfig(initial_rebalance_delay_ms=0),
            transactions=transactions or TransactionsConfig(),
            consumer_groups=consumer_groups or ConsumerGroupsConfig(),
            share_groups=share_groups or ShareGroupsConfig(),
            share_state=share_state or ShareStateConfig(),
            streams_groups=streams_groups or StreamsGroupsConfig(initial_rebalance_delay_ms=0),
            access=access or AccessConfig(),
            kept=kept or KeptConfig(),
        )
        self.broker = Broker.open(config)
        self.queue = PuntQueue()
        self.queue.on_answer = self._wake
        self.broker.connect(self.queue)
        self.dispatcher = Dispatcher(self.broker, self.queue)
        self._answered: asyncio.Event | None = None
        self.run(self._start())

    async def _start(self) -> None:
        self.dispatcher.start()
        await self.broker.transactions.loading.loaded()
        await self.broker.share_partitions.loading.loaded()

    def close(self) -> None:
        self.run(self.dispatcher.close())
        self.run(self.broker.close())
        self._let_go()

    def kill(self) -> None:
        """As SIGKILL leaves it: what the kernel has is kept, nothing is finished."""
        self.run(self.dispatcher.close())
        self.broker.log_dir.abandon()
        self.run(self.broker.share_groups.settled())
        self.run(self.broker.streams_topics.settled())
        self.run(self.broker.share_partitions.close())
        self.run(self.broker.transactions.close())
        self.run(self.broker.groups.close())
        self.loop.run_until_complete(self._cut_off())
        self.broker.catalog.close()
        self._let_go()

    async def _cut_off(self) -> None:
        """What has no end but one that writes, as the clock of the audit trail."""
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for each in rest:
            each.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    def _let_go(self) -> None:
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        os.close(self.queue.punt_fd)

    def run(self, job: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(job, DEADLINE_S))

    def _wake(self) -> None:
        if self._answered is not None:
            self._answered.set()

    async def _until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self._answered = asyncio.Event()
            await self._answered.wait()

    def until(self, is_so: Callable[[], bool]) -> None:
        """Turns the loop until an answer or a close makes it so."""
        self.run(self._until(is_so))

    def raw(self, frame: bytes, connection: int = 1) -> bytes | None:
        """The answer to these bytes."""
        place = self.queue.put(frame, connection)
        self.until(lambda: place in self.queue.answers or connection in self.queue.closed)
        if connection in self.queue.closed:
            raise Closed(f"connection {connection}")
        return self.queue.answers[place]

    def ask(self, request: Any, version: int) -> Any:
        """The answer, decoded: None for a request that gets none."""
        return self.answer(self.send(request, version))

    def send(self, request: Any, version: int, connection: int = 1) -> Sent:
        """What `answer` wants to know, to be asked later."""
        key = KEYS[type(request)]
        place = self.queue.put(frame_of(request, key, version, correlation_id=77), connection)
        return Sent(place, key, version)

    def is_answered(self, sent: Sent) -> bool:
        """After everything that can be done now is done."""
        self.run(self._settle())
        return sent.place in self.queue.answers

    async def _settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    def answer(self, sent: Sent) -> Any:
        connection = sent.place[0]
        self.until(lambda: sent.place in self.queue.answers or connection in self.queue.closed)
        if connection in self.queue.closed:
            raise Closed(f"connection {connection}")
        frame = self.queue.answers[sent.place]
        if frame is None:
            return None
        correlation_id, body = headers.decode_response(frame, sent.key, sent.version)
        assert correlation_id == 77
        return codec.decode(API[sent.key].response, body, sent.version)

    def topic_id(self, name: str) -> UUID:
        return self.broker.topics[name].id

    def create(self, name: str, partitions: int = 1, **configs: str) -> Any:
        """A topic; configs are given with underscores for dots."""
        dotted = {name.replace("_", "."): value for name, value in configs.items()}
        return self.run(self.broker.topics.create(name, partitions, dotted))
