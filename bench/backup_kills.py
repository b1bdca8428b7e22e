"""Backups of a large broker under load, with the box lost and restored in each round, and `kill -9`
of backup, broker and restore at random moments (tests/support/backup_rounds.py).

    python bench/backup_kills.py --gigabytes 10 --rounds 20 --dir /somewhere

It needs room for twice the data. What it did is in FOLDER/rounds.json, the rest is removed.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import time
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.backup_rounds import Round, Rounds, line, told
from tests.support.backups import Backups


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verify-each", type=int, default=5, metavar="ROUNDS")
    parser.add_argument("--dir", type=Path, required=True)
    words = parser.parse_args()
    words.dir.mkdir(parents=True)
    size = round(words.gigabytes * 1e9)
    begin_s, rounds = time.monotonic(), list[Round]()
    try:
        made = Rounds(Backups(words.dir), random.Random(words.seed), size, words.verify_each)
        print(f"{words.gigabytes:g} GB written in {time.monotonic() - begin_s:.0f} s", flush=True)
        with closing(made):
            for number in range(words.rounds):
                rounds.append(made.run(number))
                print(line(rounds[-1]), flush=True)
        print(told(rounds))
    finally:
        for each in ("site", "target", *(f"data-{number}" for number in range(words.rounds))):
            shutil.rmtree(words.dir / each, ignore_errors=True)
        rows = json.dumps([asdict(each) for each in rounds], indent=1)
        (words.dir / "rounds.json").write_text(rows)


if __name__ == "__main__":
    main()
