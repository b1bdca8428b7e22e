"""Measurements of the appliance without a peer, as steps of a run: each is a separate program,
which takes its own turns and writes its figures as JSON."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.peers import clients
from bench.run_size import Extent

PATIENCE_S = 1800
SHORT = 0.5  # share of the load; below it the run is a quick one


@dataclass(frozen=True)
class Script:
    module: str
    about: str
    words: Callable[[Extent], list[str]]


def words(**of: tuple[float, float]) -> Callable[[Extent], list[str]]:
    """The options of a script: each has a value for a full run and one for a quick run."""
    def chosen(extent: Extent) -> list[str]:
        at = int(extent.load < SHORT)
        return [word for name, each in of.items() for word in (f"--{name}", f"{each[at]:g}")]

    return chosen


SCRIPTS = {
    "export": Script("bench.export", "A full export, cold, beside a producer",
                     words(gigabytes=(1, 0.3), rounds=(5, 2), seconds=(8, 3))),
    "console": Script("bench.console", "The console with 10,000 partitions, and 20 consoles "
                      "beside a producer", words(rounds=(5, 2), seconds=(10, 3))),
    "large_start": Script("bench.start", "Start of an empty directory, and of a large log after "
                          "a clean stop and kill -9", words(gigabytes=(10, 1), rounds=(7, 3))),
    "idle_crowd": Script("bench.idle", "5,000 idle connections beside ten busy ones, acks=all",
                         words(rounds=(5, 2), seconds=(2, 1))),
}


def measured(name: str, extent: Extent) -> dict[str, list[float]]:
    script = SCRIPTS[name]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "figures.json")
        clients.run([sys.executable, "-m", script.module, *script.words(extent), "--json",
                     str(file)], timeout_s=PATIENCE_S)
        return dict(flat(json.loads(file.read_text())))


def flat(figures: dict[str, Any], of: str = "") -> Iterator[tuple[str, list[float]]]:
    """Flattens figures, lists of figures, and dictionaries of both."""
    for name, value in figures.items():
        if isinstance(value, dict):
            yield from flat(value, f"{of}{name}: ")
        else:
            yield f"{of}{name}", value if isinstance(value, list) else [value]
