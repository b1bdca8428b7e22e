"""The recorded scenarios, which are cut at every point.

A scenario is a list of lives. Each life is a process under the recorder; it ends by a clean stop or
by SIGKILL between two calls.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from . import cleaning_lives, log_lives, moving, producer_lives, share, txn
from .session import Session

SCENARIOS: dict[str, Sequence[Callable[[Session], None]]] = {
    "produce": (log_lives.produce_first, log_lives.produce_again, log_lives.produce_again),
    "roll": (log_lives.roll,),
    "checkpoint": (log_lives.checkpoint, log_lives.checkpoint_clean, log_lives.checkpoint),
    "journal": (
        log_lives.journal_first,
        *[log_lives.journal_turned_over] * 2,
        log_lives.journal_used,
        log_lives.journal_turned_over,
    ),
    "retention": (cleaning_lives.retention, cleaning_lives.retention_again),
    "compaction": (cleaning_lives.compaction, cleaning_lives.compaction_again),
    "idempotent": (producer_lives.idempotent, producer_lives.idempotent_again),
    "racing": (producer_lives.idempotent_racing,),
    "transactions": (producer_lives.transactions, producer_lives.transactions_again),
    "transfers": (txn.first, txn.second, txn.first),
    "share": (share.first, share.second, share.first),
    "truncate": (log_lives.truncate, log_lives.truncate_again),
    "partitions": (log_lives.partitions, log_lives.partitions_again),
    "creations": (log_lives.creations, log_lives.creations_again),
    "moves": (moving.first, moving.second),
}

# Faults planted in Python code: each must be detected.
FAULTY: dict[str, Sequence[Callable[[Session], None]]] = {
    "transfers-markers-first": (txn.markers_first,),
    "transfers-markers-not-awaited": (txn.markers_not_awaited,),
    "share-not-awaited": (share.not_awaited,),
}
LIVES = SCENARIOS | FAULTY | moving.FAULTY


def main(scenario: str, life: str, root: str) -> None:
    LIVES[scenario][int(life)](Session(Path(root), int(life)))


if __name__ == "__main__":
    main(*sys.argv[1:])
