"""What all users have: a link to the broker, a partition, and their reports."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import Any

from locust import User

from loadtest import broker, options
from loadtest.payload import Filling
from loadtest.reconnecting_connection import Link

E2E_SUFFIX = "-e2e"
spawned: Counter[str] = Counter()  # by class, in this process


@lru_cache(maxsize=1)
def filling_of(record_size: int) -> Filling:
    return Filling(record_size)


class BrokerUser(User):
    abstract = True
    topic_suffix = ""

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self.options = environment.parsed_options
        self.tally = environment.loadtest.tally
        name = type(self).__name__
        # spreads the users of several processes: each process begins at another partition
        self.index = spawned[name] + environment.runner.worker_index
        spawned[name] += 1
        security = options.security_of(self.options)
        self.connect = broker.connect_to(self.host or "", f"loadtest-{name}", security)
        self.link = self.new_link()
        self.topic = self.options.topic + self.topic_suffix
        self.partitions = 0
        self.place = (self.topic, 0)

    def new_link(self) -> Link:
        return Link(self.connect, self.options.give_up, self.tally)

    def on_start(self) -> None:
        self.partitions = self.link.ask(lambda to: broker.partitions_of(to, self.topic))
        self.place = (self.topic, self.index % self.partitions)

    def on_stop(self) -> None:
        self.link.close()

    def done(self, kind: str, seconds: float, records: int, size: int) -> None:
        self.tally.done(kind, seconds, records, size)
        self._fire(kind, seconds, size, None, records)

    def failed(self, kind: str, seconds: float, error: Exception) -> None:
        self.tally.count(f"{kind} failed")
        self._fire(kind, seconds, 0, error, 0)

    def _fire(
        self, kind: str, seconds: float, size: int, error: Exception | None, records: int
    ) -> None:
        self.environment.events.request.fire(
            request_type=kind,
            name=self.topic,
            response_time=seconds * 1000,
            response_length=size,
            exception=error,
            context={},
            records=records,
        )
