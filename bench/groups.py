"""Consumer groups beside Apache Kafka: rebalances, heartbeats, commits, A B A B, medians.

    python -m bench.groups [SUITE ...] [--rounds 5] [--json FILE]

The clients cost little (`peers/members.py`, `peers/probe.c`); both brokers have the same ones. An
assignment and a commit are durable on ours; Kafka answers them from the page cache.
"""

from __future__ import annotations

import gc
import select
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from appliance.wire.find_coordinator import FindCoordinatorRequest
from appliance.wire.heartbeat import HeartbeatRequest
from bench.peers import clients, members
from bench.peers.brokers import Broker
from bench.peers.members import HEARTBEAT, Link, Member, Rebalance
from bench.peers.turns import Case, Figures, Suites, compare

FIND_COORDINATOR = (10, 3)
NOT_YET = (14, 15, 16)  # the coordinator loads, is not available, is elsewhere
ANY_GROUPS = 300  # so many that each partition of offsets has some
MEMBERS = 100
REBALANCES = 10
GROUPS, GROUP_MEMBERS, WAVE = 1000, 10, 100
HEARTBEAT_S, WATCHED_S = 3.0, 9.0
CONNECTIONS = 64
SECONDS = 3.0


def ready(broker: Broker) -> None:
    """Kafka makes its topic at the first question, and leads its partitions some time later."""
    link = Link(broker.address)
    for index in range(ANY_GROUPS):
        group = f"any-{index}"
        asks = [(FIND_COORDINATOR, FindCoordinatorRequest(group, 0)),
                (HEARTBEAT, HeartbeatRequest(group, 0, "nobody"))]
        while any(members.ask(link, *each).error_code in NOT_YET for each in asks):
            time.sleep(0.1)
    link.socket.close()


def quietly(job: Callable[[Broker], Figures], broker: Broker, _: str) -> Figures:
    """Without pauses of our own collector in the figures."""
    gc.disable()
    try:
        return job(broker)
    finally:
        gc.enable()


def rebalance(broker: Broker) -> Figures:
    """Members that are all there join again, all at once: from the first JoinGroup that is sent to
    the last assignment that has come."""
    ready(broker)
    group = f"group-{time.time_ns()}"
    each = [Member(Link(broker.address), group) for _ in range(MEMBERS)]
    members.form([each])
    cpu, took = broker.cpu_seconds(), []
    for _ in range(REBALANCES):
        again = Rebalance(each)
        begin = time.perf_counter()
        again.join()
        again.sync()
        again.end()
        took.append((time.perf_counter() - begin) * 1000)
    cpu = broker.cpu_seconds() - cpu
    for one in each:
        one.link.socket.close()
    return {"ms": statistics.median(took), "cpu ms": cpu / len(took) * 1000}


def heartbeats(broker: Broker) -> Figures:
    """Each member beats every three seconds, as clients do."""
    ready(broker)
    links = [Link(broker.address) for _ in range(WAVE * GROUP_MEMBERS)]
    everybody: list[Member] = []
    for number in range(GROUPS // WAVE):
        names = [f"group-{time.time_ns()}-{number}-{index}" for index in range(WAVE)]
        wave = [[Member(link, name) for link in links[index::WAVE]]
                for index, name in enumerate(names)]
        members.form(wave)
        everybody += [each for part in wave for each in part]
    cpu, begin = broker.cpu_seconds(), time.perf_counter()
    latencies = sorted(beat(everybody))
    took, cpu = time.perf_counter() - begin, broker.cpu_seconds() - cpu
    for link in links:
        link.socket.close()
    return {"heartbeats/s": len(latencies) / took, "p50 ms": latencies[len(latencies) // 2],
            "p99 ms": latencies[len(latencies) * 99 // 100],
            "cpu us/heartbeat": cpu / len(latencies) * 1e6}


def beat(everybody: Sequence[Member]) -> list[float]:
    """The latencies in milliseconds, each counted from when the beat was due."""
    frames = [(each.link, each.heartbeat_frame()) for each in everybody]
    links = {each.link.socket.fileno(): each.link for each in everybody}
    asked: dict[int, deque[float]] = {each: deque() for each in links}
    latencies: list[float] = []
    poll = select.epoll()
    for each in links:
        poll.register(each, select.EPOLLIN)
    begin, sent = time.perf_counter(), 0
    while len(latencies) < len(frames) * WATCHED_S / HEARTBEAT_S:
        due = begin + HEARTBEAT_S * sent / len(frames)
        wait_s = due - time.perf_counter()
        if due - begin < WATCHED_S and wait_s <= 0:
            link, frame = frames[sent % len(frames)]
            link.send(frame)
            asked[link.socket.fileno()].append(due)
            sent += 1
        for each, _ in poll.poll(max(0, wait_s) if due - begin < WATCHED_S else None):
            for told in links[each].answers():
                members.must_be_0(told, "Heartbeat")
                latencies.append((time.perf_counter() - asked[each].popleft()) * 1000)
    poll.close()
    return latencies


def commits(broker: Broker, topic: str, depth: int) -> Figures:
    ready(broker)
    cpu = broker.cpu_seconds()
    told = clients.probe_commit(broker.address, topic, CONNECTIONS, CONNECTIONS, depth, SECONDS)
    return {"commits/s": told["answers"] / told["seconds"], "p50 us": told["answer_p50_us"],
            "p99 us": told["answer_p99_us"],
            "cpu us/commit": (broker.cpu_seconds() - cpu) / told["answers"] * 1e6}


def offset_fetches(broker: Broker, topic: str) -> Figures:
    ready(broker)
    clients.probe_commit(broker.address, topic, 1, 1, 1, 0.1)
    told = clients.probe_offset_fetch(broker.address, topic, 1, 1, 1, SECONDS)
    return {"p50 us": told["answer_p50_us"], "p99 us": told["answer_p99_us"]}


# Suites


def rebalances() -> Iterator[Case]:
    yield Case(f"rebalance of {MEMBERS} members", partial(quietly, rebalance), {})


def beats() -> Iterator[Case]:
    yield Case(f"{GROUPS} groups of {GROUP_MEMBERS}", partial(quietly, heartbeats), {})


def offsets() -> Iterator[Case]:
    yield Case(f"OffsetCommit, {CONNECTIONS} x 1", partial(commits, depth=1), {})
    yield Case(f"OffsetCommit, {CONNECTIONS} x 5", partial(commits, depth=5), {})
    yield Case("OffsetFetch, 1 connection", offset_fetches, {})


SUITES: Suites = {each.__name__: each for each in (rebalances, beats, offsets)}

if __name__ == "__main__":
    compare(__doc__, SUITES, {"group.initial.rebalance.delay.ms": "300"})
