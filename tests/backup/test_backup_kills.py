"""Backups of a broker under load, with `kill -9` of backup, broker and restore at random moments:
what was acknowledged before the point is there, and a processor that reads, writes and commits in
transactions goes on where it was. `bench/backup_kills.py` does the same with as much data as you
like.

BACKUP_ROUNDS has more rounds, BACKUP_SEED other moments, BACKUP_BYTES more data.
"""

from __future__ import annotations

import os
import random
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.backup_rounds import Rounds
from tests.support.backups import Backups
from tests.support.release import in_release

ROUNDS = int(os.environ.get("BACKUP_ROUNDS", "20"))
SEED = int(os.environ.get("BACKUP_SEED", "1"))
BULK_BYTES = int(os.environ.get("BACKUP_BYTES", "1000000"))


@pytest.mark.parametrize("rounds", [1, *in_release("the same, more often", [ROUNDS])])
def test_kills_at_random_moments_lose_nothing(tmp_path: Path, rounds: int) -> None:
    with closing(Rounds(Backups(tmp_path), random.Random(SEED), BULK_BYTES)) as site:
        for number in range(rounds):
            site.run(number)
