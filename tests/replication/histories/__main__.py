"""One round without pytest, whose logs stay in the folder that it names:
`python -m tests.replication.histories SEED SECONDS [KIND,KIND,... [MUTANT]]`."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from tests.replication.histories.ensemble import ensemble
from tests.replication.histories.network import Network
from tests.replication.histories.rounds import play
from tests.replication.histories.schedule import BROKERS, KINDS, ZOOKEEPERS, schedule

TICK_MS = 500
SESSION_MS = int(os.environ.get("HISTORY_SESSION_MS", "3000"))


def main(seed: int, seconds: float, kinds: list[str], mutant: str) -> None:
    planned = schedule(seed, seconds, SESSION_MS / 1000, kinds)
    folder = Path(tempfile.mkdtemp(prefix=f"history-{seed}-"))
    with Network([*BROKERS, *ZOOKEEPERS]) as net, ensemble(net, folder / "zk", TICK_MS) as three:
        result = play(seed, seconds, planned, net, three, folder / "brokers", SESSION_MS, mutant)
    print(result)
    if result.counts:
        print("\n".join([*result.told, result.words, f"logs are in {folder}"]))


if __name__ == "__main__":
    given = sys.argv[3].split(",") if "".join(sys.argv[3:]) else [*KINDS]
    main(int(sys.argv[1]), float(sys.argv[2]), given, "".join(sys.argv[4:]))
