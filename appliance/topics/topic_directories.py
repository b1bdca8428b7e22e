"""Topics on disk: the catalog's row and the directories, in the order that a crash cannot break.

    create   1 the row, with its number of partitions   2 the directories
    extend   1 the row's number                         2 the directories
    shrink   1 the row's replicas that are here         2 the directories of the others
    delete   1 the row becomes a deletion   2 the directories   3 the deletion is struck out

Step 1 decides. A crash before it changed nothing; after it the next start does the rest (what is
left of a shrink it sets aside). A failure that is no crash is undone: nothing is left of a topic
that was refused. All of it blocks.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

from appliance._log import Log
from appliance.config import LogConfig
from appliance.data_dir import partition_metadata
from appliance.data_dir.log_dirs import LogDirs
from appliance.errors import ApplianceError
from appliance.process import event_log
from appliance.topics.topic import INTERNAL, SHARE_STATE, TRANSACTIONS
from appliance.topics.topic_rows import TopicRow, TopicRows

events = event_log.named("topics")

# Nobody is served from these before all of them was read: on several disks each would be needed.
WHOLE = {TRANSACTIONS, SHARE_STATE}


def create(rows: TopicRows, log_dir: LogDirs, row: TopicRow, config: LogConfig) -> list[Log]:
    places = log_dir.place(
        row.name, row.held, must=row.name in INTERNAL, together=row.name in WHOLE
    )
    try:
        rows.put(row, places)
    except ApplianceError:
        log_dir.unplace(row.name)
        raise
    try:
        return _make(log_dir, row.name, row.id, row.held, config)
    except Exception:
        _undo(lambda: delete(rows, log_dir, row.name))
        raise


def extend(
    rows: TopicRows, log_dir: LogDirs, row: TopicRow, total: int, config: LogConfig
) -> list[Log]:
    """The logs of the partitions that are new."""
    more = range(row.partitions, total)
    places = log_dir.place(row.name, more, must=row.name in INTERNAL)
    try:
        rows.set_partitions(row.name, total, places)
    except ApplianceError:
        log_dir.unplace(row.name, more)
        raise
    try:
        return _make(log_dir, row.name, row.id, more, config)
    except Exception:
        _undo(lambda: rows.set_partitions(row.name, row.partitions))
        _undo(lambda: _remove(log_dir, row.name, more))
        log_dir.unplace(row.name, more)
        raise


def add_replicas(
    rows: TopicRows, log_dir: LogDirs, row: TopicRow, here: frozenset[int], config: LogConfig
) -> list[Log]:
    """Of a cluster's topic as `row` says it is now; the logs of the partitions that `here` has and
    it had not. The decision is the cluster's: what fails is done when it is looked at again. What
    could not be removed when they left is set aside."""
    more = sorted(here - (row.here or frozenset()))
    for number in more:
        if row.here is not None and log_dir.holds(row.name, number):
            log_dir.set_aside(row.name, number)
    places = log_dir.place(row.name, more, must=row.name in INTERNAL)
    rows.set_replicas(row.name, row.partitions, here, places)
    return _make(log_dir, row.name, row.id, more, config)


def remove_replicas(
    rows: TopicRows, log_dir: LogDirs, row: TopicRow, gone: frozenset[int], aside: frozenset[int]
) -> list[Path]:
    """Of a cluster's topic: `gone` are on other brokers. Those of them that are in `aside` keep
    their files; where these are."""
    rows.set_replicas(row.name, row.partitions, (row.here or frozenset()) - gone)
    held = {number for number in gone if log_dir.holds(row.name, number)}
    places = [log_dir.set_aside(row.name, number) for number in sorted(held & aside)]
    _remove(log_dir, row.name, sorted(held - aside))
    log_dir.unplace(row.name, gone)
    return places


def delete(rows: TopicRows, log_dir: LogDirs, name: str) -> None:
    rows.begin_deletion(name)
    finish_deletion(rows, log_dir, name)


def finish_deletion(rows: TopicRows, log_dir: LogDirs, name: str) -> None:
    """What is in a directory that is not open is set aside when that comes back."""
    _remove(log_dir, name, [number for topic, number in log_dir.held() if topic == name])
    log_dir.unplace(name)
    rows.end_deletion(name)


def _make(
    log_dir: LogDirs, name: str, topic_id: uuid.UUID, partitions: Iterable[int], config: LogConfig
) -> list[Log]:
    logs = log_dir.create_all(name, partitions, config)
    for log in logs:
        partition_metadata.write(Path(log.directory), topic_id)
    return logs


def _remove(log_dir: LogDirs, name: str, partitions: Iterable[int]) -> None:
    log_dir.delete_all(name, [number for number in partitions if log_dir.holds(name, number)])


def _undo(step: Callable[[], None]) -> None:
    try:
        step()
    except ApplianceError as error:
        events.error("a change that failed cannot be undone; the next start will", error=error)
