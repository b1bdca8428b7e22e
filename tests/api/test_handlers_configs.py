"""Configs as clients see and change them: DescribeConfigs, AlterConfigs and its successor."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.errors import BatchTooLarge
from appliance.protocol.messages.alter_configs import AlterConfigsRequest
from appliance.protocol.messages.describe_configs import DescribeConfigsRequest
from appliance.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.support.control import Control
from tests.support.logs import batch

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


@pytest.fixture
def control(control: Control) -> Control:
    control.create("t")
    return control


def describe(
    control: Control, kind: int, name: str, *keys: str, version: int = 4, **asked: bool
) -> Any:
    row = DescribeConfigsRequest.DescribeConfigsResource(kind, name, list(keys) or None)
    (answer,) = control.ask(DescribeConfigsRequest([row], **asked), version).results
    assert (answer.resource_type, answer.resource_name) == (kind, name)
    return answer


def value(control: Control, kind: int, name: str, key: str) -> tuple[str, int]:
    (row,) = describe(control, kind, name, key).configs
    return row.value, row.config_source


# DescribeConfigs


@pytest.mark.parametrize("version", range(1, 5))
def test_every_config_of_a_topic_is_told(control: Control, version: int) -> None:
    answer = describe(
        control, TOPIC, "t", version=version, include_synonyms=True, include_documentation=True
    )
    assert (answer.error_code, answer.error_message) == (0, "")
    assert len({each.name for each in answer.configs}) == len(answer.configs) == 35
    for each in answer.configs:
        assert each.value is not None
        assert 1 <= each.config_source <= 5
        assert not each.is_sensitive
        assert not each.read_only
        assert each.synonyms[0].value == each.value
        assert each.synonyms[0].source == each.config_source
        assert (each.config_type > 0) == (version >= 3)
        assert bool(each.documentation) == (version >= 3)


def test_what_is_not_asked_for_is_left_out(control: Control) -> None:
    (row,) = describe(control, TOPIC, "t", "retention.ms", "no.such").configs
    assert (row.name, row.synonyms, row.documentation) == ("retention.ms", [], None)


def test_an_empty_list_of_names_means_all(control: Control) -> None:
    row = DescribeConfigsRequest.DescribeConfigsResource(TOPIC, "t", [])
    (answer,) = control.ask(DescribeConfigsRequest([row]), 4).results
    assert len(answer.configs) == 35


@pytest.mark.parametrize("version", range(1, 5))
def test_the_configs_of_the_broker_are_told(control: Control, version: int) -> None:
    rows = {each.name: each for each in describe(control, BROKER, "1", version=version).configs}
    assert rows["node.id"].value == "1"
    assert rows["node.id"].read_only
    assert not rows["log.retention.ms"].read_only
    assert rows["auto.create.topics.enable"].value == "true"
    assert describe(control, BROKER, "", version=version).configs == []


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "missing", 3),
        (BROKER, "2", 42),
        (BROKER, "one", 42),
        (8, "1", 42),
        (16, "", 42),
        (32, "", 42),
        (0, "", 42),
        (-1, "", 42),
    ],
)
def test_what_has_no_configs_is_refused(control: Control, kind: int, name: str, code: int) -> None:
    answer = describe(control, kind, name)
    assert (answer.error_code, answer.configs) == (code, [])
    assert answer.error_message
    change = IncrementalAlterConfigsRequest.AlterableConfig("retention.ms", SET, "1")
    row = IncrementalAlterConfigsRequest.AlterConfigsResource(kind, name, [change])
    (answer,) = control.ask(IncrementalAlterConfigsRequest([row]), 1).responses
    assert answer.error_code == code
    row = AlterConfigsRequest.AlterConfigsResource(kind, name, [])
    (answer,) = control.ask(AlterConfigsRequest([row]), 2).responses
    assert answer.error_code == code


def test_a_name_that_no_topic_can_have_is_told_as_such(control: Control) -> None:
    assert describe(control, TOPIC, "a b").error_code == 17


# AlterConfigs


def alter(
    control: Control, kind: int, name: str, *, version: int = 2, only: bool = False, **configs: Any
) -> tuple[int, str | None]:
    rows = [
        AlterConfigsRequest.AlterableConfig(key.replace("_", "."), each)
        for key, each in configs.items()
    ]
    resource = AlterConfigsRequest.AlterConfigsResource(kind, name, rows)
    (answer,) = control.ask(AlterConfigsRequest([resource], only), version).responses
    assert (answer.resource_type, answer.resource_name) == (kind, name)
    return answer.error_code, answer.error_message


@pytest.mark.parametrize("version", range(3))
def test_altering_sets_all_configs(control: Control, version: int) -> None:
    assert alter(control, TOPIC, "t", version=version, retention_ms="5", segment_ms="7") == (
        0,
        None,
    )
    assert alter(control, TOPIC, "t", version=version, retention_ms="6") == (0, None)
    assert control.broker.topics["t"].configs == {"retention.ms": "6"}
    assert value(control, TOPIC, "t", "retention.ms") == ("6", 1)


@pytest.mark.parametrize(
    ("configs", "code"),
    [
        ({"retention_ms": "-2"}, 40),
        ({"no_such": "1"}, 40),
        ({"retention_ms": None}, 42),
        ({"segment_ms": "5", "cleanup_policy": "burn"}, 40),
    ],
)
def test_of_a_change_that_is_refused_nothing_is_made(
    control: Control, configs: dict[str, str], code: int
) -> None:
    assert alter(control, TOPIC, "t", **configs)[0] == code
    assert control.broker.topics["t"].configs == {}


def test_altering_can_be_validated(control: Control) -> None:
    assert alter(control, TOPIC, "t", only=True, retention_ms="5") == (0, None)
    assert alter(control, TOPIC, "t", only=True, retention_ms="-5")[0] == 40
    assert alter(control, BROKER, "1", only=True, log_retention_ms="5") == (0, None)
    assert control.broker.topics["t"].configs == {}
    assert value(control, BROKER, "1", "log.retention.ms")[1] != 2


@pytest.mark.parametrize(("name", "source"), [("1", 2), ("", 3)])
def test_the_brokers_configs_are_the_topics_defaults(
    control: Control, name: str, source: int
) -> None:
    assert alter(control, BROKER, name, log_retention_ms="123") == (0, None)
    assert value(control, TOPIC, "t", "retention.ms") == ("123", source)
    assert value(control, BROKER, name, "log.retention.ms") == ("123", source)
    assert alter(control, BROKER, name) == (0, None)
    assert value(control, TOPIC, "t", "retention.ms")[1] > 3


def test_what_is_set_for_all_brokers_is_shown_beside_what_one_has(control: Control) -> None:
    assert alter(control, BROKER, "", log_retention_ms="80000") == (0, None)
    assert alter(control, BROKER, "1", log_retention_ms="70000") == (0, None)
    assert value(control, BROKER, "1", "log.retention.ms") == ("70000", 2)
    (row,) = describe(control, BROKER, "", include_synonyms=True).configs
    assert (row.name, row.value, row.config_source) == ("log.retention.ms", "80000", 3)
    assert [(each.value, each.source) for each in row.synonyms] == [("80000", 3)]


def test_what_is_read_at_the_start_cannot_be_altered(control: Control) -> None:
    assert alter(control, BROKER, "1", node_id="2")[0] == 42


def test_a_config_or_resource_that_is_named_twice_is_refused(control: Control) -> None:
    one = AlterConfigsRequest.AlterableConfig("retention.ms", "1")
    row = AlterConfigsRequest.AlterConfigsResource(TOPIC, "t", [one, one])
    (answer,) = control.ask(AlterConfigsRequest([row]), 2).responses
    assert answer.error_code == 42
    row = AlterConfigsRequest.AlterConfigsResource(TOPIC, "t", [one])
    other = AlterConfigsRequest.AlterConfigsResource(TOPIC, "u", [one])
    answers = control.ask(AlterConfigsRequest([row, other, row]), 2).responses
    assert [each.error_code for each in answers] == [42, 3, 42]
    assert control.broker.topics["t"].configs == {}


# IncrementalAlterConfigs


def change(
    control: Control,
    *changes: tuple[str, int, str | None],
    kind: int = TOPIC,
    name: str = "t",
    version: int = 1,
    only: bool = False,
) -> int:
    rows = [IncrementalAlterConfigsRequest.AlterableConfig(*each) for each in changes]
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(kind, name, rows)
    (answer,) = control.ask(IncrementalAlterConfigsRequest([resource], only), version).responses
    assert (answer.error_message is None) == (answer.error_code == 0)
    code: int = answer.error_code
    return code


@pytest.mark.parametrize("version", [0, 1])
def test_configs_are_set_and_deleted_one_by_one(control: Control, version: int) -> None:
    assert change(control, ("retention.ms", SET, "5"), version=version) == 0
    assert change(control, ("segment.ms", SET, "6"), version=version) == 0
    assert control.broker.topics["t"].configs == {"retention.ms": "5", "segment.ms": "6"}
    assert change(control, ("retention.ms", DELETE, None), version=version) == 0
    assert control.broker.topics["t"].configs == {"segment.ms": "6"}


def test_lists_are_appended_to_and_subtracted_from(control: Control) -> None:
    def policy() -> str:
        return value(control, TOPIC, "t", "cleanup.policy")[0]

    assert policy() == "delete"
    assert change(control, ("cleanup.policy", APPEND, "compact")) == 0
    assert policy() == "delete,compact"
    assert change(control, ("cleanup.policy", APPEND, "compact")) == 0
    assert policy() == "delete,compact"
    assert change(control, ("cleanup.policy", SUBTRACT, "delete")) == 0
    assert policy() == "compact"
    assert change(control, ("cleanup.policy", SUBTRACT, "delete")) == 0
    assert policy() == "compact"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([("retention.ms", APPEND, "5")], 40),
        ([("retention.ms", SUBTRACT, "5")], 40),
        ([("retention.ms", SET, None)], 42),
        ([("retention.ms", 4, "5")], 42),
        ([("no.such", SET, "5")], 40),
        ([("segment.ms", SET, "5"), ("retention.ms", SET, "five")], 40),
        ([("segment.ms", SET, "5"), ("segment.ms", SET, "6")], 42),
        ([("cleanup.policy", APPEND, "burn")], 40),
    ],
)
def test_changes_are_made_all_or_none(
    control: Control, changes: list[tuple[str, int, str | None]], code: int
) -> None:
    assert change(control, *changes) == code
    assert change(control, *changes, only=True) == code
    assert control.broker.topics["t"].configs == {}


def test_a_change_can_be_validated(control: Control) -> None:
    assert change(control, ("retention.ms", SET, "5"), only=True) == 0
    assert control.broker.topics["t"].configs == {}


def test_the_broker_is_changed(control: Control) -> None:
    assert change(control, ("log.retention.ms", SET, "77"), kind=BROKER, name="1") == 0
    assert value(control, TOPIC, "t", "retention.ms") == ("77", 2)
    assert change(control, ("log.retention.ms", SET, "88"), kind=BROKER, name="") == 0
    assert value(control, TOPIC, "t", "retention.ms") == ("77", 2)
    assert change(control, ("log.retention.ms", DELETE, None), kind=BROKER, name="1") == 0
    assert value(control, TOPIC, "t", "retention.ms") == ("88", 3)


@pytest.mark.parametrize(
    "name",
    [
        "log.cleaner.backoff.ms", "max.connections.per.ip", "producer.id.expiration.ms",
        "max.connections", "listener.name.plaintext.max.connections",
        "listener.name.plaintext.max.connection.creation.rate", "max.failed.authentication.rate",
    ],
)  # fmt: skip
def test_a_setting_that_kafka_lets_clients_change_is_changed(control: Control, name: str) -> None:
    before, source = value(control, BROKER, "1", name)
    assert source > 3
    more = str(int(before) - 1)
    assert change(control, (name, SET, more), kind=BROKER, name="1") == 0
    assert value(control, BROKER, "1", name) == (more, 2)
    assert change(control, (name, DELETE, None), kind=BROKER, name="1") == 0
    assert value(control, BROKER, "1", name) == (before, source)


def test_a_change_of_a_topic_reaches_its_log(control: Control) -> None:
    (log,) = control.broker.topics["t"].logs
    assert change(control, ("max.message.bytes", SET, "100")) == 0
    with pytest.raises(BatchTooLarge):
        log.append(batch("v" * 200))
