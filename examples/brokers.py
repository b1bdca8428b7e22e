"""Brokers for the examples: those that are named, or some that live as long as the example."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from appliance.embedded import running_broker


def arguments(about: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument(
        "--broker-list", default="", help="host:port,host:port; without it brokers are started here"
    )
    return parser


@contextmanager
def brokers(given: str, count: int = 1, partitions: int = 1) -> Iterator[str]:
    """Their list. Each has so many partitions of a topic."""
    if given:
        yield given
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        started = []
        for number in range(1, count + 1):
            settings = {"node.id": str(number), "num.partitions": str(partitions)}
            broker = stack.enter_context(running_broker(folder / str(number), settings))
            started.append(broker.bootstrap)
        yield ",".join(started)
