"""Topics that a mirror writes, as clients and mirrors see them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from appliance.protocol import NO_UUID, ErrorCode
from appliance.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from appliance.protocol.messages.produce import ProduceRequest
from appliance.record import _mirror_batches
from appliance.record._batch import records
from appliance.testing import RunningBroker, running_broker
from tests.support.control import Control
from tests.support.logs import batch
from tests.support.txn_client import TxnClient
from tests.support.wire_client import WireClient

SOURCE = "ZK9fQ2DwT0aq2c1qY9bSUw/0SNs_QOvT4Gm7mGgCz2iQg"
MIRRORED = {"mirror_source": SOURCE}
SET, DELETE = 0, 1


def produce(control: Control, data: bytes, source: str = SOURCE, version: int = 9) -> Any:
    topic_id = control.broker.topics["t"].id if version > 12 else NO_UUID
    row = ProduceRequest.PartitionProduceData(0, data)
    named = ProduceRequest.TopicProduceData("t", topic_id, [row], source)
    answer = control.ask(ProduceRequest(None, -1, 5000, [named]), version)
    return answer.responses[0].partition_responses[0]


@pytest.mark.parametrize("version", range(9, 14))
def test_a_mirror_writes_at_the_offsets_of_its_source(control: Control, version: int) -> None:
    (log,) = control.create("t", **MIRRORED).logs
    data = _mirror_batches.gap(0, 3) + batch("a", base_offset=3) + batch("b", "c", base_offset=4)
    for _ in range(2):
        part = produce(control, data, version=version)
        assert (part.error_code, part.base_offset) == (0, 0)
    assert [(each.offset, each.value) for each in records(log.read(0))] == [
        (3, b"a"), (4, b"b"), (5, b"c")]
    assert log.durable_offset == 6


def test_a_mirror_that_lost_its_place_is_told_the_log_end(control: Control) -> None:
    control.create("t", **MIRRORED)
    part = produce(control, batch("a", base_offset=5))
    assert part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert "log end 0" in part.error_message


@pytest.mark.parametrize("source", ["", "another/topic"])
def test_nobody_else_writes_to_it(control: Control, source: str) -> None:
    (log,) = control.create("t", **MIRRORED).logs
    part = produce(control, batch("a", base_offset=0), source)
    assert part.error_code == ErrorCode.POLICY_VIOLATION
    assert SOURCE in part.error_message
    assert log.log_end_offset == 0


def test_a_mirror_writes_nowhere_else(control: Control) -> None:
    control.create("t")
    part = produce(control, batch("a", base_offset=0))
    assert part.error_code == ErrorCode.POLICY_VIOLATION
    assert "has mirror.source ''" in part.error_message


def test_no_transaction_leaves_a_marker_in_it(control: Control) -> None:
    (log,) = control.create("t", **MIRRORED).logs
    client = TxnClient(control)
    assert client.init() == 0
    assert client.add(("t", 0)) == [ErrorCode.POLICY_VIOLATION]
    assert client.write("a") == ErrorCode.POLICY_VIOLATION
    assert log.log_end_offset == 0


def address_of(broker: RunningBroker) -> tuple[str, int]:
    host, port = broker.bootstrap.rsplit(":", 1)
    return host, int(port)


def alter(control: Control, operation: int, value: str | None = None) -> int:
    config = IncrementalAlterConfigsRequest.AlterableConfig("mirror.source", operation, value)
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(2, "t", [config])
    answer = control.ask(IncrementalAlterConfigsRequest([resource]), 1)
    return int(answer.responses[0].error_code)


def test_once_it_is_no_mirrors_any_more_it_goes_on_where_it_is(control: Control) -> None:
    (log,) = control.create("t", **MIRRORED).logs
    produce(control, batch("a", base_offset=0))
    assert alter(control, DELETE) == 0
    assert produce(control, batch("b"), source="").base_offset == 1
    assert produce(control, batch("c", base_offset=2)).error_code == ErrorCode.POLICY_VIOLATION
    assert [each.value for each in records(log.read(0))] == [b"a", b"b"]


@pytest.mark.parametrize("configs", [{}, {"mirror_source": "other/source"}])
def test_a_topic_does_not_become_a_mirrors(control: Control, configs: dict[str, str]) -> None:
    control.create("t", **configs)
    assert alter(control, SET, SOURCE) == ErrorCode.INVALID_CONFIG


def test_clients_see_the_same_and_the_broker_remembers(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker, WireClient(address_of(broker)) as client:
        client.create_topic("t", **MIRRORED)
        (part,) = client.produce(batch("a"), acks=-1)
        assert part.error_code == ErrorCode.POLICY_VIOLATION
        data = _mirror_batches.gap(0, 7) + batch("b", base_offset=7)
        (part,) = client.produce(data, acks=-1, mirror_source=SOURCE)
        assert part.error_code == 0
    with running_broker(tmp_path) as broker, WireClient(address_of(broker)) as client:
        (part,) = client.produce(batch("a"), acks=-1)
        assert part.error_code == ErrorCode.POLICY_VIOLATION
        (part,) = client.produce(batch("c", base_offset=8), acks=-1, mirror_source=SOURCE)
        assert part.error_code == 0
        found = records(client.fetch_one(0).records)
        assert [(each.offset, each.value) for each in found] == [(7, b"b"), (8, b"c")]
