"""Well formed requests with numbers that no client would send, at a broker of a cluster: there
other code answers what is about partitions, groups, transactions and share groups, and brokers ask
things of each other that a client with their right may ask, too."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from appliance.api.handlers import HANDLERS
from appliance.protocol import API
from appliance.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from appliance.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tests.hostile.conftest import SETTINGS
from tests.hostile.generator import Ground, ground, requests_at_their_extremes
from tests.support.serving import Serving
from tests.support.wire_client import WireClient, frame_of
from tests.support.zookeeper import serving_zookeeper_in

ANSWER_S = 10.0
GROUP, TRANSACTIONAL_ID = 0, 1
FIND_COORDINATOR, ALTER_SHARE_GROUP_OFFSETS = 10, 91
OF_ITSELF = {64}  # UnregisterBroker: the same as at one box


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Alone in its cluster."""
    folder = tmp_path_factory.mktemp("member")
    internal = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    settings: dict[str, Any] = {**SETTINGS, **{f"{each}.num.partitions": 1 for each in internal}}
    with serving_zookeeper_in(folder / "zookeeper") as zookeeper:
        settings["zookeeper.connect"] = f"{zookeeper.address}/hostile"
        made = Serving(folder / "broker", **settings)
        yield made
        assert made.stop() == 0, made.log[-3000:]


@pytest.fixture(scope="module")
def about(member: Serving) -> Ground:
    """With coordinators, and the state of a share partition."""
    made = ground(member.kafka)
    with WireClient(member.kafka, timeout=ANSWER_S) as client:
        for kind in (GROUP, TRANSACTIONAL_ID):
            wanted = FindCoordinatorRequest(key_type=kind, coordinator_keys=["fuzz"])
            client.send(frame_of(wanted, FIND_COORDINATOR, 4))
            client.answer(FindCoordinatorResponse, FIND_COORDINATOR, 4)
        of = AlterShareGroupOffsetsRequest
        part = of.AlterShareGroupOffsetsRequestPartition(0, 0)
        asked = of("fuzz", [of.AlterShareGroupOffsetsRequestTopic(made.topic, [part])])
        end = time.monotonic() + 3 * ANSWER_S
        while True:  # it comes to lead what it has just made
            client.send(frame_of(asked, ALTER_SHARE_GROUP_OFFSETS, 0))
            found = client.answer(AlterShareGroupOffsetsResponse, ALTER_SHARE_GROUP_OFFSETS, 0)
            if found.error_code == 0:
                break
            assert time.monotonic() < end, found
            time.sleep(0.05)
    assert [row.error_code for each in found.responses for row in each.partitions] == [0]
    return made


def ask(member: Serving, about: Ground, key: int) -> None:
    _, version = HANDLERS[key].VERSIONS
    for what, request in requests_at_their_extremes(key, version, about):
        with WireClient(member.kafka, timeout=ANSWER_S) as client:
            client.send(frame_of(request, key, version))
            if getattr(request, "max_wait_ms", 0) > 1000 or getattr(request, "acks", 1) == 0:
                continue  # the client sets the time that it waits for records
            try:
                client.receive()
            except (EOFError, ConnectionError):
                pass
            except TimeoutError:
                pytest.fail(f"no answer within {ANSWER_S:.0f} s: {what}")


def test_numbers_at_a_broker_of_a_cluster(member: Serving, about: Ground) -> None:
    """Each gets a response in time or ends its connection."""
    for key in sorted(HANDLERS.keys() - OF_ITSELF):
        before = len(member.log)
        ask(member, about, key)
        assert "Traceback" not in member.log[before:], (API[key].name, member.log[before:][:3000])
    assert member.process.poll() is None
