"""The same broker under two interpreters, in turns: what requests to the control plane cost, alone
and beside Python's own work on other threads; starting, resident memory; the data plane.

    python -m bench.interpreters PYTHON PYTHON [--only WORD] [--rounds 5] [--dir DIR] [--json FILE]
    python -m bench.interpreters '.venv-314t/bin/python -X gil=1' '.venv-314t/bin/python -X gil=0'

PYTHON is a command line. The compiled core must be built for each of them, beside each other in
this folder: the names of compiled modules tell for which Python they are. Clients always run under
the Python that runs this. Figures are medians, lowest and highest, and the ratio of the first to
the second.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import shlex
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from appliance.protocol.messages.find_coordinator import FindCoordinatorRequest
from appliance.protocol.messages.metadata import MetadataRequest
from appliance.record import _batch_builder
from bench.peers import clients
from bench.peers.brokers import Appliance, Broker
from bench.peers.running import PEERS, Running
from bench.peers.turns import PAGE_CACHE, Case, Figures, Turns, summary
from bench.run_size import Extent
from bench.suites import groups, latency, requests
from tests.support.wire_client import WireClient

TURNS = "first", "second"
CONNECTIONS, SECONDS = 64, 3.0
# The newest versions whose error code is at a fixed position, counted from the frame's size on
METADATA, METADATA_ERROR = (3, 1), 4 + 4 + 4 + 4 + 2 + len("127.0.0.1") + 4 + 2 + 4 + 4
FIND_COORDINATOR, FIND_COORDINATOR_ERROR = (10, 1), 4 + 4 + 4
ANY_PAGE = "/api/v1/groups?limit=10"
BATCHES, RECORDS = 40, 1000  # of the topic that is downloaded
DOWNLOADS = 2
KEY, VALUE = b"key", b'{"name": "value", "number": 12345}'


def asked(broker: Broker, topic: str, key_version: tuple[int, int], request: object,
          zero_at: int, seconds: float) -> Figures:
    cpu = broker.cpu_seconds()
    frames = clients.frame_file(key_version, request)
    probe = clients.probe_requests(broker.address, frames, zero_at, CONNECTIONS, 1, seconds)
    return {"requests/s": probe["answers"] / probe["seconds"], "p99 us": probe["answer_p99_us"],
            "cpu us/request": (broker.cpu_seconds() - cpu) / probe["answers"] * 1e6}


def metadata(broker: Broker, topic: str, seconds: float) -> Figures:
    request = MetadataRequest([MetadataRequest.MetadataRequestTopic(name=topic)])
    return asked(broker, topic, METADATA, request, METADATA_ERROR, seconds)


def find_coordinator(broker: Broker, topic: str, seconds: float) -> Figures:
    request = FindCoordinatorRequest("group", 0)
    return asked(broker, topic, FIND_COORDINATOR, request, FIND_COORDINATOR_ERROR, seconds)


def rest(broker: Broker, topic: str, seconds: float) -> Figures:
    assert isinstance(broker, Appliance)
    connection = http.client.HTTPConnection(broker.admin, timeout=30)
    cpu, begin, count = broker.cpu_seconds(), time.perf_counter(), 0
    while time.perf_counter() < begin + seconds:
        fetched(connection, ANY_PAGE)
        count += 1
    took, cpu = time.perf_counter() - begin, broker.cpu_seconds() - cpu
    return {"requests/s": count / took, "cpu us/request": cpu / count * 1e6}


def fetched(connection: http.client.HTTPConnection, path: str) -> bytes:
    connection.request("GET", path)
    answer = connection.getresponse()
    assert answer.status == 200, f"{path}: got {answer.status}"
    return answer.read()


def fill(broker: Broker, topic: str) -> None:
    host, _, port = broker.address.partition(":")
    now_ms = time.time_ns() // 1_000_000  # retention deletes what is older than a week
    batch = _batch_builder.batch([(now_ms, KEY, VALUE)] * RECORDS)
    with WireClient((host, int(port))) as client:
        for _ in range(BATCHES):
            (part,) = client.produce(batch, topic=topic, acks=1)
            assert part.error_code == 0, part


def beside_downloads(broker: Broker, topic: str, job: Callable[..., Figures]) -> Figures:
    """Downloads decode and encode records in Python, on threads beside the event loop."""
    with downloading(broker, topic) as counts:
        begin = time.perf_counter()
        figures = job(broker, topic)
        took = time.perf_counter() - begin
    return {**figures, "downloaded records/s": sum(counts) / took}


@contextlib.contextmanager
def downloading(broker: Broker, topic: str) -> Iterator[list[int]]:
    """The list gets the records of each download that ended in the block."""
    assert isinstance(broker, Appliance)
    counts: list[int] = []
    over = threading.Event()

    def work(admin: str) -> None:
        connection = http.client.HTTPConnection(admin, timeout=60)
        while not over.is_set():
            count = fetched(connection, f"/api/v1/topics/{topic}/export").count(b"\n")
            assert count == BATCHES * RECORDS, f"got {count} records"
            if not over.is_set():
                counts.append(count)

    with ThreadPoolExecutor(DOWNLOADS) as threads:
        begun = [threads.submit(work, broker.admin) for _ in range(DOWNLOADS)]
        try:
            yield counts
        finally:
            over.set()
    for each in begun:
        each.result()  # a download that failed was no load


def started(broker: Broker, topic: str) -> Figures:
    """With the directory of all that was measured so far; the memory is that of an idle broker."""
    broker.stop()
    took = broker.start()
    time.sleep(2)
    return {"start s": took, "start cpu s": broker.cpu_seconds(),
            "resident MB": broker.resident_bytes() / 1e6}


def cases(extent: Extent) -> Iterator[Case]:
    seconds = extent.seconds(SECONDS)
    of_plane: dict[str, Callable[..., Figures]] = {
        "Metadata": partial(metadata, seconds=seconds),
        "FindCoordinator": partial(find_coordinator, seconds=seconds),
    }
    for name, job in of_plane.items():
        yield Case(f"{name}, {CONNECTIONS} connections", job, {})
    yield from groups.groups(extent)
    yield Case("REST, 1 connection", partial(rest, seconds=seconds), {})
    commits = partial(groups.commits, depth=1, seconds=seconds)
    for name, job in {**of_plane, "OffsetCommit": commits}.items():
        yield Case(f"{name}, beside {DOWNLOADS} downloads", partial(beside_downloads, job=job),
                   PAGE_CACHE, fill=fill, settings=groups.SETTINGS)
    yield from requests.requests(extent)
    job = partial(latency.at_rate, acks=1, rate=latency.RATE, seconds=seconds)
    yield Case(f"{latency.RATE} records/s", job, PAGE_CACHE)
    yield Case("start", started, {})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pythons", nargs=2, metavar="PYTHON", help="the words that start it")
    parser.add_argument("--only", default="", help="cases whose name has this word")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--load", type=float, default=1, help="share of a case's full time")
    parser.add_argument("--dir", type=Path)
    parser.add_argument("--json", type=Path, help="file for the figures")
    given = parser.parse_args()
    for name, python in zip(TURNS, given.pythons, strict=True):
        PEERS[name] = partial(Appliance, python=shlex.split(python))
    found = {}
    with Running(given.dir) as running:
        turns = Turns(running, given.rounds, lambda step: None)
        for case in cases(Extent(load=given.load)):
            if given.only in case.name:
                ours, peer = TURNS
                found[case.name] = turns.take(replace(case, ours=ours, peer=peer), float("inf"))
                for figure, values in found[case.name].items():
                    print(f"{case.name}: {figure}: {summary(values)}", flush=True)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
