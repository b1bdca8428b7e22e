"""Configs of groups: their own pace, and its limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from appliance.config import BrokerConfig, ConsumerGroupsConfig, SettingInvalid, load
from appliance.protocol.messages.alter_configs import AlterConfigsRequest
from appliance.protocol.messages.describe_configs import DescribeConfigsRequest
from appliance.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.support.consumer_group_client import Member
from tests.support.control import Control
from tests.support.streams_group_client import Member as StreamsMember
from tests.support.streams_group_client import counting

GROUP = 32


@pytest.fixture
def control(control: Control) -> Control:
    control.create("t", 4)
    return control


def configs(control: Control, group: str = "g") -> dict[str, tuple[str, int]]:
    row = DescribeConfigsRequest.DescribeConfigsResource(GROUP, group, None)
    (answer,) = control.ask(DescribeConfigsRequest([row], include_synonyms=True), 4).results
    assert answer.error_code == 0
    for each in answer.configs:
        assert each.synonyms[0].value == each.value
    return {
        each.name: (each.value, each.config_source)
        for each in answer.configs
        if each.name.startswith("consumer.")
    }


def alter(control: Control, operation: int, **values: str | None) -> Any:
    change = IncrementalAlterConfigsRequest.AlterableConfig
    rows = [change(f"consumer.{k}.ms".replace("_", "."), operation, v) for k, v in values.items()]
    row = IncrementalAlterConfigsRequest.AlterConfigsResource(GROUP, "g", rows)
    (answer,) = control.ask(IncrementalAlterConfigsRequest([row]), 1).responses
    return answer


def test_a_group_of_kafka_streams_has_its_own_copies(tmp_path: Path) -> None:
    """What it sets counts with the next heartbeat, for all members."""
    control = Control(tmp_path)
    control.create("t")
    name = "streams.num.standby.replicas"

    def set_to(value: str) -> Any:
        change = IncrementalAlterConfigsRequest.AlterableConfig(name, 0, value)
        row = IncrementalAlterConfigsRequest.AlterConfigsResource(GROUP, "g", [change])
        (answer,) = control.ask(IncrementalAlterConfigsRequest([row]), 1).responses
        return answer

    members = [StreamsMember(control, each, counting()) for each in ("one", "two")]
    for _ in range(4):
        for each in members:
            each.beat()
        control.run(control.broker.streams_topics.settled())
    assert [each.tasks["standby_tasks"] for each in members] == [{}, {}]
    assert set_to("1").error_code == 0
    for each in (*members, *members):
        each.beat()
    copies = [each.tasks["standby_tasks"] for each in members]
    assert sorted(map(str, copies)) == ["{'1': [0]}", "{}"]
    refused = set_to("3")
    assert refused.error_code == 40
    assert "group.streams.max.standby.replicas, which is 2" in refused.error_message
    control.close()


def test_a_group_has_its_own_pace(tmp_path: Path) -> None:
    control = Control(tmp_path)
    control.create("t")
    session, heartbeat = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
    assert configs(control) == {session: ("45000", 5), heartbeat: ("5000", 5)}
    assert alter(control, 0, heartbeat_interval="2000", session_timeout="7000").error_code == 0
    assert configs(control) == {session: ("7000", 8), heartbeat: ("2000", 8)}
    assert configs(control, "other")[session] == ("45000", 5)
    control.close()
    control = Control(tmp_path)
    assert Member(control).beat().heartbeat_interval_ms == 2000
    assert alter(control, 1, heartbeat_interval=None).error_code == 0
    assert configs(control) == {session: ("7000", 8), heartbeat: ("5000", 5)}
    row = AlterConfigsRequest.AlterConfigsResource(GROUP, "g", [])
    (answer,) = control.ask(AlterConfigsRequest([row]), 2).responses
    assert answer.error_code == 0
    assert configs(control) == {session: ("45000", 5), heartbeat: ("5000", 5)}
    control.close()


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"session_timeout": "1"}, 40),
        ({"session_timeout": "60001"}, 40),
        ({"session_timeout": "x"}, 40),
        ({"heartbeat_interval": "999"}, 40),
        ({"heartbeat_interval": "15000", "session_timeout": "15000"}, 40),
        ({"colour": "1"}, 40),
    ],
)
def test_a_pace_that_may_not_be(control: Control, values: dict[str, str], code: int) -> None:
    before = configs(control)
    answer = alter(control, 0, **values)
    assert answer.error_code == code
    assert "consumer." in answer.error_message
    assert configs(control) == before


def test_the_operator_is_held_to_the_limits_too() -> None:
    with pytest.raises(SettingInvalid, match=r"group\.consumer\.session\.timeout\.ms: got 1"):
        ConsumerGroupsConfig(session_timeout_ms=1)
    made: BrokerConfig = load(pairs=["group.consumer.assignors=range"])
    assert made.consumer_groups.assignors == "range"
