"""Topics on disk: the catalog's row and the directories, in the order that a crash cannot break.

    create   1 the row, with its number of partitions   2 the directories
    extend   1 the row's number                         2 the directories
    delete   1 the row becomes a deletion   2 the directories   3 the deletion is struck out

Step 1 decides. A crash before it changed nothing; after it the next start does the rest. A failure
that is no crash is undone: nothing is left of a topic that was refused. All of it blocks.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable

from appliance._log import Log
from appliance.config import LogConfig
from appliance.data_dir import partition_metadata
from appliance.data_dir.log_dir import LogDir
from appliance.errors import ApplianceError
from appliance.process import event_log
from appliance.topics.topic_rows import TopicRow, TopicRows

events = event_log.named("topics")


def create(rows: TopicRows, log_dir: LogDir, row: TopicRow, config: LogConfig) -> list[Log]:
    rows.put(row)
    try:
        return _make(log_dir, row.name, row.id, range(row.partitions), config)
    except Exception:
        _undo(lambda: delete(rows, log_dir, row.name))
        raise


def extend(
    rows: TopicRows, log_dir: LogDir, row: TopicRow, total: int, config: LogConfig
) -> list[Log]:
    """The logs of the partitions that are new."""
    more = range(row.partitions, total)
    rows.set_partitions(row.name, total)
    try:
        return _make(log_dir, row.name, row.id, more, config)
    except Exception:
        _undo(lambda: rows.set_partitions(row.name, row.partitions))
        _undo(lambda: _remove(log_dir, row.name, more))
        raise


def delete(rows: TopicRows, log_dir: LogDir, name: str) -> None:
    rows.begin_deletion(name)
    finish_deletion(rows, log_dir, name)


def finish_deletion(rows: TopicRows, log_dir: LogDir, name: str) -> None:
    _remove(log_dir, name, [number for topic, number in log_dir.held() if topic == name])
    rows.end_deletion(name)


def _make(
    log_dir: LogDir, name: str, topic_id: uuid.UUID, partitions: Iterable[int], config: LogConfig
) -> list[Log]:
    logs = log_dir.create_all(name, partitions, config)
    for log in logs:
        partition_metadata.write(log_dir.path / log.name, topic_id)
    return logs


def _remove(log_dir: LogDir, name: str, partitions: Iterable[int]) -> None:
    log_dir.delete_all(name, [number for number in partitions if log_dir.holds(name, number)])


def _undo(step: Callable[[], None]) -> None:
    try:
        step()
    except ApplianceError as error:
        events.error("a change that failed cannot be undone; the next start will", error=error)
