"""Sends batches at a fixed rate, one after the other, and remembers the acknowledged ones.

If the connection is lost it sends the batch again under the same sequence number: the broker
detects the repetition and appends it once. With `--acks 1` there are no sequence numbers; such a
batch is not sent again, and its outcome stays unknown.
"""

from __future__ import annotations

import time

from locust import task

from appliance.client.errors import ConnectionLost
from appliance.errors import ApplianceError
from appliance.protocol.codec import Pieces
from appliance.record import compression
from appliance.record._producer_batch_builder import batch_head, encode_records
from loadtest import broker, tally
from loadtest.acknowledged_batches import NOWHERE, Batch
from loadtest.connection import Connection
from loadtest.payload import somebody
from loadtest.schedule import Schedule
from loadtest.user import BrokerUser, filling_of

BATCH_SIZE_MAX = 16 << 20  # the broker's own limit is its message.max.bytes
SEQUENCE_END = 1 << 31
ACKS = {"all": -1, "1": 1}
NO_IDENTITY = (-1, -1)


class OutcomeUnknown(ApplianceError):
    """The connection was lost, and its open batch cannot be resent without a duplicate."""


class ProducerUser(BrokerUser):
    weight = 60

    def on_start(self) -> None:
        super().on_start()
        self.acks = ACKS[self.options.acks]
        self.codec = compression.codec_id(self.options.codec)
        self.filling = filling_of(self.options.record_size)
        self.begin_anew()
        self.schedule = Schedule(self.options.rate)
        time.sleep(self.schedule.wait_s())

    def wait_time(self) -> float:
        return self.schedule.wait_s()

    def begin_anew(self) -> None:
        """Starts as a new producer: numbers, which are also sequence numbers, begin at 0."""
        self.who, self.number = somebody(), 0
        self.identity: tuple[int, int] | None = NO_IDENTITY if self.acks == 1 else None

    @task
    def produce(self) -> None:
        due = self.schedule.take()
        count = self.options.records
        batch = Batch(NOWHERE, self.who, self.number, count)
        values = self.filling.values(self.who, self.number, int(due * 1e9), count)
        self.number += count
        try:
            offset = self.link.ask(lambda to: self.sent(to, batch, values))
        except ApplianceError as error:
            self.tally.ledger.put(self.place, batch)
            self.begin_anew()
            self.failed(tally.PRODUCE, time.monotonic() - due, error)
            return
        except BaseException:  # this user is stopped while it waits for the response
            self.tally.ledger.put(self.place, batch)
            raise
        self.tally.ledger.put(self.place, batch._replace(base_offset=offset))
        size = count * len(values[0] or b"")
        self.done(tally.PRODUCE, time.monotonic() - due, count, size)
        if self.number + count > SEQUENCE_END:
            self.begin_anew()

    def sent(self, connection: Connection, batch: Batch, values: list[bytes | None]) -> int:
        """The offset of its first record."""
        if self.identity is None:
            self.identity = broker.producer_identity(connection)
        encoded = encode_records(values, None, int(time.time() * 1000), 0, BATCH_SIZE_MAX)
        data = compression.compress(self.codec, encoded.data) if self.codec else encoded.data
        sequence = batch.number if self.identity != NO_IDENTITY else -1
        head = batch_head(encoded, data, self.codec, *self.identity, sequence)
        try:
            return broker.produce(connection, self.place, Pieces((head, data)), self.acks)
        except ConnectionLost as error:
            if self.identity == NO_IDENTITY:
                raise OutcomeUnknown(str(error)) from error
            raise
