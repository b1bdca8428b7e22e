"""Attacks for `measure.py`, each in its own process, for as long as it may run.

An attack continues after closed connections and refusals, as an attacker would.
"""

from __future__ import annotations

import contextlib
import itertools
import resource
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import brotli

from appliance.protocol.messages.create_partitions import CreatePartitionsRequest
from appliance.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest as Alter,
)
from appliance.protocol.messages.init_producer_id import InitProducerIdRequest
from appliance.protocol.messages.join_group import JoinGroupRequest as Join
from appliance.protocol.messages.offset_commit import OffsetCommitRequest as Commit
from tests.hostile.test_log_floods import quotas
from tests.support.http_client import HttpClient
from tests.support.wire_client import WireClient, frame_of

ATTACKERS = [f"127.0.200.{number}" for number in range(1, 5)]
TOPIC = "attacked"
LONG, LONGEST = 1000, 30_000  # sizes of names: allowed, and too long
GOES_WRONG = (OSError, EOFError, ValueError)  # closed, late, or an invalid response


class Target(NamedTuple):
    kafka: tuple[str, int]
    admin: tuple[str, int]
    cookies: list[str]  # of an operator who has logged in


def again_and_again(work: Callable[[], None]) -> None:
    while True:
        with contextlib.suppress(*GOES_WRONG):
            work()
        time.sleep(0.001)


def side_by_side(works: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=again_and_again, args=(each,)) for each in works]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def ask_without_end(
    target: Target, requests: Iterator[tuple[Any, int, int]], at_once: int = 1
) -> None:
    """From four addresses: repeated requests with their key and version."""
    lock = threading.Lock()

    def work(source: str) -> None:
        with WireClient(target.kafka, source=source) as client:
            while True:
                with lock:
                    chosen = list(itertools.islice(requests, at_once))
                for request, key, version in chosen:
                    client.send(frame_of(request, key, version))
                for _ in chosen:
                    client.receive()

    side_by_side([lambda source=each: work(source) for each in ATTACKERS])  # type: ignore[misc]


# Kafka's port


def few_bytes(target: Target) -> None:
    # as many as fit into the broker's address space: each has eight bytes
    row = CreatePartitionsRequest.CreatePartitionsTopic(TOPIC, 500_000_000, [])
    ask_without_end(target, itertools.repeat((CreatePartitionsRequest([row]), 37, 0)))


def lists_of_spaces(target: Target) -> None:
    change = Alter.AlterableConfig("cleanup.policy", 0, "a" + " " * 32_000 + "b")
    request = Alter([Alter.AlterConfigsResource(2, TOPIC, [change])])
    ask_without_end(target, itertools.repeat((request, 44, 1)))


def many_quotas(target: Target) -> None:
    sizes = itertools.cycle([LONGEST, LONG])
    ask_without_end(target, ((quotas(i, size), 49, 1) for i, size in enumerate(sizes)))


def new_offsets(target: Target) -> None:
    parts = [
        Commit.OffsetCommitRequestPartition(0, 5, committed_metadata="m" * 4096) for _ in range(8)
    ]

    def commit(number: int) -> Any:
        name = f"{number}-".ljust(LONG if number % 2 else LONGEST, "g")
        topics = [Commit.OffsetCommitRequestTopic(TOPIC, partitions=parts)]
        return Commit(name, topics=topics, generation_id_or_member_epoch=-1)

    ask_without_end(target, ((commit(i), 8, 8) for i in itertools.count()), 20)


def new_members(target: Target) -> None:
    protocols = [Join.JoinGroupRequestProtocol("range", b"m" * 100_000)]

    def join(number: int) -> Any:
        name = f"{number}-".ljust(LONG, "j")
        return Join(name, 1_800_000, 300_000, "", None, "consumer", protocols)

    ask_without_end(target, ((join(i), 11, 3) for i in itertools.count()), 20)


def new_transactional_ids(target: Target) -> None:
    def begin(number: int) -> Any:
        name = f"{number}-".ljust(LONG if number % 2 else LONGEST, "t")
        return InitProducerIdRequest(name, 60_000)

    ask_without_end(target, ((begin(i), 22, 4) for i in itertools.count()), 20)


def hold(open_one: Callable[[int], Any], count: int) -> None:
    """Keeps this many connections open; reopens closed ones."""
    held: list[Any] = []
    for number in itertools.count():
        with contextlib.suppress(*GOES_WRONG):
            held.append(open_one(number))
        if len(held) > count:
            held.pop(0).socket.close()
            time.sleep(0.002)


def all_connections(target: Target) -> None:
    hold(lambda _: WireClient(target.kafka, source=ATTACKERS[0]), 10_500)


# The admin port


def bombs(target: Target) -> None:
    bomb = brotli.compress(b"0" * (64 << 20), quality=1)

    def work() -> None:
        with HttpClient(target.admin) as client:
            client.ask("POST /api/v1/login", bomb, ["Content-Encoding: br"])

    side_by_side([work] * 3)


def half_heads(target: Target, count: int = 1125) -> None:
    def open_one(number: int) -> HttpClient:
        client = HttpClient(target.admin, f"127.0.{200 + number % 20}.2")
        client.send(b"GET /livez HTTP/1.1\r\nX-A: ")
        return client

    hold(open_one, count)


def large_heads(target: Target) -> None:
    piece = b"".join(b"X-%d: " % number + b"a" * 8000 + b"\r\n" for number in range(125))

    def open_one(number: int) -> HttpClient:
        client = HttpClient(target.admin, f"127.0.{200 + number % 20}.3")
        client.send(b"GET /livez HTTP/1.1\r\n" + piece)
        return client

    hold(open_one, 200)


def malformed(target: Target) -> None:
    def work() -> None:
        with HttpClient(target.admin) as client:
            client.send(b"GET / HTTP/1.1\r\n: x\r\n\r\n")
            client.answer()

    side_by_side([work] * 4)


def pattern(target: Target) -> None:
    with WireClient(target.kafka) as client:
        client.create_topic("a" * 40 + "-")
    definition = {"pattern": "(a+)+$", "target": "/nowhere"}

    def work() -> None:
        with HttpClient(target.admin) as client:
            client.ask("PUT /api/v1/exports/slow", definition, target.cookies)
            client.ask("GET /api/v1/exports", headers=target.cookies)

    side_by_side([work])


def logouts(target: Target) -> None:
    def work() -> None:
        with HttpClient(target.admin) as client:
            while True:
                client.ask("POST /api/v1/logout", b"")

    side_by_side([work] * 4)


def guesses(target: Target) -> None:
    """Half of the guesses from one address, all with one name."""
    serial = itertools.count()

    def work() -> None:
        number = next(serial)
        source = f"127.0.{200 + number % 50}.4" if number % 2 else ATTACKERS[0]
        with HttpClient(target.admin, source, 60) as client:
            client.ask("POST /api/v1/login", {"name": "ada", "password": "x" * 12})

    side_by_side([work] * 32)


ATTACKS: dict[str, Callable[[Target], None]] = {
    "nothing": lambda target: time.sleep(3600),
    "36 bytes": few_bytes,
    "lists of spaces": lists_of_spaces,
    "quotas of 2 MB": many_quotas,
    "offsets of new groups": new_offsets,
    "members of new groups": new_members,
    "new transactional ids": new_transactional_ids,
    "10,500 connections of one address": all_connections,
    "brotli bombs": bombs,
    "1,125 half heads": half_heads,
    "2,000 half heads, 1,024 descriptors": lambda target: half_heads(target, 2000),
    "200 heads of 1 MB": large_heads,
    "malformed requests": malformed,
    "a pattern that backtracks": pattern,
    "logouts": logouts,
    "32 guesses at a time": guesses,
}


def attack(name: str, target: Target) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    ATTACKS[name](target)
