"""Consumer groups: rebalances, heartbeats, commits.

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

from appliance.protocol.messages.find_coordinator import FindCoordinatorRequest
from appliance.protocol.messages.heartbeat import HeartbeatRequest
from bench.extent import Extent
from bench.peers import clients, members
from bench.peers.brokers import Broker
from bench.peers.members import HEARTBEAT, Link, Member, Rebalance
from bench.peers.turns import Case, Figures

FIND_COORDINATOR = (10, 3)
NOT_YET = (14, 15, 16)  # the coordinator loads, is not available, is elsewhere
ANY_GROUPS = 300  # so many that each partition of offsets has some
MEMBERS = (10, 100, 500)
REBALANCES = 10
GROUPS, GROUP_MEMBERS, WAVE = 1000, 10, 100
HEARTBEAT_S, WATCHED_S = 3.0, 9.0
CONNECTIONS = 64
SECONDS = 3.0
# Members that come one by one must all be there when a group is made anew
SETTINGS = {"group.initial.rebalance.delay.ms": "300"}


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


def quietly(broker: Broker, _: str, job: Callable[[Broker], Figures]) -> Figures:
    """Without pauses of our own collector in the figures."""
    gc.disable()
    try:
        return job(broker)
    finally:
        gc.enable()


def rebalance(broker: Broker, count: int) -> Figures:
    """Members that are all there join again, all at once: from the first JoinGroup that is sent to
    the last assignment that has come."""
    ready(broker)
    group = f"group-{time.time_ns()}"
    each = [Member(Link(broker.address), group) for _ in range(count)]
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


def commits(broker: Broker, topic: str, depth: int, seconds: float) -> Figures:
    ready(broker)
    cpu = broker.cpu_seconds()
    told = clients.probe_commit(broker.address, topic, CONNECTIONS, CONNECTIONS, depth, seconds)
    return {"commits/s": told["answers"] / told["seconds"], "p50 us": told["answer_p50_us"],
            "p99 us": told["answer_p99_us"],
            "cpu us/commit": (broker.cpu_seconds() - cpu) / told["answers"] * 1e6}


def offset_fetches(broker: Broker, topic: str, seconds: float) -> Figures:
    ready(broker)
    clients.probe_commit(broker.address, topic, 1, 1, 1, 0.1)
    told = clients.probe_offset_fetch(broker.address, topic, 1, 1, 1, seconds)
    return {"p50 us": told["answer_p50_us"], "p99 us": told["answer_p99_us"]}


def groups(extent: Extent) -> Iterator[Case]:
    """Groups that rebalance, beat and commit; what ours answers is on disk, Kafka's is not."""
    seconds = extent.seconds(SECONDS)
    for count in MEMBERS:
        yield Case(f"rebalance of {count} members",
                   partial(quietly, job=partial(rebalance, count=count)), {}, settings=SETTINGS)
    yield Case(f"{GROUPS} groups of {GROUP_MEMBERS}", partial(quietly, job=heartbeats), {},
               rounds=extent.long_rounds, weight=3, settings=SETTINGS)
    for depth in (1, 5):
        yield Case(f"OffsetCommit, {CONNECTIONS} x {depth}",
                   partial(commits, depth=depth, seconds=seconds), {}, settings=SETTINGS)
    yield Case("OffsetFetch, 1 connection", partial(offset_fetches, seconds=seconds), {},
               settings=SETTINGS)
