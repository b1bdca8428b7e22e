"""Moves that a crash interrupted, or the loss of a directory: the row says which of the two logs is
the log. What is removed here is only what a move left, and only while the log itself is there.

    row says source    a copy that has its name already is removed; the move begins again
    row says target    the old log is removed, and the move is over
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from appliance.catalog.log_directory_rows import LogDirectoryRows, Move
from appliance.data_dir.partition_move import futures_in
from appliance.data_dir.partition_names import Key, directory_name
from appliance.data_dir.record_dir import RecordDir
from appliance.errors import ApplianceError
from appliance.process import event_log

events = event_log.named("log_dirs")


def remove_futures(directory: RecordDir) -> None:
    """Before a move begins again."""
    try:
        for each in futures_in(directory.path):
            events.info("what a move left is removed", path=each)
            shutil.rmtree(each, ignore_errors=True)
    except OSError as error:
        events.warning("what a move left is not removed yet", path=directory.path, error=error)


def settle(
    rows: LogDirectoryRows,
    moves: Mapping[Key, Move],
    places: Mapping[Key, str],
    directories: Mapping[str, RecordDir],
) -> None:
    """`directories` are those that are open, by id."""
    for key, move in moves.items():
        place = places.get(key, move.source)
        keeper = directories.get(place)
        other = directories.get(move.source if place == move.target else move.target)
        if keeper is None or other is None or not keeper.opened().holds(*key):
            continue
        try:
            if other.opened().holds(*key):
                events.warning("a move was interrupted", log=directory_name(*key),
                               kept=keeper.path, removed=other.path)  # fmt: skip
                other.opened().delete(*key)
            if place == move.target:
                rows.end_move(key)
        except ApplianceError as error:
            events.error("a move cannot be finished yet", log=directory_name(*key), error=error)
