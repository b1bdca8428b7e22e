"""The cost of a record in a large log, compared with the same broker and a log of 1 GB.

`bench/grown_log.py` makes both logs in the same way, so that only the size differs."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench import instructions
from bench.peers import clients
from bench.peers.brokers import Broker
from bench.peers.turns import Case, Figures, Goals
from bench.run_size import Extent

SIZES = (10, 100)  # GB
SMALL = "1 GB of log"
PATHS = ("append", "read")
FLAT = 1.05
FILL_S = 1800  # for 100 GB, of which the disk gets 7
GOALS: Goals = {"append cpu ns/record": FLAT, "fetch cpu ns/record": FLAT,
                **{f"instructions of {each}": FLAT for each in PATHS}}


def words(what: str, folder: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "bench.grown_log", what, str(folder), *more]


def folder_of(broker: Broker, gigabytes: int) -> Path:
    """Two folders for each size: every turn changes its log, and both logs must be equally old."""
    kind = "small" if broker.name == SMALL else "large"
    return broker.directory.parent / f"{kind}-of-{gigabytes}"


def fill(broker: Broker, topic: str, gigabytes: int) -> Figures:
    """Deletes the logs of the last size first, for space."""
    folder = folder_of(broker, gigabytes)
    for old in folder.parent.glob("*-of-*"):
        if not old.name.endswith(f"-of-{gigabytes}"):
            shutil.rmtree(old)
    size = 1 if broker.name == SMALL else gigabytes
    clients.run(words("fill", folder, str(size)), timeout_s=FILL_S)
    return {}


def costs(broker: Broker, topic: str, gigabytes: int) -> Figures:
    folder = folder_of(broker, gigabytes)
    figures: Figures = json.loads(clients.run(words("turn", folder)))
    killed = subprocess.run(words("kill", folder), capture_output=True, text=True)
    if killed.returncode != -signal.SIGKILL:
        raise RuntimeError(f"{folder}: ended with {killed.returncode}:\n{killed.stderr}")
    return {**figures, **json.loads(clients.run(words("open", folder)))}


def counts(broker: Broker, topic: str, gigabytes: int) -> Figures:
    folder = folder_of(broker, gigabytes)
    return {f"instructions of {each}": instructions.of_one(each, folder) for each in PATHS}


def growth(extent: Extent) -> Iterator[Case]:
    """An append to, a fetch from and the open of a large log, compared with a log of 1 GB."""
    for size in sorted({*(each for each in SIZES if each < extent.grown_gb), extent.grown_gb}):
        yield Case(f"{size} GB of log", partial(costs, gigabytes=size), {}, peer=SMALL,
                   fill=partial(fill, gigabytes=size), goals=GOALS, weight=2)
    yield Case(f"{extent.grown_gb} GB of log, counted",
               partial(counts, gigabytes=extent.grown_gb), {}, peer=SMALL,
               fill=partial(fill, gigabytes=extent.grown_gb), goals=GOALS, rounds=1,
               warm_up=False, weight=3)
