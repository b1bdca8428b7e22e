"""Topics on disk: the catalog's row and the directories, in the order that a crash cannot break.

    create   1 the directories   2 the row, with its number of partitions
    extend   1 the directories   2 the row's number
    add      1 the row's replicas that are here   2 their directories
    shrink   1 the row's replicas that are here   2 the directories of the others
    delete   1 the row becomes a deletion   2 the directories   3 the deletion is struck out

The row decides. A crash before it changed nothing: directories without a record that no row names
are removed by the next start. After it the next start does the rest (what is left of a shrink it
sets aside). A failure that is no crash is undone: nothing is left of a topic that was refused.

Many are created, extended or deleted at once: each directory of `log.dirs` is synced once for all,
and the catalog has one transaction for each step. Each has its own outcome. All of it blocks.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from appliance._log import Log
from appliance.config import LogConfig
from appliance.data_dir import partition_metadata
from appliance.data_dir.log_dirs import LogDirs
from appliance.data_dir.partition_creation import NewPartitions
from appliance.data_dir.partition_names import Key
from appliance.errors import ApplianceError, raise_first
from appliance.topics.topic import INTERNAL, SHARE_STATE, TRANSACTIONS
from appliance.topics.topic_rows import TopicRow, TopicRows

# Nobody is served from these before all of them was read: on several disks each would be needed.
WHOLE = {TRANSACTIONS, SHARE_STATE}


class Creation(NamedTuple):
    """Of a topic, or of more partitions for one."""

    row: TopicRow  # as it is to be
    new: NewPartitions
    places: dict[Key, str]


def create(
    rows: TopicRows, log_dir: LogDirs, wanted: Sequence[tuple[TopicRow, LogConfig]]
) -> list[list[Log] | ApplianceError]:
    """By topic its logs, or why it was not made."""
    begun = [
        _begin(log_dir, row, row.held, config, together=row.name in WHOLE)
        for row, config in wanted
    ]
    _carry_out(log_dir, begun, lambda made, places: rows.put(
        *(each.row for each in made), places=places))  # fmt: skip
    return [_outcome(each.new) for each in begun]


def extend(
    rows: TopicRows, log_dir: LogDirs, wanted: Sequence[tuple[TopicRow, int, LogConfig]]
) -> list[list[Log] | ApplianceError]:
    """By topic, of which the row tells how many partitions it had: the logs of those that are new,
    or why there are none."""
    begun = [
        _begin(log_dir, replace(row, partitions=total), range(row.partitions, total), config)
        for row, total, config in wanted
    ]
    _carry_out(log_dir, begun, lambda made, places: rows.set_partitions(
        {each.row.name: each.row.partitions for each in made}, places))  # fmt: skip
    return [_outcome(each.new) for each in begun]


def _begin(
    log_dir: LogDirs,
    row: TopicRow,
    numbers: Sequence[int],
    config: LogConfig,
    *,
    together: bool = False,
) -> Creation:
    new = NewPartitions(row.name, numbers, config)
    try:
        places = log_dir.place(row.name, numbers, must=row.name in INTERNAL, together=together)
    except ApplianceError as error:
        new.refuse(error)
        places = {}
    return Creation(row, new, places)


def _carry_out(
    log_dir: LogDirs,
    begun: Sequence[Creation],
    store: Callable[[Sequence[Creation], dict[Key, str]], None],
) -> None:
    log_dir.create_new([each.new for each in begun if each.new.error is None])
    made = [each for each in begun if each.new.error is None]
    try:
        if made:
            store(made, {key: at for each in made for key, at in each.places.items()})
    except ApplianceError as error:
        log_dir.take_back([each.new for each in made])
        for each in made:
            each.new.refuse(error)
    for each in begun:
        if each.new.error is not None:
            log_dir.unplace(each.row.name, each.new.numbers)
        _identify(each.new.logs.values(), each.row.id)


def _outcome(new: NewPartitions) -> list[Log] | ApplianceError:
    return new.error or [new.logs[number] for number in new.numbers]


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
    logs = log_dir.create_all(row.name, more, config)
    _identify(logs, row.id)
    return logs


def remove_replicas(
    rows: TopicRows, log_dir: LogDirs, row: TopicRow, gone: frozenset[int], aside: frozenset[int]
) -> list[Path]:
    """Of a cluster's topic: `gone` are on other brokers. Those of them that are in `aside` keep
    their files; where these are."""
    rows.set_replicas(row.name, row.partitions, (row.here or frozenset()) - gone)
    held = {number for number in gone if log_dir.holds(row.name, number)}
    places = [log_dir.set_aside(row.name, number) for number in sorted(held & aside)]
    gone_for_good = [(row.name, number) for number in sorted(held - aside)]
    failures = log_dir.delete_all(gone_for_good)  # of earlier deletions, too
    raise_first(failures[key] for key in gone_for_good if key in failures)
    log_dir.unplace(row.name, gone)
    return places


def delete_files(log_dir: LogDirs, names: Collection[str]) -> dict[str, ApplianceError]:
    """Of deleted topics; why those of some stay. What is in a directory that is away is set aside
    when that is back."""
    failures: dict[str, ApplianceError] = {}
    wanted = {*names}
    held = [key for key in log_dir.held() if key[0] in wanted]
    for (name, _), error in log_dir.delete_all(held).items():
        if name in wanted:
            failures.setdefault(name, error)
    log_dir.unplace_topics(wanted - failures.keys())
    return failures


def _identify(logs: Iterable[Log], topic_id: uuid.UUID) -> None:
    for log in logs:
        partition_metadata.write(Path(log.directory), topic_id)
