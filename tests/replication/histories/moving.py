"""Partitions of the log move between brokers, and have two or three replicas, while the faults go
on; in the end all have three again."""

from __future__ import annotations

import random
import threading
import time
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaException
from kafka import KafkaAdminClient, TopicPartition  # type: ignore[import-untyped]
from kafka.errors import KafkaError  # type: ignore[import-untyped]

from tests.replication.histories.site import Site

NODES = (1, 2, 3)
ASK_MS = 8000


class Admin(KafkaAdminClient):  # type: ignore[misc]
    """Where it finds no broker, it leaves a thread and sockets to nobody; here it is closed."""

    def __init__(self, **configs: Any) -> None:
        self._closed = False
        try:
            super().__init__(**configs)
        except KafkaError:
            self.close()
            raise


class Moving:
    def __init__(self, site: Site, seed: int, partitions: int) -> None:
        self.moves = 0  # that were begun
        self._site, self._random = site, random.Random(f"moves {seed}")
        self._partitions = partitions
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="moving")
        self._thread.start()

    def _run(self) -> None:
        while not self._is_ending.wait(self._random.uniform(0.5, 4)):
            wanted = self._random.sample(NODES, self._random.choice([2, 3, 3]))
            partition = self._random.randrange(self._partitions)
            if self.move({partition: None if self._random.random() < 0.2 else wanted}):
                self.moves += 1

    def move(self, wanted: dict[int, list[int] | None]) -> bool:
        """None cancels. False: refused, or not known."""
        with suppress(KafkaError, OSError, ValueError):
            admin = Admin(bootstrap_servers=self._site.bootstrap.split(","),
                          request_timeout_ms=ASK_MS)  # fmt: skip
            try:
                found = admin.alter_partition_reassignments({
                    TopicPartition("log", each): replicas for each, replicas in wanted.items()
                })  # fmt: skip
                return not found or all(each is None for each in dict(found).values())
            finally:
                admin.close()
        return False

    def _is_done(self) -> bool:
        found = self._site.admin().list_topics("log", timeout=5.0).topics["log"].partitions
        return all(len(each.replicas) == len(NODES) for each in found.values())

    def end(self) -> None:
        self._is_ending.set()
        self._thread.join()

    def bring_home(self, timeout_s: float) -> bool:
        """Whether all are on all again, in time."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            for each in range(self._partitions):
                self.move({each: [*NODES[each % 3 :], *NODES[: each % 3]]})
            with suppress(KafkaException):
                if self._is_done():
                    return True
            time.sleep(1.0)
        return False
