"""A connection that reconnects after a failure, for a broker that is restarted under load.

It retries failures that may pass, until the given time is over. The pauses are random, so that a
thousand users do not reconnect in the same millisecond.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from appliance.client.errors import BrokerUnavailable
from appliance.errors import ApplianceError
from loadtest.broker import Connect
from loadtest.connection import Connection
from loadtest.tally import Tally

Result = TypeVar("Result")

PAUSE_S = (0.1, 1.0)


class Link:
    def __init__(self, connect: Connect, give_up_s: float, tally: Tally) -> None:
        self._connect, self._give_up_s, self._tally = connect, give_up_s, tally
        self._connection: Connection | None = None

    @property
    def connection(self) -> Connection:
        if self._connection is None or not self._connection.is_open:
            self._connection = self._connect()
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def ask(self, request: Callable[[Connection], Result]) -> Result:
        give_up_at = time.monotonic() + self._give_up_s
        while True:
            try:
                return request(self.connection)
            except ApplianceError as error:
                if not error.retriable or time.monotonic() >= give_up_at:
                    raise
                lost = isinstance(error, BrokerUnavailable)
                self._tally.count("reconnects" if lost else "retries")
            time.sleep(random.uniform(*PAUSE_S))
