"""Clients that reach the broker only through something that passes connections on, as a balancer
of layer 4 does: docs/operations.md, "Behind a balancer"."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import confluent_kafka as ck
import pytest

from appliance.client import Producer, ProducerConfig
from appliance.client.config import ClientConfig
from appliance.mirror.site import GROUP, Site
from appliance.testing import RunningBroker, running_broker
from tests.support.frame_relay import FrameRelay

PRODUCE, FETCH, METADATA, FIND_COORDINATOR, JOIN_GROUP = 0, 1, 3, 10, 11
WAIT_S = 30.0


class Balancer(FrameRelay):
    def __init__(self) -> None:
        self.asked: set[int] = set()
        self.connections = 0
        super().__init__(lambda frame: self.asked.add(int.from_bytes(frame[:2], "big")))

    def _serve(self, client: object) -> None:
        self.connections += 1
        super()._serve(client)  # type: ignore[arg-type]

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


@pytest.fixture
def balancer() -> Iterator[Balancer]:
    with Balancer() as made:
        yield made


@pytest.fixture
def broker(balancer: Balancer, tmp_path: Path) -> Iterator[RunningBroker]:
    settings = {"advertised.listeners": balancer.address, "group.initial.rebalance.delay.ms": "0"}
    with running_broker(tmp_path / "data", settings) as running:
        host, _, port = running.bootstrap.rpartition(":")
        assert int(port) != balancer.port
        balancer.broker = (host, int(port))
        yield running


def test_all_that_clients_are_told_leads_through_it(
    balancer: Balancer, broker: RunningBroker
) -> None:
    producer = ck.Producer({"bootstrap.servers": balancer.address})
    producer.produce("t", b"through it")
    assert producer.flush(WAIT_S) == 0
    told = producer.list_topics(timeout=WAIT_S).brokers.values()
    assert [(each.host, each.port) for each in told] == [("127.0.0.1", balancer.port)]
    consumer = ck.Consumer({"bootstrap.servers": balancer.address, "group.id": "g",
                            "auto.offset.reset": "earliest"})  # fmt: skip
    with closing(consumer):
        consumer.subscribe(["t"])
        (message,) = consumer.consume(1, WAIT_S)
        assert message.value() == b"through it"
    assert {PRODUCE, FETCH, METADATA, FIND_COORDINATOR, JOIN_GROUP} <= balancer.asked
    with closing(Site(ClientConfig(broker_list=balancer.address))) as site:
        coordinator = site.find_coordinator("g", GROUP)
    assert (coordinator.host, coordinator.port) == ("127.0.0.1", balancer.port)
    with Producer(ProducerConfig(broker_list=balancer.address)) as ours:
        (outcome,) = ours.send("t", [b"ours"])
        assert outcome.is_acknowledged


def test_a_client_opens_more_than_one_connection(
    balancer: Balancer, broker: RunningBroker
) -> None:
    """So a balancer that chooses a box for each of them must have one box to choose."""
    with Producer(ProducerConfig(broker_list=balancer.address)) as ours:
        ours.send("t", [b"x"])
        assert balancer.connections == 2, "metadata, and data"
    before = balancer.connections
    producer = ck.Producer({"bootstrap.servers": balancer.address})
    producer.produce("t", b"x")
    assert producer.flush(WAIT_S) == 0
    assert balancer.connections - before == 2
