"""Reads one partition from its end on, as fast as records arrive, and checks that no offset is
missing between two responses."""

from __future__ import annotations

import time

from locust import task

from appliance.errors import ApplianceError
from appliance.record import _batch
from loadtest import broker, tally
from loadtest.broker import Fetched, Wish
from loadtest.user import BrokerUser

PAUSE_S = 1.0  # after a failure that needs time


class OffsetsMissing(ApplianceError):
    """A gap between the last record of one response and the first of the next."""


class ConsumerUser(BrokerUser):
    weight = 20

    def on_start(self) -> None:
        super().on_start()
        self.wish = Wish(
            self.options.fetch_min_bytes, self.options.fetch_wait_ms, self.options.fetch_bytes
        )
        self.offset = -1
        self.is_aligned = False  # whether the next offset begins a batch

    def on_stop(self) -> None:
        self.environment.loadtest.lags.pop(id(self), None)
        super().on_stop()

    @task
    def consume(self) -> None:
        begin = time.monotonic()
        try:
            if self.offset < 0:
                self.offset = self.link.ask(
                    lambda to: broker.offset_at(to, self.place, broker.LATEST)
                )
                begin = time.monotonic()
            self.take(
                self.link.ask(lambda to: broker.fetch(to, self.place, self.offset, self.wish)),
                begin,
            )
        except ApplianceError as error:
            self.failed(tally.FETCH, time.monotonic() - begin, error)
            self.offset, self.is_aligned = -1, False
            time.sleep(PAUSE_S)

    def take(self, fetched: Fetched, begin: float) -> None:
        batches = _batch.headers(fetched.records, partial_tail=True)
        if batches:
            first, wanted = batches[0].base_offset, self.offset
            self.offset = batches[-1].last_offset + 1
            records = sum(each.records_count for each in batches)
            self.done(tally.FETCH, time.monotonic() - begin, records, len(fetched.records))
            if self.is_aligned and first != wanted:
                raise OffsetsMissing(f"{self.topic}: offset {first}, wanted {wanted}")
            self.is_aligned = True
        self.environment.loadtest.lags[id(self)] = max(0, fetched.high_watermark - self.offset)
