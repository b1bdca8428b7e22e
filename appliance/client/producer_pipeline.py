"""From records to outcomes: what both kinds of producer share."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from appliance.client.batch import Batch, Group, batches_of
from appliance.client.broker_partition import BrokerPartition
from appliance.client.cluster import Cluster
from appliance.client.outcome import (
    Outcome,
    ProducerClosed,
    Records,
    SendFailed,
    SendInterrupted,
    failure,
    told_as,
)
from appliance.client.partition_choice import Router, merged
from appliance.client.producer_config import MOVE, ProducerConfig
from appliance.client.producer_hooks import CallbackHandler
from appliance.client.sender import Sender
from appliance.errors import ApplianceError
from appliance.process import event_log

log = event_log.named("client")

WAIT_S = 0.1  # between two checks of the remaining time


def closed() -> ProducerClosed:
    return ProducerClosed("the producer was closed before these were acknowledged")


class Pipe:
    """From records to outcomes. One thread at a time."""

    def __init__(
        self, cluster: Cluster, config: ProducerConfig, router: Router, callbacks: CallbackHandler
    ) -> None:
        self.config, self.router, self.callbacks = config, router, callbacks
        self.sender = Sender(cluster, config, self.report, self._move)
        self._orders = itertools.count()
        self._listener: Callable[[Outcome], None] | None = None
        self._is_heard = type(callbacks).after_send is not CallbackHandler.after_send
        self.closes_at = float("inf")  # by time.monotonic: the end of all waits

    def close(self) -> None:
        self.sender.abandon(closed())
        self.sender.close()

    def drain(self) -> None:
        """Waits until all have an outcome."""
        while not self.sender.is_idle:
            self._wait()

    def pump(self, wait_s: float, wake: int = -1) -> None:
        """An error that nobody expected ends all that was added, and is told as its outcome."""
        try:
            self.sender.pump(wait_s, wake)
        except Exception as error:
            log.exception("sending failed unexpectedly")
            self.sender.abandon(told_as(error))

    def _wait(self) -> None:
        self.pump(WAIT_S)
        if time.monotonic() >= self.closes_at:
            self.sender.abandon(closed())

    def report(self, outcome: Outcome) -> None:
        if self._listener:
            self._listener(outcome)
        elif outcome.error and not self._is_heard:
            log.warning("records failed, and no CallbackHandler hears of it", error=outcome.error)
        try:
            self.callbacks.after_send(outcome)
        except Exception:
            # the records have their outcome already
            log.exception("after_send failed", records=len(outcome.records))

    def deliver(self, records: Records) -> list[Outcome]:
        """For a synchronous producer: waits until all have an outcome."""
        outcomes: list[Outcome] = []
        self._listener = outcomes.append
        try:
            self.send([records])
            self.drain()
        except BaseException as error:
            # batches in flight must not count for the next call
            self.sender.abandon(SendInterrupted(f"ended by {error!r}"))
            raise
        if any(each.error for each in outcomes):
            raise SendFailed(outcomes)
        return outcomes

    def send(self, records: list[Records]) -> None:
        """Hands records to the sender; waits only while too much is in flight."""
        try:
            chosen = self.callbacks.before_send(records)
        except Exception as error:
            log.exception("before_send failed", records=sum(map(len, records)))
            self.fail(records, failure("before_send", error))
            return
        deadline = time.monotonic() + self.config.delivery_timeout_ms / 1000
        for group in merged(self._routed(chosen, deadline)):
            self._add(group, deadline)

    def fail(self, records: Iterable[Records], error: ApplianceError) -> None:
        for each in records:
            self.report(Outcome(each, None, error=error))

    def _routed(self, records: list[Records], deadline: float) -> Iterator[Group]:
        """Routes records; those without a partition fail."""
        known: dict[str, list[BrokerPartition]] = {}
        for each in records:
            try:
                if each.topic not in known:
                    known[each.topic] = self._choice(each.topic, deadline)
                yield from self.router.route(each, known[each.topic])
            except ApplianceError as error:
                self.fail([each], error)
            except Exception as error:
                log.exception("routing failed unexpectedly", records=len(each))
                self.fail([each], told_as(error))

    def _choice(self, topic: str, deadline: float) -> list[BrokerPartition]:
        """Retries while no broker can be reached."""
        while True:
            try:
                return self.router.choice(topic, self._avoided())
            except ApplianceError as error:
                if not error.retriable or time.monotonic() >= min(deadline, self.closes_at):
                    raise
            self.pump(0)
            time.sleep(WAIT_S)

    def _avoided(self) -> set[int]:
        return self.sender.brokers_down() if self.config.on_broker_down == MOVE else set()

    def _add(self, group: Group, deadline: float) -> None:
        size_max = self.config.max_message_size
        for made in batches_of(group, self.sender.codec, size_max, self._orders, deadline):
            if isinstance(made, Outcome):
                self.report(made)
                continue
            self.sender.add(made)
            self.pump(0)
            while self.sender.size > self.config.buffer_size:
                self._wait()

    def _move(self, batch: Batch) -> None:
        """Routes its records to other partitions, within their remaining time."""
        try:
            choice = self.router.choice(batch.topic, self._avoided())
            groups = self.router.route(batch.records, choice)
        except ApplianceError as error:
            self.report(Outcome(batch.records, batch.partition, -1, error, batch.may_be_written))
            return
        except Exception as error:
            log.exception("routing failed unexpectedly", records=len(batch.records))
            why, may_be_written = told_as(error), batch.may_be_written
            self.report(Outcome(batch.records, batch.partition, -1, why, may_be_written))
            return
        for group in groups:
            size_max = self.config.max_message_size
            for made in batches_of(
                group, self.sender.codec, size_max, self._orders, batch.deadline
            ):
                if isinstance(made, Outcome):
                    self.report(replace(made, may_be_written=batch.may_be_written))
                else:
                    made.may_be_written = batch.may_be_written
                    self.sender.add(made)
