"""Groups with commits: what was committed never goes back, nothing is passed over, and after the
faults each group comes to the end."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import defaultdict, deque
from collections.abc import Collection
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.replication.histories.ledger import Ledger
from tests.replication.histories.readers import close, consumer, messages, text_of
from tests.replication.histories.site import Site

SESSION_MS = 10_000
# A client that hangs in its `close` beats on, and gives nothing back: it is out after this time.
POLL_MS = 15_000
ASK_S = 10.0
PROTOCOLS = ("classic", "consumer")
STEPS_KEPT = 60  # of a group's members, told where a commit went back


class Member:
    """One commit is on its way at a time, and none of what was another member's since: so what a
    group was told goes back only by the broker's fault. It does not wait within `commit`, which
    librdkafka (2.16) sometimes never ends, though nothing is on its way."""

    def __init__(self, site: Site, group: Group, number: int) -> None:
        self._group, self._name = group, f"{group.name}-{number}"
        self._ends: dict[int, int] = {}  # to commit
        self._committing: dict[int, int] = {}  # is on its way
        own = {"group.protocol": "consumer"} if group.protocol == "consumer" else {
            "session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 1000}  # fmt: skip
        self._consumer = consumer(site, group.name, **{
            **own, "client.id": self._name, "auto.offset.reset": "earliest",
            "max.poll.interval.ms": POLL_MS, "on_commit": self._committed})  # fmt: skip
        self._consumer.subscribe(
            ["log"], on_assign=self._assigned, on_revoke=self._forget, on_lost=self._forget
        )

    def step(self) -> None:
        for each in messages(self._consumer, 0.3):
            if each.error() is None:
                self._group.took(each)
                self._ends[each.partition()] = each.offset() + 1
        if self._ends and not self._committing:
            ends, self._ends = self._ends, {}
            self._note("commits", ends)
            with suppress(KafkaException):
                self._consumer.commit(offsets=[TopicPartition("log", *each)
                                               for each in ends.items()])  # fmt: skip
                self._committing = ends

    def _assigned(self, consumer: Consumer, places: Collection[TopicPartition]) -> None:
        self._note("has", sorted(each.partition for each in places))
        self._ends.clear()

    def _forget(self, consumer: Consumer, places: Collection[TopicPartition]) -> None:
        self._note("gives back", sorted(each.partition for each in places))
        self._ends.clear()

    def _committed(self, error: Any, places: Collection[TopicPartition]) -> None:
        self._note("hears of", self._committing, error or "ok")
        self._committing = {}
        if error is None:
            self._group.committed([each for each in places if each.error is None])

    def _note(self, *words: Any) -> None:
        """Its id is not asked for: `memberid` keeps the GIL while it waits for a thread that may
        never answer."""
        self._group.note(self._name, *words)

    def leave(self) -> None:
        self._note("leaves")
        close(self._consumer)


class Group:
    """Some members, of which one leaves now and then and another comes."""

    def __init__(self, site: Site, ledger: Ledger, protocol: str, seed: int) -> None:
        self.name, self.protocol = f"group-{protocol}", protocol
        self.consumed: dict[int, set[int]] = defaultdict(set)
        self.commits = 0
        self._floors: dict[int, int] = {}  # acknowledged commits
        self._numbers = itertools.count()  # of its members
        self._steps: deque[str] = deque(maxlen=STEPS_KEPT)
        self._site, self._ledger, self._random = site, ledger, random.Random(seed)
        self._guard = threading.Lock()
        self._is_ending = threading.Event()
        self._threads = [threading.Thread(target=job, name=self.name)
                         for job in (self._be, self._be, self._audit)]  # fmt: skip
        for each in self._threads:
            each.start()

    def _be(self) -> None:
        while not self._is_ending.is_set():
            member = Member(self._site, self, next(self._numbers))
            leaves_s = time.monotonic() + self._random.uniform(5, 40)
            while not self._is_ending.is_set() and time.monotonic() < leaves_s:
                member.step()
            member.leave()

    def note(self, *words: Any) -> None:
        now = datetime.now(timezone.utc).strftime("%H:%M:%S.%f")[:-3]
        self._steps.append(" ".join([now, *map(str, words)]))

    def committed(self, places: Collection[TopicPartition]) -> None:
        with self._guard:
            self.commits += 1
            for place in places:
                known = self._floors.get(place.partition, 0)
                self._floors[place.partition] = max(known, place.offset)

    def took(self, message: Any) -> None:
        partition, offset = message.partition(), message.offset()
        self._ledger.saw(self.name, ("log", partition), offset, text_of(message))
        with self._guard:
            self.consumed[partition].add(offset)

    def _audit(self) -> None:
        """By a consumer that is no member: librdkafka's admin client dies of a coordinator that
        has moved (2.16, `rd_kafka_handle_OffsetFetch`)."""
        asking = consumer(self._site, self.name)
        while not self._is_ending.wait(0.5):
            with self._guard:
                floors = dict(self._floors)
            if floors:
                places = [TopicPartition("log", each) for each in floors]
                with suppress(KafkaException):
                    self._compare(floors, asking.committed(places, ASK_S))
        close(asking)

    def _compare(self, floors: dict[int, int], told: Any) -> None:
        for each in told:
            if each.error is None and each.offset < floors[each.partition]:
                self._ledger.anomalies.add(
                    "commit went back", f"{self.name}: {each.offset} is told of {each.partition}, "
                    f"{floors[each.partition]} was acknowledged before ({'; '.join(self._steps)})",
                )  # fmt: skip
                self._steps.clear()

    def has_all(self, ends: dict[int, int]) -> bool:
        with self._guard:
            return all(self._floors.get(each, 0) >= end for each, end in ends.items())

    def left(self, ends: dict[int, int]) -> dict[int, int]:
        with self._guard:
            left = {each: end - self._floors.get(each, 0) for each, end in ends.items()}
        return {each: count for each, count in left.items() if count > 0}

    def passed_over(self, ends: dict[int, int]) -> dict[int, int]:
        """How many records nobody of the group got."""
        with self._guard:
            found = {each: end - len(self.consumed[each]) for each, end in ends.items()}
        return {each: count for each, count in found.items() if count}

    def end(self) -> None:
        self._is_ending.set()
        for each in self._threads:
            each.join()
