"""Consumer groups: rebalances, heartbeats, commits.

Both brokers have the same clients, which cost little (`peers/members.py`, `peers/probe.c`). Our
broker acknowledges assignments and commits when they are durable, Kafka when they are in the page
cache.
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
from bench.peers import clients, members
from bench.peers.brokers import Broker
from bench.peers.members import HEARTBEAT, Link, Member, Rebalance
from bench.peers.turns import Case, Figures
from bench.run_size import Extent

FIND_COORDINATOR = (10, 3)
NOT_YET = (14, 15, 16)  # the coordinator loads, is not available, or is another broker
ANY_GROUPS = 300  # enough for a group in each partition of __consumer_offsets
MEMBERS = (10, 100, 500)
REBALANCES = 10
GROUPS, GROUP_MEMBERS, WAVE = 1000, 10, 100
HEARTBEAT_S, WATCHED_S = 3.0, 9.0
CONNECTIONS = 64
SECONDS = 3.0
# Members join one by one, and all must be in the first generation of a new group.
SETTINGS = {"group.initial.rebalance.delay.ms": "300"}


def ready(broker: Broker) -> None:
    """Kafka creates __consumer_offsets at the first request; its partitions have leaders later."""
    link = Link(broker.address)
    for index in range(ANY_GROUPS):
        group = f"any-{index}"
        requests = [(FIND_COORDINATOR, FindCoordinatorRequest(group, 0)),
                    (HEARTBEAT, HeartbeatRequest(group, 0, "nobody"))]
        while any(members.ask(link, *request).error_code in NOT_YET for request in requests):
            time.sleep(0.1)
    link.socket.close()


def quietly(broker: Broker, _: str, job: Callable[[Broker], Figures]) -> Figures:
    """Runs the job without garbage collection in this process, whose pauses would count."""
    gc.disable()
    try:
        return job(broker)
    finally:
        gc.enable()


def rebalance(broker: Broker, count: int) -> Figures:
    """All members of a group join again at once: from the first JoinGroup request to the last
    response with an assignment."""
    ready(broker)
    group = f"group-{time.time_ns()}"
    joined = [Member(Link(broker.address), group) for _ in range(count)]
    members.form([joined])
    cpu, took = broker.cpu_seconds(), []
    for _ in range(REBALANCES):
        again = Rebalance(joined)
        begin = time.perf_counter()
        again.join()
        again.sync()
        again.end()
        took.append((time.perf_counter() - begin) * 1000)
    cpu = broker.cpu_seconds() - cpu
    for member in joined:
        member.link.socket.close()
    return {"ms": statistics.median(took), "cpu ms": cpu / len(took) * 1000}


def heartbeats(broker: Broker) -> Figures:
    """Each member sends a heartbeat every three seconds, as clients do."""
    ready(broker)
    links = [Link(broker.address) for _ in range(WAVE * GROUP_MEMBERS)]
    all_members: list[Member] = []
    for number in range(GROUPS // WAVE):
        names = [f"group-{time.time_ns()}-{number}-{index}" for index in range(WAVE)]
        wave = [[Member(link, name) for link in links[index::WAVE]]
                for index, name in enumerate(names)]
        members.form(wave)
        all_members += [member for group in wave for member in group]
    cpu, begin = broker.cpu_seconds(), time.perf_counter()
    latencies = sorted(beat(all_members))
    took, cpu = time.perf_counter() - begin, broker.cpu_seconds() - cpu
    for link in links:
        link.socket.close()
    return {"heartbeats/s": len(latencies) / took, "p50 ms": latencies[len(latencies) // 2],
            "p99 ms": latencies[len(latencies) * 99 // 100],
            "cpu us/heartbeat": cpu / len(latencies) * 1e6}


def beat(all_members: Sequence[Member]) -> list[float]:
    """The latencies in milliseconds, each from the time when the heartbeat was due."""
    frames = [(member.link, member.heartbeat_frame()) for member in all_members]
    links = {member.link.socket.fileno(): member.link for member in all_members}
    dues: dict[int, deque[float]] = {fd: deque() for fd in links}
    latencies: list[float] = []
    poll = select.epoll()
    for fd in links:
        poll.register(fd, select.EPOLLIN)
    begin, sent = time.perf_counter(), 0
    while len(latencies) < len(frames) * WATCHED_S / HEARTBEAT_S:
        due = begin + HEARTBEAT_S * sent / len(frames)
        wait_s = due - time.perf_counter()
        if due - begin < WATCHED_S and wait_s <= 0:
            link, frame = frames[sent % len(frames)]
            link.send(frame)
            dues[link.socket.fileno()].append(due)
            sent += 1
        for fd, _ in poll.poll(max(0, wait_s) if due - begin < WATCHED_S else None):
            for response in links[fd].answers():
                members.must_be_0(response, "Heartbeat")
                latencies.append((time.perf_counter() - dues[fd].popleft()) * 1000)
    poll.close()
    return latencies


def commits(broker: Broker, topic: str, depth: int, seconds: float) -> Figures:
    ready(broker)
    cpu = broker.cpu_seconds()
    probe = clients.probe_commit(broker.address, topic, CONNECTIONS, CONNECTIONS, depth, seconds)
    return {"commits/s": probe["answers"] / probe["seconds"], "p50 us": probe["answer_p50_us"],
            "p99 us": probe["answer_p99_us"],
            "cpu us/commit": (broker.cpu_seconds() - cpu) / probe["answers"] * 1e6}


def offset_fetches(broker: Broker, topic: str, seconds: float) -> Figures:
    ready(broker)
    clients.probe_commit(broker.address, topic, 1, 1, 1, 0.1)
    probe = clients.probe_offset_fetch(broker.address, topic, 1, 1, 1, seconds)
    return {"p50 us": probe["answer_p50_us"], "p99 us": probe["answer_p99_us"]}


def groups(extent: Extent) -> Iterator[Case]:
    """Groups rebalance, send heartbeats and commit; our responses are durable, Kafka's are not."""
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
