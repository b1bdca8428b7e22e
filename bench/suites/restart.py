"""Start with an empty directory, start after kill -9 with a large log, and idling.

Each case has new brokers, so that a directory contains only the data of its case.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.peers import clients
from bench.peers.brokers import Broker, FloorOfStart
from bench.peers.turns import PAGE_CACHE, Case, Figures
from bench.run_size import Extent

IDLE_S = 10
PARTITIONS, RECORD_BYTES = 10, 10_000


@contextmanager
def own(broker: Broker) -> Iterator[Broker]:
    """A second broker of the same kind, on the same file system."""
    folder = Path(tempfile.mkdtemp(dir=broker.directory.parent, prefix=f"{broker.name}-"))
    made = type(broker)(folder / "data", {})  # type: ignore[call-arg]
    try:
        yield made
    finally:
        if made.is_alive():
            made.stop()
        shutil.rmtree(folder)


def on_empty(broker: Broker, topic: str) -> Figures:
    """The first start creates the files of an empty directory; only the second is measured."""
    with own(broker) as made:
        made.stop()
        return {"ready s": made.start()}


def after_kill(broker: Broker, topic: str, gigabytes: int) -> Figures:
    """Kills the broker under load, so that every partition has a tail to recover."""
    with own(broker) as made:
        made.create_topic(topic, PARTITIONS, PAGE_CACHE.get(broker.name, {}))
        count = gigabytes * 10**9 // RECORD_BYTES
        clients.run(clients.rdkafka_produce(made.address, topic, RECORD_BYTES, count, 1))
        words = clients.rdkafka_produce(made.address, topic, RECORD_BYTES, count, 1)
        writing = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.5)
        made.kill()
        writing.kill()
        writing.wait()
        begin = time.perf_counter()
        made.start()
        made.wait_for_leaders(topic, PARTITIONS)
        return {"serving s": time.perf_counter() - begin}


def nothing_to_do(broker: Broker, topic: str, seconds: float) -> Figures:
    with own(broker) as made:
        time.sleep(2)
        cpu = made.cpu_seconds()
        time.sleep(seconds)
        return {"resident MB": made.resident_bytes() / 1e6,
                "cpu ms/s": (made.cpu_seconds() - cpu) / seconds * 1000}


def start(extent: Extent) -> Iterator[Case]:
    """From the start of the process until it serves, with an empty directory."""
    yield Case("start", on_empty, {}, goals={"ready s": 1 / 10}, warm_up=False,
               floor=FloorOfStart.name)


def recovery(extent: Extent) -> Iterator[Case]:
    """kill -9 under load with many GB of log, until every partition is served again."""
    gigabytes = extent.recovered_gb
    yield Case(f"kill -9, {gigabytes} GB", partial(after_kill, gigabytes=gigabytes), {},
               goals={"serving s": 1 / 5}, rounds=extent.long_rounds, warm_up=False,
               weight=gigabytes / 2)


def idle(extent: Extent) -> Iterator[Case]:
    """A broker without clients."""
    yield Case("idle", partial(nothing_to_do, seconds=extent.seconds(IDLE_S)), {},
               goals={"resident MB": 1 / 5}, rounds=extent.long_rounds, warm_up=False)
