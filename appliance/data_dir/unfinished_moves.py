"""Moves that a crash interrupted, or the loss of a directory: the row says which of the two logs is
the log. What is removed here is only what a move left, and only while the log itself is there.

    row says source    a copy that has its name already is removed; the move begins again
    row says target    the old log is removed, and the move is over

Where the row says source, and the source neither has the log nor knows that it lost one, the row is
older than the end of the move: a catalog from a backup, or one whose last write was reported as
failed. The log is in the target then.
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


def found_moved(
    moves: Mapping[Key, Move], places: Mapping[Key, str], directories: Mapping[str, RecordDir]
) -> dict[Key, RecordDir]:
    """Logs whose move has ended, though the row does not say so, and where they are. Before a start
    makes what it misses: an empty log in the source would be taken for the log."""
    found = {}
    for key, move in moves.items():
        source, target = directories.get(move.source), directories.get(move.target)
        if source is None or target is None or places.get(key, move.source) != move.source:
            continue
        knows_it = source.opened().holds(*key) or key in source.opened().missing
        if not knows_it and target.opened().holds(*key):
            events.warning("a move had ended, and its row says that it had not",
                           log=directory_name(*key), place=target.path)  # fmt: skip
            found[key] = target
    return found


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
            other.opened().settle()  # a deletion before may have come no further than the names
            if place == move.target:
                rows.end_move(key)
        except ApplianceError as error:
            events.error("a move cannot be finished yet", log=directory_name(*key), error=error)
