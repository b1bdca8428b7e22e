"""kill -9 under full load with a large log: time until it serves again, and lost acknowledged
records.

    python bench/kill9.py --gigabytes 10 --partitions 100 --rounds 100 --dir /somewhere

The first part fills the log. Each round starts the load on it, kills it after a random time, and
starts it again: "serving" is from the start of the process to its first durable ack, "open" is
recovery alone. In each round the newest acks of every partition are read back; the last round reads
all of the log.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import sys
import time
from pathlib import Path

sys.path[:0] = [
    str(Path(__file__).resolve().parents[1] / "tests"),
    str(Path(__file__).resolve().parents[1]),
]

from crash.rounds import Acks, LoadProcess, problems_of  # noqa: E402

SEGMENT_BYTES = 32 << 20
BATCH_BYTES = 16_000
ACKS_CHECKED = 200  # newest acks of each partition read back in each round


def size_of(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*.log"))


def fill(root: Path, acks: Acks, gigabytes: float, options: list[str]) -> None:
    load = LoadProcess(root, acks, *options)
    load.wait_open()
    while size_of(root) < gigabytes * (1 << 30) * 0.98:
        if load.process.poll() is not None:
            sys.exit(f"the load ended by itself: {load.end()}")
        time.sleep(1)
    load.end()


def newest(acks: Acks) -> Acks:
    return {partition: acked[-ACKS_CHECKED:] for partition, acked in acks.items()}


def forget(acks: Acks, retention: int) -> None:
    """Drops acks of records that retention has deleted, so that a long run fits in memory."""
    for acked in acks.values():
        del acked[: -2 * retention // BATCH_BYTES]


def run_round(root: Path, acks: Acks, seconds: float, options: list[str]) -> tuple[float, float]:
    load = LoadProcess(root, acks, *options)
    load.wait_open()
    deadline = time.monotonic() + 30
    while load.serving_seconds < 0 and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(seconds)
    said = load.end()
    if load.process.returncode != -9:
        sys.exit(f"the load ended by itself: {said}")
    return load.open_seconds, load.serving_seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    root = arguments.dir / "kill9-data"
    root.mkdir(parents=True, exist_ok=True)
    # the oldest segments go, so that full load for 100 rounds keeps the size
    retention = int(arguments.gigabytes * (1 << 30) / arguments.partitions)
    options = ["--partitions", str(arguments.partitions), "--threads", str(arguments.threads)]
    options += [
        "--batch-bytes",
        str(BATCH_BYTES),
        "--segment-bytes",
        str(min(SEGMENT_BYTES, retention // 4)),
    ]
    options += ["--retention-bytes", str(retention)]
    acks: Acks = {}
    chance = random.Random(arguments.seed)
    fill(root, acks, arguments.gigabytes, options)
    print(f"{size_of(root) / (1 << 30):.2f} GiB in {arguments.partitions} partitions")
    opens, servings, lost = [], [], 0
    for turn in range(arguments.rounds):
        opened, serving = run_round(root, acks, chance.uniform(0.2, 2.0), options)
        is_last = turn == arguments.rounds - 1
        problems = problems_of(root, acks if is_last else newest(acks), arguments.dir, *options)
        forget(acks, retention)
        opens.append(opened)
        servings.append(serving)
        lost += len(problems)
        print(
            f"round {turn + 1}: open {opened:.3f} s, serving after {serving:.3f} s, "
            f"{problems or 'nothing lost'}"
        )
    print(
        f"{arguments.rounds} rounds, {lost} problems; open median "
        f"{statistics.median(opens):.3f} s, max {max(opens):.3f} s; serving "
        f"(with the interpreter's start) median "
        f"{statistics.median(servings):.3f} s, max {max(servings):.3f} s"
    )
    if not arguments.keep:
        shutil.rmtree(root)
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
