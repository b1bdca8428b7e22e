"""The start: makes the directories and the catalog agree. The catalog is the truth, and nothing
that may hold records is deleted but what the catalog says was deleted.

    a catalog just born beside directories   they are its topics: ids from their files, configs not
                                             known, so nothing of them is cleaned until somebody
                                             sets `cleanup.policy`
    a deletion that was begun                is finished, but for what groups committed: who they
                                             are is not known yet
    a directory of no topic                  goes to `orphans/`, as does one whose place is in
                                             another directory of `log.dirs`; one that never had a
                                             record is removed: its creation was interrupted
    a partition without a directory          is created, empty; one that had records goes on where
                                             these ended, and they are told as lost
    a directory with another topic's id      is served; the file that tells the id is corrected
    a partition that cannot be opened        is not served, the others of its topic are; nor is one
                                             whose directory of `log.dirs` is not open
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping

from appliance._log import Log
from appliance.catalog import kafka_uuid, producer_id_rows
from appliance.catalog.loss_ledger import of_directory
from appliance.config import LogConfig, TopicsConfig, topic_config
from appliance.config.topic_config import NOT_CLEANED, TopicConfigs
from appliance.data_dir import partition_metadata
from appliance.data_dir.log_dirs import LogDirs
from appliance.data_dir.partition_creation import NewPartitions
from appliance.data_dir.partition_names import Key, directory_name
from appliance.errors import ApplianceError
from appliance.process import event_log
from appliance.topics.topic import METADATA, OFFSETS, Topic
from appliance.topics.topic_directories import delete_files
from appliance.topics.topic_rows import TopicRow
from appliance.topics.topics import Topics
from appliance.topics.unfinished_deletions import KEPT_STILL

events = event_log.named("catalog")

# Producer ids rise, so those that the logs forgot lie below those they remember; but some may have
# been given to producers that wrote nothing yet.
PRODUCER_IDS_MARGIN = 1000 * producer_id_rows.BLOCK

SHOWN_MAX = 10  # names of directories that a note repeats

CATALOG_GONE = (
    "catalog.db was gone: the configs of topics, users and their rights, quotas, exports, and what "
    "the ledger had are lost; nothing is cleaned until cleanup.policy of each topic is set"
)


class DirectoryUnexpected(ApplianceError):
    """The start cannot go on; the text says what to do."""


class Reconciliation:
    """One run; its words are in the recovery report."""

    def __init__(self, topics: Topics, limits: TopicsConfig) -> None:
        self.topics = topics
        self.rows = topics.rows
        self.log_dir = topics.log_dir
        self.limits = limits
        self._configs = {row.name: self._readable(row) for row in self.rows.all()}

    @property
    def _has_own_groups(self) -> bool:
        """Which may have committed something, and are not a cluster's."""
        return any(row.name == OFFSETS and row.here is None for row in self.rows.all())

    def _readable(self, row: TopicRow) -> tuple[TopicConfigs, list[str]]:
        return topic_config.readable(row.configs, self.topics.base)

    def log_config(self, topic: str, partition: int) -> LogConfig:
        """By which a log is recovered."""
        found = self._configs.get(topic)
        return found[0].log if found else self.topics.base

    def run(self, forget: Callable[[Collection[str]], None]) -> None:
        """`forget` drops what is kept of a deleted topic beside what groups have."""
        if not self.rows.is_settled:
            self._settle()
        self._finish_deletions(forget)
        rows = self.rows.all()
        self.set_strays_aside()
        self.set_orphans_aside()
        for row in rows:
            self.serve(row)
        wanted = {(row.name, partition) for row in rows for partition in row.held}
        self.log_dir.forget_missing([key for key in self.log_dir.missing if key not in wanted])
        self.log_dir.adopt(wanted)

    def _note(self, text: str) -> None:
        events.warning(text)
        self.log_dir.report.notes.append(text)

    def _held(self) -> dict[str, list[int]]:
        """The partitions that have a directory, by topic."""
        found: dict[str, list[int]] = {}
        for topic, partition in self.log_dir.held():
            if topic != METADATA:
                found.setdefault(topic, []).append(partition)
        return found

    # Topics without a catalog

    def _settle(self) -> None:
        rows: dict[uuid.UUID, TopicRow] = {}
        now_ms = time.time_ns() // 1_000_000
        for name, partitions in self._held().items():
            self._check_count(name, partitions[-1])
            topic_id = self._id_on_disk(name, partitions)
            if topic_id is None or topic_id in rows:
                topic_id = kafka_uuid.new()
            rows[topic_id] = TopicRow(name, topic_id, partitions[-1] + 1, NOT_CLEANED, now_ms)
        if rows and not self.log_dir.report.is_new:  # not what another program wrote
            self.log_dir.ledger.note([of_directory(CATALOG_GONE)])
        self.rows.settle(rows.values(), self._next_producer_id() if rows else 0)
        if rows:
            self._note(
                f"There was no catalog: {len(rows)} topics were taken from their directories. "
                "Their configs are not known, so nothing of them is deleted or compacted until "
                "cleanup.policy is set."
            )

    def _check_count(self, name: str, last: int) -> None:
        if last >= self.limits.partitions_per_topic_max:
            raise DirectoryUnexpected(
                f"{self.log_dir.path_of(name, last)}: there is no catalog, and by "
                f"this directory topic {name} has {last + 1} partitions; wanted at most "
                f"{self.limits.partitions_per_topic_max}. Set max.partitions.per.topic higher, or "
                "move the directory elsewhere"
            )

    def _id_on_disk(self, name: str, partitions: Iterable[int]) -> uuid.UUID | None:
        paths = (self.log_dir.path_of(name, each) for each in partitions)
        return next(filter(None, map(partition_metadata.read, paths)), None)

    def _next_producer_id(self) -> int:
        logs = self.log_dir.logs().values()
        seen = (each.producer_id for log in logs for each in log.producers())
        return max(seen, default=-1) + 1 + PRODUCER_IDS_MARGIN

    # Directories of no topic

    def _finish_deletions(self, forget: Callable[[Collection[str]], None]) -> None:
        names = [each.name for each in self.rows.deletions()]
        failures: dict[str, ApplianceError] = {}
        done = names
        try:
            failures = delete_files(self.log_dir, names)
            done = [each for each in names if each not in failures]
            forget(names)
            if self._has_own_groups:
                self.topics.undeleted.update(dict.fromkeys(done, KEPT_STILL))  # until known
            else:
                self.rows.end_deletions(done)
        except ApplianceError as error:
            failures |= dict.fromkeys(done, error)
        for name, why in failures.items():
            self.topics.undeleted[name] = str(why)
            self._note(f"{name} was deleted, and its files stay for now: {why}")

    def set_strays_aside(self) -> None:
        self.log_dir.settle_moves()
        for directory, key in self.log_dir.strays():
            text = f"{directory.path / directory_name(*key)} has its place in another directory"
            try:
                place = self.log_dir.set_stray_aside(directory, key)
            except ApplianceError as error:
                self._note(f"{text}, and cannot be set aside: {error}")
            else:
                self._note(f"{text}: set aside as {place}. Nothing deletes it.")

    def set_orphans_aside(self) -> None:
        wanted = {row.name: {*row.held} for row in self.rows.all()}
        unwritten: list[NewPartitions] = []
        for name, partitions in self._held().items():
            if name in self.topics.undeleted:
                continue  # to be deleted, not kept
            orphans = [each for each in partitions if each not in wanted.get(name, ())]
            empty = [each for each in orphans if self.log_dir.is_unwritten(name, each)]
            if empty:
                unwritten.append(NewPartitions(name, empty, self.topics.base))
            for partition in orphans:
                if partition not in empty:
                    self._set_aside(name, partition)
        self._remove(unwritten)

    def _remove(self, unwritten: list[NewPartitions]) -> None:
        if not unwritten:
            return
        names = [name for new in unwritten for name in new.names.values()]
        self.log_dir.take_back(unwritten)
        shown = ", ".join(names[:SHOWN_MAX])
        more = f" and {len(names) - SHOWN_MAX} more" if len(names) > SHOWN_MAX else ""
        self._note(
            f"{shown}{more} had no topic and never a record: the creation was interrupted, and "
            "what it left is removed."
        )

    def _set_aside(self, name: str, partition: int) -> None:
        directory = directory_name(name, partition)
        try:
            place = self.log_dir.set_aside(name, partition)
        except ApplianceError as error:
            self.log_dir.disown(name, partition)
            self._note(f"{directory} is no topic's, and cannot be set aside: {error}")
        else:
            self._note(f"{directory} is no topic's: set aside as {place}. Nothing deletes it.")

    # Topics

    def serve(self, row: TopicRow) -> None:
        (configs, config), faults = self._configs.get(row.name) or self._readable(row)
        for fault in faults:
            self._note(f"{row.name}: {fault}. Nothing of it is cleaned until that is set right.")
        topic = Topic(row.name, row.id, configs, created_ms=row.created_ms, here=row.here)
        created: list[str] = []
        unopened = self.log_dir.unopened
        held = {*row.held}
        topic.logs = [
            self._log(topic, each, config, created, unopened) if each in held else None
            for each in range(row.partitions)
        ]
        if created:
            self._note(
                f"{', '.join(created)} had no directory and {'is' if len(created) == 1 else 'are'} "
                "empty now: the creation was interrupted, or a person removed what was there."
            )
        self.topics.take(topic)

    def complete(self, topic: Topic, partition: int) -> Log:
        """One that was away."""
        created: list[str] = []
        config = self.log_config(topic.name, partition)
        log = self._complete(topic, partition, config, created)
        if created:
            self._note(f"{created[0]} had no directory and is empty now.")
        return log

    def _log(
        self,
        topic: Topic,
        partition: int,
        config: LogConfig,
        created: list[str],
        unopened: Mapping[Key, str],
    ) -> Log | None:
        key = (topic.name, partition)
        if why := self.log_dir.away(*key) or unopened.get(key):
            topic.unserved[partition] = why
            return None
        try:
            return self._complete(topic, partition, config, created)
        except ApplianceError as error:
            topic.unserved[partition] = str(error)
            self._note(f"{directory_name(*key)} is not served: {error}")
            return None

    def _complete(
        self, topic: Topic, partition: int, config: LogConfig, created: list[str]
    ) -> Log:
        name = directory_name(topic.name, partition)
        if not self.log_dir.holds(topic.name, partition):
            is_missing = (topic.name, partition) in self.log_dir.missing
            log = self.log_dir.create(topic.name, partition, config)
            if is_missing:
                self._note(
                    f"{name} had no directory: it was made anew, and goes on at offset "
                    f"{log.log_end_offset}. What it held is lost, unless the directory is found."
                )
            else:
                created.append(name)
                self.log_dir.made.forget(topic.name, [partition])  # nothing was ever promised
        found = identify(self.log_dir, topic, partition)
        if found not in (topic.id, None):
            self._note(f"{name} said that its topic's id is {found}; it is {topic.id}.")
        log = self.log_dir.log(topic.name, partition)
        log.configure(config)
        if topic.is_replicated:
            log.hold()
        return log


def identify(log_dir: LogDirs, topic: Topic, partition: int) -> uuid.UUID | None:
    """Its directory tells the topic's id from now on; what it told before."""
    path = log_dir.path_of(topic.name, partition)
    found = partition_metadata.read(path)
    if found != topic.id:
        partition_metadata.write(path, topic.id)
    return found
