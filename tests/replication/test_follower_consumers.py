"""Consumers of librdkafka that say where they are, and three brokers in three racks."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from appliance.config.replication import RACK_AWARE
from appliance.zookeeper.server import ZooKeeperServer
from tests.support.three_brokers import Brokers, brokers

RACKS = {1: "a", 2: "b", 3: "c"}
DEADLINE_S = 60.0


class Reader:
    """`served_by`: the broker that its partition is fetched from, as the library tells."""

    def __init__(self, cluster: Brokers, rack: str) -> None:
        self.served_by = -1
        self.values: list[str] = []
        self._client = Consumer({
            "bootstrap.servers": cluster.bootstrap, "group.id": f"in-{rack}",
            "auto.offset.reset": "earliest", "client.rack": rack,
            "statistics.interval.ms": 100, "stats_cb": self._look,
        })  # fmt: skip
        self._client.subscribe(["t"])

    def _look(self, text: str) -> None:
        parts: dict[str, Any] = json.loads(text)["topics"].get("t", {}).get("partitions", {})
        if "0" in parts:
            self.served_by = parts["0"]["broker"]

    def read_until(self, count: int, served_by: set[int]) -> None:
        end = time.monotonic() + DEADLINE_S
        while len(self.values) < count or self.served_by not in served_by:
            assert time.monotonic() < end, (self.values, self.served_by)
            message = self._client.poll(0.1)
            if message is not None and message.error() is None:
                self.values.append(message.value().decode())

    def close(self) -> None:
        self._client.close()


@pytest.fixture
def three(
    server: ZooKeeperServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Brokers]:
    root = "/tests/" + re.sub(r"\W", "-", request.node.name)
    with brokers(server, root, tmp_path) as found:
        for node, rack in RACKS.items():
            found.start(node, **{"broker.rack": rack, "replica.selector.class": RACK_AWARE})
        yield found


@pytest.mark.release("three brokers; tests/network/test_follower_reads.py has two")
def test_a_consumer_is_served_in_its_rack_and_goes_on_when_that_broker_goes(three: Brokers) -> None:
    three.create("t", min_insync_replicas="2")
    found = three.until("t", lambda each: len(each.isrs) == 3)
    follower = next(each for each in RACKS if each != found.leader)
    reader = Reader(three, RACKS[follower])
    three.produce("t", ["a", "b"])
    reader.read_until(2, {follower})
    three.produce("t", ["c"])
    reader.read_until(3, {follower})
    three.stop(follower, signal.SIGKILL)
    three.produce("t", ["d"])
    reader.read_until(4, {*RACKS} - {follower})
    three.start(follower, **{
        "broker.rack": RACKS[follower], "replica.selector.class": RACK_AWARE,
    })  # fmt: skip
    three.until("t", lambda each: len(each.isrs) == 3)
    three.produce("t", ["e"])
    reader.read_until(5, {*RACKS})
    assert reader.values == ["a", "b", "c", "d", "e"]
    reader.close()
