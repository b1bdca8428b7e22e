"""Topics that come and go while the controller does: one that was told to be made or deleted
is, at the end, at every broker; and one that was made again has nothing of the former."""

from __future__ import annotations

import random
import threading
from contextlib import suppress

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from tests.replication.histories.ledger import Ledger
from tests.replication.histories.readers import close, consumer
from tests.replication.histories.site import MADE, Site

NAMES = tuple(f"{MADE}{number}" for number in range(3))
ASK_S = 15.0
READ_S = 10.0


class MadeAndDeleted:
    def __init__(self, site: Site, ledger: Ledger, seed: int) -> None:
        self.changes = 0
        self.is_there: dict[str, bool | None] = dict.fromkeys(NAMES, False)  # None: not known
        self._site, self._ledger, self._random = site, ledger, random.Random(seed)
        # What was sent since a deletion was acknowledged: what is there is of these.
        self._sent: dict[str, set[bytes]] = {name: set() for name in NAMES}
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="topics")
        self._thread.start()

    def _run(self) -> None:
        while not self._is_ending.is_set():
            # confluent_kafka 2.16 leaves a TypeError behind now and then, which comes up anywhere
            with suppress(TypeError, SystemError):
                self._change()

    def _change(self) -> None:
        while not self._is_ending.wait(self._random.uniform(0.1, 2.0)):
            self._step(self._random.choice(NAMES))

    def _step(self, name: str) -> None:
        if self.is_there[name]:
            self._delete(name)
            return
        self._make(name)
        if self.is_there[name]:
            self._use(name)

    def _make(self, name: str) -> None:
        was, self.is_there[name] = self.is_there[name], None
        admin = self._site.admin()
        wanted = NewTopic(name, 2, 3, config={"min.insync.replicas": "2"})
        made = admin.create_topics([wanted], request_timeout=ASK_S, operation_timeout=ASK_S)
        try:
            made[name].result(ASK_S + 5)
        except KafkaException as error:
            # One that was not known to be there, or tries that were taken and not answered.
            code = error.args[0].code()
            self.is_there[name] = True if code == KafkaError.TOPIC_ALREADY_EXISTS else (
                was if code == KafkaError.INVALID_REPLICATION_FACTOR else None)  # fmt: skip
        except TimeoutError:
            return
        else:
            self.is_there[name] = True
            self.changes += 1

    def _delete(self, name: str) -> None:
        self.is_there[name] = None
        admin = self._site.admin()
        gone = admin.delete_topics([name], request_timeout=ASK_S, operation_timeout=ASK_S)
        with suppress(KafkaException, TimeoutError):
            gone[name].result(ASK_S + 5)
            self.is_there[name] = False
            self._sent[name].clear()
            self.changes += 1

    def _use(self, name: str) -> None:
        """What is read was sent to this topic, and not to its predecessor."""
        own = f"{name}:{self._random.random()}".encode()
        self._sent[name].add(own)
        producer = Producer({"bootstrap.servers": self._site.bootstrap, "acks": "all",
                             "message.timeout.ms": int(READ_S * 1000), "log_level": 2})  # fmt: skip
        faults: list[object] = []
        with suppress(KafkaException):
            producer.produce(name, own, partition=0,
                             on_delivery=lambda error, _: faults.append(error))  # fmt: skip
        producer.flush(READ_S + 5)
        if faults == [None]:
            self._read(name)

    def _read(self, name: str) -> None:
        reader = consumer(self._site, "nobody")
        try:
            reader.assign([TopicPartition(name, 0, 0)])
            found = [each.value() for each in reader.consume(1, READ_S) if each.error() is None]
            if not {*found} <= self._sent[name]:
                self._ledger.anomalies.add(
                    "of another life", f"{self._sent[name]} were sent to {name}, {found} was read"
                )
        except KafkaException:
            return
        finally:
            close(reader)

    def end(self) -> None:
        self._is_ending.set()
        self._thread.join()

    def wrong(self) -> str:
        """By every broker, after the end; empty if all is as it was told."""
        try:
            there = self._site.topics_by_broker()
        except KafkaException as error:
            return f"not known: {error}"
        for broker, topics in there.items():
            for name, is_there in self.is_there.items():
                if is_there is not None and (name in topics) != is_there:
                    return f"{broker} has {name}: {name in topics}, it was told to be {is_there}"
        return ""
