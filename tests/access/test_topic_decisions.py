"""Decisions that the data plane keeps: questions in turns, and a whole broker whose rules move."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from appliance.access import topic_decisions
from appliance.access.acls import Operation, ResourceType
from appliance.access.authorizer import Authorizer
from appliance.access.principal import ANONYMOUS, Principal
from appliance.access.topic_decisions import (
    CLUSTER,
    CLUSTER_ACTION,
    DESCRIBE,
    READ,
    WRITE,
    TopicDecisions,
)
from appliance.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from appliance.protocol.messages.fetch import FetchResponse
from appliance.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from appliance.testing import running_broker
from tests.support.small_control import batch
from tests.support.wire_client import WireClient, frame_of

HOST = "127.0.0.1"
REFUSED = 29
ENFORCED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
DENY, LITERAL = 2, 3  # as CreateAcls has them


class Question(NamedTuple):
    connection: int
    slot: int
    principal: str
    host: str
    topics: list[str]


class Keeper:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.asked: list[Question] = []
        self.decided: list[tuple[Any, ...]] = []
        self.woken: list[tuple[int, int]] = []
        self.generations: list[int] = []

    def enforce(self, generation: int) -> None:
        self.generations.append(generation)

    def decide(self, *told: Any) -> None:
        self.decided.append(told)

    def questions(self) -> list[Question]:
        taken, self.asked = self.asked, []
        return taken

    def wake(self, connection: int, slot: int) -> None:
        self.woken.append((connection, slot))


class SmallRules(Authorizer):
    """Allows what is named after who asks."""

    def __init__(self) -> None:
        super().__init__(is_enforced=True)

    def allows(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType,
        name: str,
    ) -> bool:  # fmt: skip
        return name.startswith(principal.name)


@pytest.fixture
def keeper() -> Keeper:
    return Keeper()


def test_nothing_is_told_where_nothing_is_enforced(keeper: Keeper) -> None:
    TopicDecisions(Authorizer()).connect(keeper)
    assert keeper.generations == []


def test_each_generation_is_told(keeper: Keeper) -> None:
    rules = SmallRules()
    TopicDecisions(rules).connect(keeper)
    rules.set_administrators(["root"])
    assert keeper.generations == [1, 2]


def test_handlers_tell_what_they_allow_and_no_refusal(keeper: Keeper) -> None:
    found = TopicDecisions(SmallRules())
    found.connect(keeper)
    alice = Principal("User", "alice")
    found.tell(alice, HOST, WRITE, "alice.orders")
    found.tell(alice, HOST, DESCRIBE, "bob.orders")
    found.tell_id(alice, HOST, "alice-1")
    assert keeper.decided == [
        ("User:alice", HOST, "alice.orders", WRITE, WRITE, 1),
        ("User:alice", HOST, "\0alice-1", WRITE, WRITE, 1),
    ]


def test_questions_are_answered_a_turn_at_a_time(keeper: Keeper) -> None:
    async def run() -> None:
        found = TopicDecisions(SmallRules())
        found.connect(keeper)
        most = topic_decisions.TURN_TOPICS_MAX
        for number in range(3):
            topics = [f"bob.{number}.{each}" for each in range(most)]
            keeper.asked.append(Question(number, 7, "User:bob", HOST, topics))
        found.take_questions()
        assert keeper.woken == [(0, 7)]
        found.take_questions()  # something else came; it takes no turn of its own
        assert keeper.woken == [(0, 7)]
        for _ in range(10):
            await asyncio.sleep(0)
        assert keeper.woken == [(0, 7), (1, 7), (2, 7)]
        assert len(keeper.decided) == 3 * most
        assert {each[3:] for each in keeper.decided} == {(READ, READ, 1)}

    asyncio.run(run())


def test_who_asks_the_same_is_told_once_in_a_turn(keeper: Keeper) -> None:
    async def run() -> None:
        found = TopicDecisions(SmallRules())
        found.connect(keeper)
        for number in range(100):
            keeper.asked.append(Question(number, 1, "User:bob", HOST, ["bob.t", "t"]))
        found.take_questions()
        assert len(keeper.woken) == 100
        assert keeper.decided == [
            ("User:bob", HOST, "bob.t", READ, READ, 1), ("User:bob", HOST, "t", READ, 0, 1)]

    asyncio.run(run())


def test_a_follower_asks_for_the_cluster(keeper: Keeper) -> None:
    async def run() -> None:
        found = TopicDecisions(SmallRules())
        found.connect(keeper)
        for name in ("kafka", "bob"):  # the first is what the cluster's name begins with
            keeper.asked.append(Question(0, 1, f"User:{name}", HOST, [CLUSTER]))
        found.take_questions()
        assert keeper.decided == [
            ("User:kafka", HOST, CLUSTER, CLUSTER_ACTION, CLUSTER_ACTION, 1),
            ("User:bob", HOST, CLUSTER, CLUSTER_ACTION, 0, 1),
        ]

    asyncio.run(run())


# A whole broker

@contextmanager
def served(path: Path) -> Iterator[tuple[str, int]]:
    with running_broker(path, ENFORCED) as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        with WireClient((host, int(port))) as client:
            client.create_topic("t")
        yield host, int(port)


def deny(client: WireClient, operation: Operation) -> None:
    row = CreateAclsRequest.AclCreation(
        int(ResourceType.TOPIC), "t", LITERAL, str(ANONYMOUS), "*", int(operation), DENY)
    client.send(frame_of(CreateAclsRequest(creations=[row]), 30, 3))
    (made,) = client.answer(CreateAclsResponse, 30, 3).results
    assert made.error_code == 0, made


def offset_of(client: WireClient) -> Any:
    part = ListOffsetsRequest.ListOffsetsPartition(timestamp=-1)
    topic = ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[part])
    client.send(frame_of(ListOffsetsRequest(topics=[topic]), 2, 7))
    (found,) = client.answer(ListOffsetsResponse, 2, 7).topics
    return found.partitions[0].offset


def test_who_is_allowed_is_served_by_the_data_plane(tmp_path: Path) -> None:
    with served(tmp_path) as address, WireClient(address) as client:
        for offset in range(3):
            assert client.produce(batch(), acks=-1)[0].base_offset == offset
            assert client.fetch_one(offset).error_code == 0
            assert offset_of(client) == offset + 1


def test_a_rule_ends_a_fetch_that_waits(tmp_path: Path) -> None:
    with served(tmp_path) as address, WireClient(address) as reader, WireClient(address) as other:
        other.produce(batch(), acks=-1)
        assert reader.fetch_one(0).error_code == 0
        reader.send_fetch(1, wait_ms=60_000)
        begin = time.monotonic()
        deny(other, Operation.READ)
        (topic,) = reader.answer(FetchResponse, 1, 12).responses
        assert topic.partitions[0].error_code == REFUSED
        assert time.monotonic() - begin < 20
        assert other.fetch_one(0).error_code == REFUSED
        # a topic with rules is no longer everybody's
        assert other.produce(batch(), acks=-1)[0].error_code == REFUSED
