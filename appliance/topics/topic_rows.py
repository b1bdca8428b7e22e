"""Topics in the catalog: which there are, their ids and configs, and deletions that have begun."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from appliance.catalog.catalog import Catalog, Run
from appliance.catalog.config_rows import ConfigRows
from appliance.catalog.log_directory_rows import Places, insert_places
from appliance.catalog.producer_id_rows import skip_to

NO_PLACES: Places = {}


@dataclass(frozen=True)
class TopicRow:
    name: str
    id: uuid.UUID
    partitions: int
    configs: dict[str, str] = field(default_factory=dict)
    created_ms: int = 0
    here: frozenset[int] | None = None  # of a cluster's topic: what this broker has; None: all

    @property
    def held(self) -> list[int]:
        """The partitions whose logs are, or are to be, on this broker."""
        return [*range(self.partitions)] if self.here is None else sorted(self.here)


class TopicRows:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._configs: ConfigRows[str, str] = ConfigRows(catalog, "topic_configs", "topic")

    @property
    def is_settled(self) -> bool:
        """False from the birth of the catalog until `settle`: the directories beside it are not
        orphans then, but topics whose catalog was lost or never was."""
        return bool(self._catalog.rows("SELECT is_settled FROM cluster")[0][0])

    def settle(self, topics: Iterable[TopicRow], next_producer_id: int) -> None:
        """Takes in, all at once, the topics whose directories were there without a catalog."""
        with self._catalog.change() as run:
            for each in topics:
                self._insert(run, each)
            skip_to(run, next_producer_id)
            run("UPDATE cluster SET is_settled = 1")

    def all(self) -> list[TopicRow]:
        configs, here = self._configs.all(), self._here()
        query = "SELECT name, id, partitions, created_ms FROM topics ORDER BY name"
        return [
            TopicRow(name, uuid.UUID(bytes=raw), partitions, configs.get(name, {}), created_ms,
                     here.get(name))
            for name, raw, partitions, created_ms in self._catalog.rows(query)
        ]

    def _here(self) -> dict[str, frozenset[int]]:
        found: dict[str, set[int]] = {
            name: set() for (name,) in self._catalog.rows("SELECT topic FROM replicated_topics")
        }
        for name, number in self._catalog.rows("SELECT topic, partition FROM local_replicas"):
            found[name].add(number)
        return {name: frozenset(numbers) for name, numbers in found.items()}

    def put(self, *topics: TopicRow, places: Places = NO_PLACES) -> None:
        """All or none. `places`: the directories of their partitions, where there are several."""
        with self._catalog.change() as run:
            for each in topics:
                self._insert(run, each)
            insert_places(run, places)

    def _insert(self, run: Run, topic: TopicRow) -> None:
        created_ms = topic.created_ms or time.time_ns() // 1_000_000
        row = (topic.name, topic.id.bytes, topic.partitions, created_ms)
        run("INSERT INTO topics VALUES (?, ?, ?, ?)", row)
        self._configs.insert(run, topic.name, topic.configs)
        if topic.here is not None:
            run("INSERT INTO replicated_topics VALUES (?)", (topic.name,))
            _insert_here(run, topic.name, topic.here)

    def set_replicas(
        self, topic: str, partitions: int, here: Collection[int], places: Places = NO_PLACES
    ) -> None:
        """Of a cluster's topic: how many partitions it has, and which of them are here."""
        with self._catalog.change() as run:
            run("UPDATE topics SET partitions = ? WHERE name = ?", (partitions, topic))
            before = run("SELECT partition FROM local_replicas WHERE topic = ?", (topic,))
            gone = {number for (number,) in before} - {*here}
            run("DELETE FROM local_replicas WHERE topic = ?", (topic,))
            _insert_here(run, topic, here)
            for number in gone:
                for table in ("partition_directories", "partition_moves"):
                    run(f"DELETE FROM {table} WHERE topic = ? AND partition = ?", (topic, number))
            insert_places(run, places)

    def has_replicated(self) -> bool:
        return bool(self._catalog.rows("SELECT 1 FROM replicated_topics LIMIT 1"))

    def replicate(self, topics: Iterable[TopicRow]) -> None:
        """From now on they are a cluster's, and all that they have is here. All or none."""
        with self._catalog.change() as run:
            for each in topics:
                run("INSERT INTO replicated_topics VALUES (?)", (each.name,))
                _insert_here(run, each.name, range(each.partitions))

    def leave_cluster(self, next_producer_id: int) -> None:
        """All topics, and what else is a cluster's, are this broker's own from now on."""
        with self._catalog.change() as run:
            for table in ("local_replicas", "replicated_topics", "cluster_facts",
                          "users_changed_offline"):  # fmt: skip
                run(f"DELETE FROM {table}")
            skip_to(run, next_producer_id)

    def next_producer_id(self) -> int:
        """All below were given, or may be."""
        return int(self._catalog.rows("SELECT next FROM producer_ids")[0][0])

    def set_partitions(self, counts: Mapping[str, int], places: Places = NO_PLACES) -> None:
        """Of topics that grow: all or none."""
        with self._catalog.change() as run:
            for topic, partitions in counts.items():
                run("UPDATE topics SET partitions = ? WHERE name = ?", (partitions, topic))
            insert_places(run, places)

    def set_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        """All of them: those not given are back at their defaults."""
        self._configs.set({topic: configs})

    def begin_deletions(self, topics: Iterable[str]) -> None:
        """From here on they are no more; their directories are to go. All or none."""
        row = "SELECT name, id, partitions FROM topics WHERE name = ?"
        with self._catalog.change() as run:
            for each in topics:
                run(f"INSERT OR REPLACE INTO deletions {row}", (each,))
                run("DELETE FROM topics WHERE name = ?", (each,))

    def end_deletions(self, topics: Iterable[str]) -> None:
        with self._catalog.change() as run:
            for each in topics:
                run("DELETE FROM deletions WHERE name = ?", (each,))

    def deletions(self) -> list[TopicRow]:
        """Begun, and not known to have ended."""
        rows = self._catalog.rows("SELECT name, id, partitions FROM deletions ORDER BY name")
        return [TopicRow(name, uuid.UUID(bytes=raw), count) for name, raw, count in rows]


def _insert_here(run: Run, topic: str, here: Iterable[int]) -> None:
    for number in here:
        run("INSERT INTO local_replicas VALUES (?, ?)", (topic, number))
