"""Several listeners: each client is told the address of the one that it came to."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest

from appliance.broker.health import of_listeners
from appliance.config import load
from appliance.errors import ListenFailed
from appliance.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from appliance.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from appliance.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from appliance.protocol.messages.metadata import MetadataRequest, MetadataResponse
from appliance.testing import RunningBroker, running_broker
from tests.support.wire_client import WireClient, frame_of

SETTINGS = {
    "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.2:0",
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    "advertised.listeners": "OUTSIDE://box.example:9093",
}


def listeners(broker: RunningBroker) -> dict[str, str]:
    with urllib.request.urlopen(f"http://{broker.admin}/api/v1/health") as answer:
        found: dict[str, str] = json.load(answer)["listeners"]
    return found


def told(address: str) -> set[tuple[str, int]]:
    """By the APIs that tell clients where a broker is."""
    host, _, port = address.rpartition(":")
    with WireClient((host, int(port))) as client:
        client.send(frame_of(MetadataRequest(topics=[]), 3, 9))
        (row,) = client.answer(MetadataResponse, 3, 9).brokers
        client.send(frame_of(DescribeClusterRequest(), 60, 1))
        (broker,) = client.answer(DescribeClusterResponse, 60, 1).brokers
        client.send(frame_of(FindCoordinatorRequest(coordinator_keys=["g"]), 10, 4))
        (found,) = client.answer(FindCoordinatorResponse, 10, 4).coordinators
    return {(it.host, it.port) for it in (row, broker, found)}


def test_clients_are_told_the_address_of_their_listener(tmp_path: Path) -> None:
    with running_broker(tmp_path, SETTINGS) as broker:
        found = listeners(broker)
        assert found["kafka"] == broker.bootstrap
        host, _, port = broker.bootstrap.rpartition(":")
        assert told(broker.bootstrap) == {(host, int(port))} != {("127.0.0.2", 0)}
        assert found["kafka OUTSIDE"].startswith("127.0.0.2:")
        assert told(found["kafka OUTSIDE"]) == {("box.example", 9093)}


def test_all_listeners_are_described(tmp_path: Path) -> None:
    with running_broker(tmp_path, SETTINGS) as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        with WireClient((host, int(port))) as client:
            client.send(frame_of(DescribeQuorumRequest(topics=[]), 55, 2))
            (node,) = client.answer(DescribeQuorumResponse, 55, 2).nodes
    assert [(it.name, it.host, it.port) for it in node.listeners] == [
        ("INSIDE", host, int(port)), ("OUTSIDE", "box.example", 9093)]


def test_one_that_cannot_be_bound_ends_the_start(tmp_path: Path) -> None:
    with running_broker(tmp_path / "first") as broker:
        settings = {"listeners": f"127.0.0.1:0,{broker.bootstrap}"}
        wanted = f"listeners: {broker.bootstrap}: Address already in use"
        with (
            pytest.raises(ListenFailed, match=wanted), running_broker(tmp_path / "second", settings)
        ):
            pass


def test_an_open_listener_is_told_of_by_health() -> None:
    settings = ["allow.open.listeners=true", "listeners=127.0.0.1:1,10.1.1.1:2"]
    (finding,) = of_listeners(load(pairs=settings))
    assert (finding.level, finding.area) == ("degraded", "listeners")
    assert finding.text.startswith("whoever reaches PLAINTEXT://10.1.1.1:2 may read, write and")
