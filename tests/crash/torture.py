"""Moves money in transactions while the broker is stopped again and again (`blows.py`).

Two topics have coins. Tellers, in a group per direction, take coins from one topic and put coins of
the same total into the other: consume, transform, produce, with their offsets in the same
transaction. Some transactions are aborted, and some left open by a teller that ends. Each coin has
the transaction that made it and the coins that this transaction took, so that `ledger.py` can check
the books.

    python -m tests.crash.torture --blow kill --times 200
    python -m tests.crash.torture --blow power-cut-xfs --times 60
    python -m tests.crash.torture --blow full-disk --times 20
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import threading
import time
import traceback
import urllib.request
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotDone
from contextlib import closing
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from loadtest.ports import lasting_port
from tests.crash.blows import BLOWS, Blow, health
from tests.crash.ledger import Books, Coin, Place
from tests.crash.tally import TIMEOUT_MS, Refused, Tally
from tests.support.warm_serving import WarmServing

TOPICS = ("left", "right")
PARTITIONS = 3
TELLERS = 2  # in each direction
COINS, WORTH = 60, 1000  # of the deposit in each topic
TAKEN_MAX, MADE_MAX = 20, 30  # coins of one transaction
ABORTED, LEFT_OPEN = 0.15, 0.03  # shares of all transactions
EARLY = 0.25  # share of the kills soon after the broker's start
DEADLINE_S = 60.0
SESSION_MS = 1500
STUCK_S = 30.0  # six timeouts: no transaction delays readers for longer

# Readers wait only briefly for a teller that is gone.
SETTINGS = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1000}
QUICK = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 100, "log_level": 0}
# librdkafka 2.16 waits for ever for a coordinator that it removed itself when it bootstrapped again
# (its #5511): send_offsets_to_transaction would never return.
KEEPS_BROKERS = {"metadata.recovery.strategy": "none"}


def persist(job: Callable[..., Any], *given: Any) -> Any:
    """Retries until the call succeeds or fails with an error that is not retriable."""
    end = time.monotonic() + DEADLINE_S
    while True:
        try:
            return job(*given)
        except KafkaException as failed:
            error: KafkaError = failed.args[0]
            if not error.retriable() or time.monotonic() > end:
                raise Refused(error) from failed


def producer_of(address: str, name: str) -> Producer:
    """The producer of this name: fences the last one, and aborts its open transaction."""
    settings = {"transactional.id": name, "transaction.timeout.ms": TIMEOUT_MS, "linger.ms": 1}
    made = Producer({"bootstrap.servers": address, **settings, **QUICK, **KEEPS_BROKERS})
    persist(made.init_transactions, DEADLINE_S)
    return made


class Teller:
    def __init__(self, address: str, name: str, source: str, target: str, seed: int) -> None:
        self.address, self.name, self.source, self.target = address, name, source, target
        self.tally = Tally()
        self._dice = random.Random(f"{seed} {name}")
        self._taken: list[Message] = []
        self._count = 0
        self._began = 0.0
        self._has_given_up = False  # a transaction of the present producer

    def run(self, is_over: threading.Event) -> None:
        while not is_over.is_set():
            try:
                self._work(is_over)
            except Refused as refused:  # the next producer of this name starts again
                self._refuse(refused)

    def _refuse(self, refused: Refused) -> None:
        self.tally.refuse(refused, time.monotonic() - self._began, self._has_given_up)
        self._has_given_up = True

    def _work(self, is_over: threading.Event) -> None:
        self._began, self._has_given_up = time.monotonic(), False
        producer = producer_of(self.address, self.name)
        with closing(self._consumer()) as consumer:
            while not is_over.is_set():
                self._take(consumer, is_over)
                if self._taken and not self._move(consumer, producer):
                    return

    def _consumer(self) -> Consumer:
        consumer = Consumer({
            "bootstrap.servers": self.address,
            "group.id": f"from-{self.source}",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 300,
            "fetch.wait.max.ms": 50,
            **QUICK,
        })
        consumer.subscribe([self.source], on_revoke=self._forget, on_lost=self._forget)
        return consumer

    def _forget(self, *_: object) -> None:
        """A partition that is assigned again is read again."""
        self._taken.clear()

    def _take(self, consumer: Consumer, is_over: threading.Event) -> None:
        self._taken.clear()
        wanted = self._dice.randint(1, TAKEN_MAX)
        while len(self._taken) < wanted and not is_over.is_set():
            message = consumer.poll(0.1)
            if message is None:
                if self._taken:
                    return
            elif error := message.error():
                self.tally.told[f"poll: {error.name()}"] += 1
            else:
                self._taken.append(message)

    def _move(self, consumer: Consumer, producer: Producer) -> bool:
        """Returns whether this teller continues."""
        self._count += 1
        which = f"{self.name}.{self._count}"
        fate = self._dice.random()
        self._began = time.monotonic()
        try:
            producer.begin_transaction()
            self._put(producer, which)
            if fate < ABORTED + LEFT_OPEN:
                assert producer.flush(DEADLINE_S) == 0
                self.tally.aborted.add(which)
                if fate < LEFT_OPEN:
                    return False
                persist(producer.abort_transaction, DEADLINE_S)
                self._rewind(consumer)
                return True
            group = consumer.consumer_group_metadata()
            persist(producer.send_offsets_to_transaction, self._ends(), group, DEADLINE_S)
            persist(producer.commit_transaction, DEADLINE_S)
            self.tally.committed.add(which)
        except Refused as refused:
            if refused.is_over:
                raise
            self._refuse(refused)
            persist(producer.abort_transaction, DEADLINE_S)
            self.tally.aborted.add(which)
            self._rewind(consumer)
        return True

    def _put(self, producer: Producer, which: str) -> None:
        source = [Coin.of(each) for each in self._taken]
        total = sum(each.amount for each in source)
        parts = split(total, self._dice.randint(1, min(MADE_MAX, 2 * len(source))), self._dice)
        for part, amount in enumerate(parts):
            text = json.dumps({
                "which": which, "part": part, "parts": len(parts), "amount": amount,
                "took": [each.place for each in source],
            })  # fmt: skip
            where = self._dice.randrange(PARTITIONS)
            producer.produce(self.target, text.encode(), partition=where)

    def _ends(self) -> list[TopicPartition]:
        ends = {each.partition(): each.offset() + 1 for each in self._taken}
        return [TopicPartition(self.source, each, offset) for each, offset in ends.items()]

    def _rewind(self, consumer: Consumer) -> None:
        """Seeks back to the offsets of an aborted transaction."""
        for message in reversed(self._taken):
            place = TopicPartition(self.source, message.partition(), message.offset())
            persist(consumer.seek, place)


def split(total: int, count: int, dice: random.Random) -> list[int]:
    cuts = [0, *sorted(dice.randint(0, total) for _ in range(count - 1)), total]
    return [end - begin for begin, end in pairwise(cuts)]


class Auditor:
    """Reads both topics as they grow."""

    def __init__(self, address: str) -> None:
        self.seen: list[Coin] = []
        self._address = address

    def run(self, is_over: threading.Event) -> None:
        settings = {"group.id": "auditor", "isolation.level": "read_committed", **QUICK}
        with closing(Consumer({"bootstrap.servers": self._address, **settings})) as consumer:
            consumer.assign([TopicPartition(*each, 0) for each in PLACES])
            while not is_over.is_set():
                message = consumer.poll(0.1)
                if message is not None and message.error() is None:
                    self.seen.append(Coin.of(message))


PLACES = [(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)]


class StableOffsets:
    """The time that readers of a partition waited for a known end."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._awaited: dict[Place, tuple[int, float]] = {}

    def look(self, admin: str) -> bool:
        """Whether no log has an open transaction."""
        with urllib.request.urlopen(f"http://{admin}/api/v1/logs", timeout=DEADLINE_S) as answer:
            logs = json.load(answer)["logs"]
        is_clear = True
        for log in logs:
            place, stable = (log["topic"], log["partition"]), log["last_stable_offset"]
            end, since = self._awaited.setdefault(place, (log["log_end_offset"], time.monotonic()))
            self.longest_s = max(self.longest_s, time.monotonic() - since if stable < end else 0)
            if stable >= end:
                del self._awaited[place]
            is_clear &= stable == log["log_end_offset"]
        assert self.longest_s < STUCK_S, (self.longest_s, logs)
        return is_clear


class Running:
    """A job on a thread of its own, for which the process does not wait: one that hangs in a
    client's library fails the test, and says where."""

    def __init__(self, job: Callable[[threading.Event], None], is_over: threading.Event) -> None:
        self._done: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(job, is_over), daemon=True)
        self._thread.start()

    def _run(self, job: Callable[[threading.Event], None], is_over: threading.Event) -> None:
        try:
            self._done.set_result(job(is_over))
        except BaseException as error:  # noqa: BLE001 - who waits gets it
            self._done.set_exception(error)

    def wait(self, timeout_s: float) -> None:
        try:
            self._done.result(timeout_s)
        except NotDone:
            frame = sys._current_frames().get(self._thread.ident or 0)
            raise AssertionError("".join(traceback.format_stack(frame))) from None


class Torture:
    def __init__(
        self, folder: Path, blow: Blow, times: int, seed: int, say: Callable[..., None]
    ) -> None:
        self.folder, self.blow, self.times, self.say = folder, blow, times, say
        self._settings = {**SETTINGS, **blow.settings}
        self.serving = WarmServing(folder, lasting_port(), data=blow.data, **self._settings)
        host, port = self.serving.kafka
        self.address, self._port = f"{host}:{port}", port
        self.stable = StableOffsets()
        self.ready: list[float] = []
        self.health: Counter[str] = Counter()  # its report after a blow
        self.tellers = [
            Teller(self.address, f"{source}-{n}", source, target, seed)
            for source, target in (TOPICS, TOPICS[::-1])
            for n in range(TELLERS)
        ]
        self.auditor = Auditor(self.address)
        self._dice = random.Random(seed)

    def run(self) -> Books:
        self._deposit()
        is_over = threading.Event()
        running = [Running(each.run, is_over) for each in (*self.tellers, self.auditor)]
        try:
            for turn in range(self.times):
                self._round(turn)
        finally:
            is_over.set()
        for job in running:
            job.wait(2 * DEADLINE_S)
        for each in self.tellers:  # the next producer of the name ends open transactions
            producer_of(self.address, each.name)
        until(lambda: self.stable.look(self.serving.admin), "a transaction of nobody is open")
        until(lambda: health(self.serving)["status"] == "ok", "health does not get ok")
        return self._books()

    def _deposit(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.address})
        for made in admin.create_topics([NewTopic(each, PARTITIONS) for each in TOPICS]).values():
            made.result(DEADLINE_S)
        producer = producer_of(self.address, "deposit")
        producer.begin_transaction()
        count = COINS * len(TOPICS)
        for part in range(count):
            text = json.dumps({
                "which": "deposit", "part": part, "parts": count, "amount": WORTH, "took": [],
            })  # fmt: skip
            topic, partition = PLACES[part % len(PLACES)]
            producer.produce(topic, text.encode(), partition=partition)
        persist(producer.commit_transaction, DEADLINE_S)

    def _round(self, turn: int) -> None:
        if self._dice.random() < EARLY:
            time.sleep(self._dice.uniform(0, 0.2))
        else:
            self._await_commit(self._dice.uniform(0.05, 1.5))
        self.blow.strike(self.serving)
        begin = time.monotonic()
        self.serving = WarmServing(
            self.folder, self._port, data=self.blow.data, **self._settings
        )
        self.ready.append(time.monotonic() - begin)
        self.blow.relieve(self.serving)
        said = health(self.serving)
        self.health[said["status"]] += 1
        self.say(f"blow {turn + 1}: {self._committed()} committed, a reader waited "
                 f"{self.stable.longest_s:.1f} s at most; {said['status']} {said['reasons']}")

    def _await_commit(self, least_s: float) -> None:
        """Waits for one more commit, otherwise the next kill would only hit returning clients."""
        before, begin = self._committed(), time.monotonic()
        while time.monotonic() < begin + least_s or self._committed() == before:
            assert time.monotonic() < begin + DEADLINE_S, [each.tally.told for each in self.tellers]
            self.stable.look(self.serving.admin)
            time.sleep(0.02)

    def _committed(self) -> int:
        return sum(len(each.tally.committed) for each in self.tellers)

    def _books(self) -> Books:
        books = Books(coins=everything(self.address), seen=self.auditor.seen)
        books.committed = {"deposit"}.union(*[each.tally.committed for each in self.tellers])
        books.aborted = set().union(*[each.tally.aborted for each in self.tellers])
        for topic in TOPICS:
            books.taken_up_to |= taken_up_to(self.address, topic)
        return books

    def told(self) -> Counter[str]:
        return sum((each.tally.told for each in self.tellers), Counter())


def until(is_so: Callable[[], bool], else_: str) -> None:
    end = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < end, else_
        time.sleep(0.05)


def everything(address: str) -> list[Coin]:
    """All records for a reader of committed records, up to the last of the ends."""
    admin = AdminClient({"bootstrap.servers": address})
    asked = {TopicPartition(*each): OffsetSpec.latest() for each in PLACES}
    told = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_UNCOMMITTED)
    ends = {(each.topic, each.partition): found.result().offset for each, found in told.items()}
    settings = {"group.id": "books", "isolation.level": "read_committed"}
    found, left = [], {each for each, end in ends.items() if end}
    deadline = time.monotonic() + DEADLINE_S
    with closing(Consumer({"bootstrap.servers": address, **settings, **QUICK,
                           "enable.partition.eof": True})) as consumer:
        consumer.assign([TopicPartition(*each, 0) for each in ends])
        while left:
            assert time.monotonic() < deadline, left
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error() is None:
                found.append(Coin.of(message))
            elif message.error().code() == KafkaError._PARTITION_EOF:
                left.discard((message.topic(), message.partition()))
            else:
                raise KafkaException(message.error())
    return found


def taken_up_to(address: str, topic: str) -> dict[Place, int]:
    settings = {"group.id": f"from-{topic}", **QUICK}
    with closing(Consumer({"bootstrap.servers": address, **settings})) as consumer:
        asked = [TopicPartition(topic, each) for each in range(PARTITIONS)]
        told = consumer.committed(asked, DEADLINE_S)
    return {(each.topic, each.partition): max(0, each.offset) for each in told}


def torture(
    folder: Path, how: str, times: int, seed: int, say: Callable[..., None]
) -> None:
    with BLOWS[how](folder, seed) as blow:
        run = Torture(folder, blow, times, seed, say)
        try:
            books = run.run()
            wrong = books.wrong(total=WORTH * COINS * len(TOPICS))
            say(f"{times} x {how}: {books}; a reader waited {run.stable.longest_s:.1f} s at most; "
                f"ready after {median(run.ready):.2f} s, {max(run.ready):.2f} s at most; "
                f"health {dict(run.health)}; seed {seed}")
            for text, count in run.told().most_common():
                say(f"  {count} times: {text}")
            wrong += [each for teller in run.tellers for each in teller.tally.unexplained]
            assert not wrong, "\n".join(wrong[:20])
        finally:
            run.serving.stop(signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--blow", choices=BLOWS, default="kill")
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        say = partial(print, flush=True)
        torture(Path(folder), arguments.blow, arguments.times, arguments.seed, say)


if __name__ == "__main__":
    main()
