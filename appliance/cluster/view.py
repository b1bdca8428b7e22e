"""What this broker knows of the cluster: who lives, who decides, topics and states.

It learns of brokers and of the controller by watches, and of all else by notices (`notices.py`):
one watch and one read for a round, however many partitions changed. Their numbers have no gap, so a
notice that was missed shows, and then everything is read, as after a new session. While ZooKeeper
is away the last view stays.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from kazoo.exceptions import KazooException, NoNodeError

from appliance.cluster import forms, paths
from appliance.cluster.forms import NOBODY, FormUnknown, Key, LivingBroker, Reader, fields_in
from appliance.cluster.notices import Notice, notice_from
from appliance.cluster.reading import Reading, woken
from appliance.cluster.requests import leaving_in, read_requests
from appliance.cluster.session import AWAY, Session
from appliance.cluster.table import Table
from appliance.process import event_log

log = event_log.named("cluster")
UNREAD_MAX = 100  # notices: with more, reading everything is not longer
AGAIN_S, AWAY_S = 1.0, 0.05
BROKERS, CONTROLLER, EVERYTHING = "brokers", "controller", "everything"  # that are to be read


class Listener(Protocol):
    """The broker. Called on the event loop; it looks at the cluster for what is now."""

    def on_change(self, keys: Collection[Key]) -> None:
        """States or replicas of these changed, appeared or are gone."""

    def on_topics(self, names: Collection[str]) -> None:
        """Topics appeared, are gone, have other partitions or configs."""

    def on_brokers(self) -> None:
        """Brokers, their lives, who leaves, or the controller."""

    def on_session(self) -> None:
        """The life of this broker."""

    def lost_replicas(self) -> Collection[Key]:
        """Asked before each registration: which replicas this broker should have, and has lost."""
        ...


class View:
    def __init__(self, session: Session, listener: Listener) -> None:
        self._session, self._listener = session, listener
        self.reading = Reading(session)
        self.table = Table()
        self.brokers: dict[int, LivingBroker] = {}
        # Brokers with a life that is over; when that was seen, or a leader of that life was.
        self.ended: dict[tuple[int, int], float] = {}
        self.leaving: Mapping[int, int] = {}  # who is being stopped, with its life
        self.stopping: dict[int, int] = {}  # who said so itself, before it leaves; with its life
        self.controller_id = NOBODY
        self.controller_epoch = 0
        self.was_read = asyncio.Event()  # everything, at least once
        self.own: set[int] = set()  # notices that say what is in the table already
        self.readers: list[asyncio.Event] = []  # set when there may be work for a controller
        self._waiting: set[asyncio.Event] = set()
        self._newest = -1  # notice that is known
        self.notices_there = 0
        self._wake = asyncio.Event()
        self._is_due = {BROKERS, CONTROLLER, EVERYTHING}
        self._session_read = 0
        self._reading = asyncio.Lock()

    @property
    def lives(self) -> dict[int, int]:
        return {each.node_id: each.life for each in self.brokers.values()}

    @property
    def leaving_now(self) -> frozenset[int]:
        """A broker that came back leaves no more."""
        lives = self.lives
        return frozenset(node for node, life in self.leaving.items() if lives.get(node) == life)

    @property
    def stopping_now(self) -> frozenset[int]:
        lives = self.lives
        return frozenset(node for node, life in self.stopping.items() if lives.get(node) == life)

    def note_stopping(self, node: int, life: int) -> None:
        self.stopping[node] = life

    def look(self) -> None:
        """At all that may have changed: a connection began."""
        self._is_due |= {BROKERS, CONTROLLER}
        self._wake.set()

    def look_at_everything(self) -> None:
        self._is_due.add(EVERYTHING)
        self.look()

    async def keep(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._look()
            except AWAY:
                await asyncio.sleep(AWAY_S)
                self.look()
            except (KazooException, FormUnknown) as error:
                log.warning("ZooKeeper cannot be read", error=repr(error))
                await self._again()
            except Exception:
                log.exception("reading of ZooKeeper failed unexpectedly")
                await self._again()

    async def _again(self) -> None:
        await asyncio.sleep(AGAIN_S)
        self.look_at_everything()

    async def _look(self) -> None:
        await self._session.connected()
        number = self._session.number
        if number != self._session_read:
            await self.reading.make_folders()
        if BROKERS in self._is_due:
            await self.look_at_brokers()
        if CONTROLLER in self._is_due:
            await self._look_at_controller()
        if EVERYTHING in self._is_due or number != self._session_read:
            await self._read_everything()
            self._session_read = number
        else:
            await self._read_notices()
        self.tell()
        if not self.was_read.is_set():
            self.was_read.set()
            self._tell_of_brokers()

    # called when a watch fires

    def _brokers_changed(self) -> None:
        self._is_due.add(BROKERS)
        self._wake.set()

    def _controller_changed(self) -> None:
        self._is_due.add(CONTROLLER)
        self._wake.set()

    def _notices_changed(self) -> None:
        self._wake.set()

    async def look_at_brokers(self) -> None:
        self._is_due.discard(BROKERS)
        brokers = await self.reading.brokers(self._brokers_changed)
        if brokers != self.brokers:
            before, self.brokers = self.lives, brokers
            self.ended.update(self._ended(before.items()))
            self._tell_of_brokers()

    def _ended(self, lives: Iterable[tuple[int, int]]) -> dict[tuple[int, int], float]:
        now, living = time.monotonic(), self.lives
        return {(node, life): now for node, life in lives if living.get(node) != life}

    def set_controller(self, node_id: int, epoch: int) -> None:
        if (node_id, epoch) != (self.controller_id, self.controller_epoch):
            self.controller_id, self.controller_epoch = node_id, epoch
            self._tell_of_brokers()

    async def _look_at_controller(self) -> None:
        self._is_due.discard(CONTROLLER)
        where, found = paths.CONTROLLER, None
        if await self._session.exists(where, self._controller_changed):
            found = await self.reading.node(where, lambda data, stat: controller_in(data, where))
        epoch = await self.reading.node(paths.CONTROLLER_EPOCH, lambda data, stat: epoch_in(data))
        self.set_controller(NOBODY if found is None else found, epoch or 0)

    # everything

    async def read_everything(self) -> None:
        """For the controller, before it decides anything."""
        await self.look_at_brokers()
        await self._read_everything()
        self.tell()

    async def _read_everything(self) -> None:
        async with self._reading:
            await self._read_all()

    async def _read_all(self) -> None:
        self._is_due.discard(EVERYTHING)
        try:
            await self._session.sync()
            numbers = await self.notices()
            begun = self.table.begin_reading()
            self.set_leaving(leaving_in(await read_requests(self._session, self.reading)))
            self.table.replace(await self.reading.topics(), begun)
        except BaseException:
            self._is_due.add(EVERYTHING)
            raise
        self._newest = max(numbers, default=-1)
        self.own = {each for each in self.own if each > self._newest}

    # notices

    async def _read_notices(self) -> None:
        async with self._reading:
            if not await self._took_notices():
                await self._read_all()

    async def _took_notices(self) -> bool:
        """False: they do not say all."""
        numbers = await self.notices()
        unread = [each for each in numbers if each > self._newest]
        if not unread:
            return True
        is_whole = unread == [*range(self._newest + 1, self._newest + 1 + len(unread))]
        if not is_whole or len(unread) > UNREAD_MAX:
            log.info("notices are missing: everything is read", known=self._newest, next=unread[0])
            return False
        for number in unread:
            if not await self._take(number):
                return False
        return True

    async def _take(self, number: int) -> bool:
        """False: it does not say all."""
        if number not in self.own:
            where = f"{paths.CHANGES}/c{number:010}"
            try:
                data, _ = await self._session.get(where)
                notice = notice_from(data, where)
            except NoNodeError:
                return False  # it is old, and gone
            except FormUnknown as error:
                self.reading.pass_over(where, error)
                return False
            self._apply(notice)
            if notice.is_everything:
                return False
        self.own.discard(number)
        self._newest = number
        return True

    def _apply(self, notice: Notice) -> None:
        for news in notice.news:
            self.table.apply(news)
        if notice.leaving is not None:
            self.set_leaving(notice.leaving)
        if notice.stopping:
            self.note_stopping(notice.by, notice.stopping)

    async def hear_of(self, name: str) -> bytes:
        """The id of the topic that ZooKeeper has of that name by now, which is known here when it
        returns; empty: it has none. That one is gone shows here with the notice of it."""
        await self._session.sync()
        async with self._reading:  # else a deletion that is heard meanwhile would be undone
            node = await self.reading.topic_node(name)
            known = self.table.topics.get(name)
            if paths.topic(name) in self.reading.troubles:
                return self.table.topic_id(name)
            if node is None or node.topic_id in self.table.deleted:
                return b""
            if known is None or (known.topic_id, known.version) != (node.topic_id, node.version):
                news = await self.reading.topic(name)
                if news is None:
                    return b""
                self.table.apply(news)
        self.tell()
        return self.table.topic_id(name)

    async def name_of(self, topic_id: bytes) -> str:
        """Of the topic that ZooKeeper has under that id by now; empty: none."""
        await self._session.sync()
        name = await self.reading.node(
            paths.topic_id(topic_id), lambda data, stat: data.decode("ascii", "replace")
        )
        return name or ""

    def set_leaving(self, leaving: Mapping[int, int]) -> None:
        if leaving != self.leaving:
            self.leaving = dict(leaving)
            self._tell_of_brokers()

    async def notices(self) -> list[int]:
        """The numbers of those that are there, in order."""
        names = await self._session.children(paths.CHANGES, self._notices_changed)
        found = (paths.number_in(each) for each in names if each.startswith("c"))
        numbers = sorted(each for each in found if each is not None)
        self.notices_there = len(numbers)
        return numbers

    # to the broker

    def tell(self) -> None:
        changes = self.table.take_changes()
        # It was seen before, unless the broker was gone when the first list was read.
        for life, seen_s in self._ended(self._leaders(changes.keys)).items():
            self.ended.setdefault(life, seen_s)
        if changes.names:
            self._listener.on_topics(changes.names)
        if changes.keys:
            self._listener.on_change(changes.keys)
        if changes.names or changes.keys:
            self._wake_waiting()
        if any(map(self._wants_controller, changes.keys)) or self._lacks_leaders(changes.names):
            self._wake_readers()

    def _tell_of_brokers(self) -> None:
        self._wake_readers()
        self._listener.on_brokers()
        self._wake_waiting()

    async def until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Whether it became true in time. It is asked after each change."""
        changed = asyncio.Event()
        self._waiting.add(changed)
        try:
            end = time.monotonic() + timeout_s
            while not condition():
                left_s = end - time.monotonic()
                if left_s <= 0:
                    return False
                await woken(changed, left_s)
                changed.clear()
            return True
        finally:
            self._waiting.discard(changed)

    def _leaders(self, keys: Collection[Key]) -> Iterable[tuple[int, int]]:
        """With their lives."""
        states = [state for key in keys if (state := self.table.states.get(key))]
        return [(each.leader, each.leader_life) for each in states if each.leader != NOBODY]

    def _wants_controller(self, key: Key) -> bool:
        """It is being moved, or its leader has lost it."""
        topic, state = self.table.topics.get(key[0]), self.table.states.get(key)
        if topic and (topic.adding or topic.removing):
            return True
        return bool(state and state.leader != NOBODY and state.leader not in state.isr)

    def _lacks_leaders(self, names: Collection[str]) -> bool:
        """A setting of such a topic may say now that anybody may lead."""
        known = ((name, self.table.topics.get(name)) for name in names)
        return any(
            state is not None and state.leader == NOBODY
            for name, topic in known if topic
            for state in (self.table.states.get((name, each))
                          for each in range(len(topic.partitions)))
        )  # fmt: skip

    def _wake_readers(self) -> None:
        for each in self.readers:
            each.set()

    def _wake_waiting(self) -> None:
        for each in self._waiting:
            each.set()


def controller_in(data: bytes, where: str) -> int:
    return Reader(where, fields_in(data, where, 2)).number("brokerid", 0, forms.ID_MAX)


def epoch_in(data: bytes) -> int:
    if not data.isdigit() or len(data) > 9:
        raise FormUnknown(f"{paths.CONTROLLER_EPOCH} in ZooKeeper: wanted a number")
    return int(data)
