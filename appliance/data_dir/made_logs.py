"""Logs that were made empty, as far as nobody who counts on this broker knows of it yet.

A broker of a cluster that comes back without a partition's files makes the log anew, at its start
or when it hears of the topic, and only then begins its life. By then the log is there, so whether
it is one of those that were lost (rule 8 of `docs/replication.md`) is not seen by looking for it.
What is made within a life is new: nothing was promised of it in a former one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from appliance.data_dir.partition_names import Key


class MadeLogs:
    """Any thread makes logs. Grows no further than the topics that are there."""

    def __init__(self) -> None:
        self._numbers: dict[str, set[int]] = {}
        self._guard = threading.Lock()

    def note(self, topic: str, partitions: Iterable[int]) -> None:
        """Before they can be found."""
        with self._guard:
            self._numbers.setdefault(topic, set()).update(partitions)

    def forget(self, topic: str, partitions: Iterable[int]) -> None:
        with self._guard:
            if left := self._numbers.pop(topic, set()).difference(partitions):
                self._numbers[topic] = left

    def forget_topics(self, topics: Iterable[str]) -> None:
        with self._guard:
            for each in topics:
                self._numbers.pop(each, None)

    def clear(self) -> None:
        with self._guard:
            self._numbers.clear()

    def keys(self) -> list[Key]:
        with self._guard:
            return [(topic, each) for topic, numbers in self._numbers.items() for each in numbers]
