"""Consumer groups beside Apache Kafka: rebalances, heartbeats, commits, A B A B, medians.

    python -m bench.groups [SUITE ...] [--rounds 5] [--json FILE]

The members are connections of one asyncio process and share its core with the broker; both brokers
have the same ones. Commits are durable on ours; Kafka answers them from the page cache.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import statistics
import struct
import time
from collections.abc import Coroutine, Iterator, Sequence
from functools import partial
from typing import Any

from appliance.wire import API, codec, headers
from appliance.wire.find_coordinator import FindCoordinatorRequest
from appliance.wire.heartbeat import HeartbeatRequest
from appliance.wire.join_group import JoinGroupRequest
from appliance.wire.sync_group import SyncGroupRequest
from bench.peers import clients
from bench.peers.brokers import Broker
from bench.peers.turns import Case, Figures, Suites, compare

FIND_COORDINATOR, JOIN, SYNC, HEARTBEAT = (10, 3), (11, 5), (14, 3), (12, 3)
REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED = 27, 79
NOT_YET = (14, 15, 16)  # the coordinator loads, is not available, is elsewhere
ANY_GROUPS = 300  # so many that each partition of offsets has some
MEMBERS = 100
REBALANCES = 5
GROUPS, GROUP_MEMBERS, WAVE = 1000, 10, 100
HEARTBEAT_S, WATCHED_S = 3.0, 9.0
CONNECTIONS = 64
SECONDS = 3.0
names = itertools.count()


class Connection:
    """Answers come in the order of the requests, so each waits for its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._turn = asyncio.Lock()

    @classmethod
    async def to(cls, address: str) -> Connection:
        host, _, port = address.partition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    async def ask(self, key_version: tuple[int, int], request: Any) -> Any:
        key, version = key_version
        header = headers.RequestHeader(key, version, 1, "bench")
        frame = headers.encode_request(header) + codec.encode(request, version)
        async with self._turn:
            self._writer.write(struct.pack(">i", len(frame)) + frame)
            (size,) = struct.unpack(">i", await self._reader.readexactly(4))
            answer = await self._reader.readexactly(size)
        _, body = headers.decode_response(answer, key, version)
        return codec.decode(API[key].response, body, version)

    def close(self) -> None:
        self._writer.close()


class Member:
    def __init__(self, connection: Connection, group: str) -> None:
        self.connection, self.group = connection, group
        self.id, self.generation = "", -1

    async def join(self) -> None:
        """Into the next generation, assignment and all."""
        told = await self._sync(await self._join())
        while told.error_code == REBALANCE_IN_PROGRESS:
            told = await self._sync(await self._join())
        must_be_0(told.error_code, "SyncGroup")

    async def _join(self) -> Any:
        protocol = JoinGroupRequest.JoinGroupRequestProtocol("range", b"what it wants")
        for _ in range(2):  # at first without an id, which it is told
            told = await self.connection.ask(JOIN, JoinGroupRequest(
                self.group, 30_000, 30_000, self.id, None, "bench", [protocol]))
            self.id = told.member_id
            if told.error_code != MEMBER_ID_REQUIRED:
                break
        must_be_0(told.error_code, "JoinGroup")
        self.generation = told.generation_id
        return told

    async def _sync(self, joined: Any) -> Any:
        shares = [SyncGroupRequest.SyncGroupRequestAssignment(each.member_id, b"what it gets")
                  for each in joined.members]
        return await self.connection.ask(SYNC, SyncGroupRequest(
            self.group, self.generation, self.id, assignments=shares))

    async def heartbeat(self) -> int:
        told = await self.connection.ask(HEARTBEAT, HeartbeatRequest(
            self.group, self.generation, self.id))
        return int(told.error_code)

    async def settle(self, members: Sequence[Member]) -> None:
        """Until all are in one generation: the first ones may have begun one without the others."""
        await self.join()
        while len({each.generation for each in members}) > 1:
            await asyncio.sleep(0.05)
            if await self.heartbeat() == REBALANCE_IN_PROGRESS:
                await self.join()


async def form(members: Sequence[Member]) -> None:
    await asyncio.gather(*[each.settle(members) for each in members])


def must_be_0(code: int, what: str) -> None:
    if code:
        raise ValueError(f"{what} answered error {code}")


async def ready(broker: Broker) -> None:
    """Kafka makes its topic at the first question, and leads its partitions some time later."""
    connection = await Connection.to(broker.address)
    for index in range(ANY_GROUPS):
        group = f"any-{index}"
        while True:
            found = await connection.ask(FIND_COORDINATOR, FindCoordinatorRequest(group, 0))
            told = await connection.ask(HEARTBEAT, HeartbeatRequest(group, 0, "nobody"))
            if found.error_code not in NOT_YET and told.error_code not in NOT_YET:
                break
            await asyncio.sleep(0.1)
    connection.close()


def quietly(job: Coroutine[Any, Any, Figures]) -> Figures:
    """Without pauses of our own collector in the figures."""
    gc.disable()
    try:
        return asyncio.run(job)
    finally:
        gc.enable()


async def rebalance(broker: Broker) -> Figures:
    """Members that are all there join again, all at once."""
    await ready(broker)
    group = f"group-{next(names)}"
    members = [Member(await Connection.to(broker.address), group) for _ in range(MEMBERS)]
    await form(members)
    cpu, took = broker.cpu_seconds(), []
    for _ in range(REBALANCES):
        begin = time.perf_counter()
        await asyncio.gather(*[each.join() for each in members])
        took.append((time.perf_counter() - begin) * 1000)
    cpu = broker.cpu_seconds() - cpu
    for each in members:
        each.connection.close()
    return {"ms": statistics.median(took), "cpu ms": cpu / len(took) * 1000}


async def heartbeats(broker: Broker) -> Figures:
    """Each member beats every three seconds, as clients do."""
    await ready(broker)
    connections = [await Connection.to(broker.address) for _ in range(WAVE * GROUP_MEMBERS)]
    members: list[Member] = []
    for _ in range(GROUPS // WAVE):
        wave = [Member(each, f"group-{next(names)}") for each in connections]
        parts = [wave[index::WAVE] for index in range(WAVE)]
        for part in parts:
            for each in part:
                each.group = part[0].group
        await asyncio.gather(*[form(part) for part in parts])
        members += wave
    latencies: list[float] = []
    cpu, begin = broker.cpu_seconds(), time.perf_counter()
    await asyncio.gather(*[beat(each, begin, HEARTBEAT_S * index / len(members), latencies)
                           for index, each in enumerate(members)])
    took, cpu = time.perf_counter() - begin, broker.cpu_seconds() - cpu
    for connection in connections:
        connection.close()
    latencies.sort()
    return {"heartbeats/s": len(latencies) / took, "p50 ms": latencies[len(latencies) // 2],
            "p99 ms": latencies[len(latencies) * 99 // 100],
            "cpu us/heartbeat": cpu / len(latencies) * 1e6}


async def beat(member: Member, begin: float, first_s: float, latencies: list[float]) -> None:
    """Counted from when the beat was due."""
    due = begin + first_s
    while due < begin + WATCHED_S:
        await asyncio.sleep(due - time.perf_counter())
        must_be_0(await member.heartbeat(), "Heartbeat")
        latencies.append((time.perf_counter() - due) * 1000)
        due += HEARTBEAT_S


def commits(broker: Broker, topic: str, depth: int) -> Figures:
    asyncio.run(ready(broker))
    cpu = broker.cpu_seconds()
    told = clients.probe_commit(broker.address, topic, CONNECTIONS, CONNECTIONS, depth, SECONDS)
    return {"commits/s": told["answers"] / told["seconds"], "p50 us": told["answer_p50_us"],
            "p99 us": told["answer_p99_us"],
            "cpu us/commit": (broker.cpu_seconds() - cpu) / told["answers"] * 1e6}


def offset_fetches(broker: Broker, topic: str) -> Figures:
    asyncio.run(ready(broker))
    clients.probe_commit(broker.address, topic, 1, 1, 1, 0.1)
    told = clients.probe_offset_fetch(broker.address, topic, 1, 1, 1, SECONDS)
    return {"p50 us": told["answer_p50_us"], "p99 us": told["answer_p99_us"]}


# Suites


def rebalances() -> Iterator[Case]:
    yield Case(f"rebalance of {MEMBERS} members", lambda broker, _: quietly(rebalance(broker)), {})


def beats() -> Iterator[Case]:
    yield Case(f"{GROUPS} groups of {GROUP_MEMBERS}", lambda broker, _: quietly(heartbeats(broker)),
               {})


def offsets() -> Iterator[Case]:
    yield Case("OffsetCommit, 1 connection", partial(commits, depth=1), {})
    yield Case(f"OffsetCommit, {CONNECTIONS} x 5", partial(commits, depth=5), {})
    yield Case("OffsetFetch, 1 connection", offset_fetches, {})


SUITES: Suites = {each.__name__: each for each in (rebalances, beats, offsets)}

if __name__ == "__main__":
    compare(__doc__, SUITES, {"group.initial.rebalance.delay.ms": "300"})
