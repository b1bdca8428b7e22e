"""kill -9 under the members of a share group: records acknowledged before the kill are not
delivered again, acquired ones are, and none is skipped."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from appliance.record import _batch_builder
from tests.support.logs import until
from tests.support.serving import Serving
from tests.support.share_member import ACCEPT, REJECT, RELEASE, Ack, Place, ShareMember
from tests.support.warm_serving import WarmServing
from tests.support.wire_client import WireClient

from .harness import NIGHTLY
from .test_power_cut_states import SEED

ROUNDS = 60 if NIGHTLY else 2
MEMBERS = 3
TOPIC = "work"
DELIVERIES = 10
LOCK_MS = 1000
FINISHED = 50  # of about 330 records of a life, before its end
LONG_S = 20.0
SETTINGS = {
    "group.share.record.lock.duration.ms": LOCK_MS,
    "group.share.delivery.count.limit": DELIVERIES,
    "share.coordinator.snapshot.update.records.per.snapshot": 20,
    "share.coordinator.state.topic.prune.interval.ms": 200,
}
WEIGHTS = {ACCEPT: 70, RELEASE: 15, REJECT: 5, None: 10}

Offset = tuple[Place, int]


class Books:
    """The books of all members and lives: `finished` has the time of each known acknowledgement."""

    def __init__(self) -> None:
        self.guard = threading.Lock()
        self.moment = 0
        self.finished: dict[Offset, int] = {}
        self.unsure: set[Offset] = set()  # acknowledged, but killed before the response
        self.deliveries: Counter[Offset] = Counter()
        self.faults: list[str] = []

    def now(self) -> int:
        with self.guard:
            return self.moment

    def delivered(self, place: Place, first: int, last: int, asked: int) -> None:
        with self.guard:
            for offset in range(first, last + 1):
                self.deliveries[place, offset] += 1
                known = self.finished.get((place, offset))
                if known is not None and known <= asked:
                    self.faults.append(f"{offset} of {place} came again")

    def begun(self, place: Place, offsets: list[int]) -> None:
        with self.guard:
            self.unsure |= {(place, each) for each in offsets}

    def done(self, place: Place, offsets: list[int], is_good: bool) -> None:
        with self.guard:
            self.moment += 1
            for each in offsets:
                self.unsure.discard((place, each))
                if is_good:
                    self.finished[place, each] = self.moment


class Working(threading.Thread):
    """A member that accepts most of its records, and dies with the broker."""

    def __init__(self, address: tuple[str, int], books: Books, seed: int) -> None:
        super().__init__()
        self._address = address
        self._books = books
        self._random = random.Random(seed)
        self.start()

    def run(self) -> None:
        try:
            with ShareMember(self._address, "g", TOPIC) as member:
                member.join()
                while True:
                    asked, most = self._books.now(), self._random.choice([1, 7, 50])
                    for place, first, last, _ in member.acquire(most, 100):
                        self._books.delivered(place, first, last, asked)
                        self._say(member, place, first, last)
        except (OSError, EOFError):
            return  # the broker was killed
        except AssertionError as error:
            self._books.faults.append(f"a member failed: {error}")

    def _say(self, member: ShareMember, place: Place, first: int, last: int) -> None:
        kinds = self._random.choices([*WEIGHTS], [*WEIGHTS.values()], k=last - first + 1)
        acks: list[Ack] = [
            (first + i, first + i, [kind]) for i, kind in enumerate(kinds) if kind is not None
        ]
        if not acks:
            return
        final = [ack[0] for ack in acks if ack[2] != [RELEASE]]
        self._books.begun(place, final)
        error = member.acknowledge(place, *acks)
        # a lock may have timed out on a busy machine, so its records do not count
        self._books.done(place, final, error == 0)


def first_look(broker: Serving) -> dict[int, Place]:
    """Sets the start of the group, before the first record."""
    with WireClient(broker.kafka) as client:
        client.create_topic(TOPIC, 2)
    with alone(broker) as member:
        assert member.acquire() == []
        return {place[1]: place for place in member.assigned}


def alone(broker: Serving) -> ShareMember:
    """A member that reads every partition."""
    member = ShareMember(broker.kafka, "g", TOPIC)
    member.join()
    while len(member.assigned) < 2:
        member.heartbeat()
    return member


def produce(broker: Serving, ends: dict[int, int], dice: random.Random) -> None:
    with WireClient(broker.kafka) as client:
        for i in range(60):
            rows = [(1, None, b"x")] * dice.randint(1, 10)
            batch = _batch_builder.batch(rows)
            (row,) = client.produce(batch, acks=-1, topic=TOPIC, partition=i % 2)
            assert row.error_code == 0, row
            ends[i % 2] = row.base_offset + len(rows)


def missing(ends: dict[int, int], places: dict[int, Place], books: Books) -> set[Offset]:
    everything = {(places[i], offset) for i, end in ends.items() for offset in range(end)}
    spent = {each for each, count in books.deliveries.items() if count >= DELIVERIES}
    return everything - books.finished.keys() - books.unsure - spent


def drain(broker: Serving, books: Books, left: Callable[[], set[Offset]]) -> None:
    """Accepts all remaining records, until none arrives for twice the lock duration, or for long
    where some are left."""
    with alone(broker) as member:
        quiet_since = time.monotonic()
        while (quiet_s := time.monotonic() - quiet_since) < 2 * LOCK_MS / 1000 or (
            quiet_s < LONG_S and left()
        ):
            asked = books.now()
            for place, first, last, _ in member.acquire(500, 100):
                quiet_since = time.monotonic()
                books.delivered(place, first, last, asked)
                is_good = member.acknowledge(place, (first, last, [ACCEPT])) == 0
                books.done(place, [*range(first, last + 1)], is_good)


def test_acknowledged_records_stay_so_when_the_broker_is_killed(tmp_path: Path) -> None:
    dice, books = random.Random(SEED), Books()
    ends: dict[int, int] = {}
    places: dict[int, Place] = {}
    lives: list[Serving] = []
    for _ in range(ROUNDS):
        broker = WarmServing(tmp_path, **SETTINGS)
        lives.append(broker)
        places = places or first_look(broker)
        workers = [Working(broker.kafka, books, dice.randrange(10**9)) for _ in range(MEMBERS)]
        produce(broker, ends, dice)
        time.sleep(dice.uniform(0.1, 1.0))
        until(lambda: books.faults or len(books.finished) > FINISHED * len(lives), 60)
        broker.stop(signal.SIGKILL)
        for each in workers:
            each.join()
    assert not books.faults, books.faults[:10]
    broker = WarmServing(tmp_path, **SETTINGS)
    try:
        drain(broker, books, lambda: missing(ends, places, books))
    finally:
        broker.stop()
    assert not books.faults, books.faults[:10]
    lost = missing(ends, places, books)
    assert not lost, sorted(each[1] for each in lost)[:10]
