"""Sends records at a fixed rate and reads them: the time from a record's intended moment until a
reader has it.

The records go to their own topic, `<topic>-e2e`, so that the readers see few other records; their
path through the broker is the usual one.
"""

from __future__ import annotations

import time

import gevent
from gevent import Greenlet

from appliance.errors import ApplianceError
from appliance.record._record_reader import ConsumerPosition, RecordReader
from loadtest import broker, payload, tally
from loadtest.broker import Wish
from loadtest.producer_user import ProducerUser
from loadtest.user import E2E_SUFFIX

TAIL = Wish(1, 500, 1 << 20)  # a response as soon as there is any record
PAUSE_S = 1.0


class EndToEndUser(ProducerUser):
    weight = 5
    topic_suffix = E2E_SUFFIX

    def on_start(self) -> None:
        self.read_due = -1  # of the last batch read
        self.reader: Greenlet | None = None
        super().on_start()
        self.reading = self.new_link()
        offset = self.reading.ask(lambda to: broker.offset_at(to, self.place, broker.LATEST))
        self.reader = gevent.spawn(self.read_on, offset)

    def on_stop(self) -> None:
        if self.reader is not None:
            self.reader.kill()
            self.reading.close()
        super().on_stop()

    def read_on(self, offset: int) -> None:
        while True:
            begin = time.monotonic()
            try:
                offset = self.read(offset)
            except ApplianceError as error:
                self.failed(tally.END_TO_END, time.monotonic() - begin, error)
                time.sleep(PAUSE_S)

    def read(self, offset: int) -> int:
        """The offset after the read records. The records of a batch have one intended moment."""
        fetched = self.reading.ask(lambda to: broker.fetch(to, self.place, offset, TAIL))
        now = time.monotonic()
        reader = RecordReader(fetched.records, *self.place, ConsumerPosition(offset))
        for message in reader:
            stamp = payload.read(message.value)
            if stamp is None or stamp.who != self.who or stamp.due_ns == self.read_due:
                continue
            self.read_due = stamp.due_ns
            seconds = now - stamp.due_ns / 1e9
            size = len(message.value or b"")
            self.done(tally.END_TO_END, seconds, self.options.records, size * self.options.records)
        return max(offset, reader.end_offset)
