"""Groups with commits: what was committed never goes back, nothing is passed over, and after the
faults each group comes to the end."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Collection
from contextlib import suppress
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


class Group:
    """Some members, of which one leaves now and then and another comes."""

    def __init__(self, site: Site, ledger: Ledger, protocol: str, seed: int) -> None:
        self.name, self.protocol = f"group-{protocol}", protocol
        self.consumed: dict[int, set[int]] = defaultdict(set)
        self.commits = 0
        self._floors: dict[int, int] = {}  # acknowledged commits
        self._site, self._ledger, self._random = site, ledger, random.Random(seed)
        self._guard = threading.Lock()
        self._is_ending = threading.Event()
        self._threads = [threading.Thread(target=job, name=self.name)
                         for job in (self._be, self._be, self._audit)]  # fmt: skip
        for each in self._threads:
            each.start()

    def _member(self) -> Consumer:
        own = {"group.protocol": "consumer"} if self.protocol == "consumer" else {
            "session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 1000}  # fmt: skip
        found = consumer(self._site, self.name, **{
            **own, "auto.offset.reset": "earliest", "max.poll.interval.ms": POLL_MS,
            "on_commit": self._committed})  # fmt: skip
        found.subscribe(["log"])
        return found

    def _be(self) -> None:
        while not self._is_ending.is_set():
            member = self._member()
            leaves_s = time.monotonic() + self._random.uniform(5, 40)
            while not self._is_ending.is_set() and time.monotonic() < leaves_s:
                self._step(member)
            close(member)

    def _step(self, member: Consumer) -> None:
        ends: dict[int, int] = {}
        for each in messages(member, 0.3):
            if each.error() is None:
                self._take(each)
                ends[each.partition()] = each.offset() + 1
        if not ends:
            return
        with suppress(KafkaException):
            member.commit(offsets=[TopicPartition("log", *each) for each in ends.items()])

    def _committed(self, error: Any, places: Collection[TopicPartition]) -> None:
        """Called within `consume`. A commit that waits for its answer there sometimes waits for
        ever (librdkafka 2.16), without a request on its way."""
        if error is not None:
            return
        with self._guard:
            self.commits += 1
            for place in places:
                if place.error is None:
                    known = self._floors.get(place.partition, 0)
                    self._floors[place.partition] = max(known, place.offset)

    def _take(self, message: Any) -> None:
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
                    f"{floors[each.partition]} was acknowledged before",
                )  # fmt: skip

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
