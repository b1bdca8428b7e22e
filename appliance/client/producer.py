"""Sends records to the partitions of all brokers, and reports the outcome of each.

    sync    send → route → batches → sender, until all are acknowledged
    async   send → queue ┆ thread: take → event handler → route → batches → sender

Every record has one outcome: `send` of a synchronous producer returns or raises it, and the
callback handler gets it.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from appliance.client.async_producer_thread import Worker
from appliance.client.cluster import Cluster
from appliance.client.outcome import Outcome, ProducerClosed, Records
from appliance.client.partition_choice import Router
from appliance.client.producer_config import ProducerConfig
from appliance.client.producer_hooks import CallbackHandler, Encoder, EventHandler, Partitioner
from appliance.client.producer_pipeline import Pipe

GivenHeaders = Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]]


class Producer:
    """For any number of threads.

    `send(topic, value)`, `send(topic, value, key)`, `send(topic, [value, ...])` or
    `send(topic, [(key, value), ...])`. A list without a key goes to one partition, in its order;
    `key` with a list is the key of all; pairs are partitioned by their own keys. `headers`, pairs
    of a name and bytes or None, or a dict, are of each record.
    """

    def __init__(
        self,
        config: ProducerConfig,
        *,
        encoder: Encoder | None = None,
        partitioner: Partitioner | None = None,
        event_handler: EventHandler | None = None,
        callback_handler: CallbackHandler | None = None,
    ) -> None:
        self.config = config
        self.cluster = Cluster(config)
        self.router = Router(
            self.cluster, config, encoder or Encoder(), partitioner or Partitioner()
        )
        callbacks = callback_handler or CallbackHandler()
        self._pipe = Pipe(self.cluster, config, self.router, callbacks)
        self._is_closed = False
        self._worker: Worker | None = None
        self._lock = threading.Lock()  # guards the pipe of a synchronous producer
        if config.producer_type == "async":
            self._worker = Worker(self._pipe, event_handler or EventHandler())
        atexit.register(self.close)  # sends the queue when the program ends

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(
        self, topic: str, value: Any, key: Any = None, *, headers: GivenHeaders = ()
    ) -> list[Outcome]:
        """Synchronous: the outcomes, or SendFailed with all of them. Asynchronous: an empty list,
        or QueueFull with the number of added records."""
        records = with_headers(records_of(topic, value, key), headers)
        self.router.check(records)
        self._check_open()
        if self._worker:
            self._worker.put(records)
            return []
        with self._lock:
            self._check_open()  # it may have been closed while we waited for another thread
            return self._pipe.deliver(records)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ProducerClosed("this producer was closed")

    def flush(self) -> None:
        """Returns when all earlier records have an outcome."""
        if self._worker:
            self._worker.flush()

    def close(self) -> None:
        """Sends the queue for at most `close_timeout`; the rest is reported as failed."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        atexit.unregister(self.close)
        if self._worker:
            self._worker.close()
        self._pipe.close()
        self.cluster.close()


def records_of(topic: str, value: Any, key: Any) -> Records:
    now_ms = time.time_ns() // 1_000_000
    if not isinstance(value, list):
        return Records(topic, [value], None if key is None else [key], now_ms)
    if value and isinstance(value[0], tuple):
        if key is not None:
            raise TypeError("got a key and pairs with their own keys")
        keys, values = zip(*value, strict=True)
        return Records(topic, list(values), list(keys), now_ms)
    return Records(topic, value[:], None if key is None else [key] * len(value), now_ms)


def with_headers(records: Records, headers: GivenHeaders) -> Records:
    pairs = tuple(headers.items() if isinstance(headers, Mapping) else headers)
    for name, value in pairs:
        if not isinstance(name, str) or not (value is None or isinstance(value, bytes)):
            raise TypeError(f"got header {name!r}: {value!r}, wanted a str and bytes or None")
    return replace(records, headers=[pairs] * len(records)) if pairs else records
