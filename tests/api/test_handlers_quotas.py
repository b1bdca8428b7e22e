"""Quotas of clients: what is kept and found, what is refused, and what the data plane is told."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from appliance.access.client_quotas import CONNECT, FETCH, PRODUCE, Rate
from appliance.catalog.catalog import CatalogFailed
from appliance.catalog.config_rows import ConfigRows
from appliance.config import KeptConfig
from appliance.protocol import ErrorCode
from appliance.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from appliance.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from tests.support.control import Control

EXACT, DEFAULT, SPECIFIED = range(3)
ANY = None

Who = dict[str, str | None]


def entry(who: Any, **values: float | None) -> AlterClientQuotasRequest.EntryData:
    entity = [AlterClientQuotasRequest.EntityData(*each) for each in
              (who.items() if isinstance(who, dict) else who)]
    ops = [AlterClientQuotasRequest.OpData(name, value or 0.0, remove=value is None)
           for name, value in values.items()]
    return AlterClientQuotasRequest.EntryData(entity, ops)


def alter(control: Control, *entries: Any, version: int = 1, validate_only: bool = False) -> Any:
    answer = control.ask(AlterClientQuotasRequest(list(entries), validate_only), version)
    assert [[(part.entity_type, part.entity_name) for part in each.entity]
            for each in answer.entries] == [
        [(part.entity_type, part.entity_name) for part in each.entity] for each in entries]
    return [(each.error_code, each.error_message) for each in answer.entries]


def put(control: Control, who: Any, **values: float | None) -> None:
    assert alter(control, entry(who, **values)) == [(0, None)]


def describe(control: Control, *components: tuple[str, int, str | None], strict: bool = False,
             version: int = 1) -> Any:
    rows = [DescribeClientQuotasRequest.ComponentData(*each) for each in components]
    answer = control.ask(DescribeClientQuotasRequest(rows, strict), version)
    assert (answer.error_code, answer.error_message) == (0, None)
    return [({part.entity_type: part.entity_name for part in each.entity},
             {row.key: row.value for row in each.values}) for each in answer.entries]


def rates(control: Control, kind: int) -> list[Rate]:
    return sorted(control.queue.rates[kind])


# What is kept


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_are_kept_changed_and_removed(tmp_path: Path, version: int) -> None:
    control = Control(tmp_path)
    who: Who = {"user": "ann", "client-id": ANY}
    assert alter(control, entry(who, producer_byte_rate=1000.0, request_percentage=12.5),
                 version=version) == [(0, None)]
    control.close()
    control = Control(tmp_path)
    assert describe(control, version=version) == [
        (who, {"producer_byte_rate": 1000.0, "request_percentage": 12.5})]
    reversed_order = list(reversed(who.items()))
    put(control, reversed_order, producer_byte_rate=None, consumer_byte_rate=5.0)
    assert describe(control) == [(who, {"consumer_byte_rate": 5.0, "request_percentage": 12.5})]
    put(control, who, consumer_byte_rate=None, request_percentage=None, producer_byte_rate=None)
    assert describe(control) == []
    control.close()
    control = Control(tmp_path)
    assert describe(control) == []
    control.close()


def test_addresses_of_one_network_have_one_share(tmp_path: Path) -> None:
    control = Control(tmp_path, kept=KeptConfig(entities_max=4))
    codes = []
    for number, peer in enumerate(["2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8:0:1::"]):
        control.queue.peer = peer
        (code, _), = alter(control, entry({"user": f"u{number}"}, producer_byte_rate=1.0))
        codes.append(code)
    assert codes == [0, 0, ErrorCode.POLICY_VIOLATION, 0]
    control.close()


def test_a_change_may_be_validated_only(control: Control) -> None:
    wanted = entry({"client-id": "a"}, producer_byte_rate=1000.0)
    wrong = entry({"client-id": "a"}, producer_byte_rate=-1.0)
    found = alter(control, wanted, wrong, validate_only=True)
    assert [code for code, _ in found] == [0, 42]
    assert describe(control) == []


RATE = {"producer_byte_rate": 1.0}


@pytest.mark.parametrize(("who", "values", "text"), [
    ({}, RATE, "without a type"),
    ({"color": "red"}, RATE, "'color' is unknown"),
    ([("user", "a"), ("user", "b")], RATE, "'user' twice"),
    ({"user": ""}, RATE, "the name of the user is empty"),
    ({"client-id": ""}, RATE, "the name of the client-id is empty"),
    ({"ip": "10.0.0.1", "user": "a"}, {"connection_creation_rate": 1.0}, "an ip alone"),
    ({"ip": "host.example"}, {"connection_creation_rate": 1.0}, "wanted an address"),
    ({"ip": "10.0.0.1"}, RATE, "wanted one of connection_creation_rate"),
    ({"user": "a"}, {"connection_creation_rate": 1.0}, "wanted one of producer_byte_rate"),
    ({"user": "a"}, {"no_such": 1.0}, "got quota 'no_such'"),
    ({"user": "a"}, {"producer_byte_rate": 0.0}, "wanted more than 0"),
    ({"user": "a"}, {"producer_byte_rate": -1.0}, "wanted more than 0"),
    ({"user": "a"}, {"producer_byte_rate": 1.5}, "wanted a whole number"),
    ({"user": "a"}, {"producer_byte_rate": 1e19}, "at most 9223372036854775807"),
    ({"user": "a"}, {"request_percentage": math.nan}, "wanted more than 0"),
    ({"ip": ANY}, {"connection_creation_rate": 2.0**31}, "at most 2147483647"),
    ({"user": "a" * 40_000}, RATE, "wanted at most 1024"),
])
def test_what_may_not_be_is_refused_alone(
    control: Control, who: Any, values: dict[str, float], text: str
) -> None:
    refused, made = alter(control, entry(who, **values), entry({"user": "good"}, **RATE))
    assert (refused[0], text in str(refused[1])) == (42, True), refused
    assert made == (0, None)
    assert describe(control) == [({"user": "good"}, RATE)]


def test_a_quota_may_be_changed_once_in_a_request(control: Control) -> None:
    twice = entry({"user": "a"}, producer_byte_rate=1.0)
    twice.ops.append(twice.ops[0])
    assert alter(control, twice)[0][0] == 42
    one, two = entry({"user": "a"}, producer_byte_rate=1.0), entry({"user": "a"}, **RATE)
    assert [code for code, _ in alter(control, one, two)] == [0, 42]


def test_a_quota_that_cannot_be_kept_is_not_in_force(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise CatalogFailed("the disk is gone")

    monkeypatch.setattr(ConfigRows, "set", fails)
    assert alter(control, entry({"user": "a"}, **RATE)) == [(56, "the disk is gone")]
    assert describe(control) == []
    assert control.queue.rates == {}


@pytest.mark.parametrize(("who", "name", "is_warned"), [
    ({"user": "ann"}, "producer_byte_rate", False),
    ({"user": ANY, "client-id": "a"}, "consumer_byte_rate", False),
    ({"client-id": "a"}, "request_percentage", True),
    ({"client-id": "a"}, "controller_mutation_rate", True),
    ({"ip": ANY}, "connection_creation_rate", False),
])
def test_whoever_sets_what_has_no_effect_is_warned(
    control: Control, who: Who, name: str, is_warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    put(control, who, **{name: 7.0})
    warned = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert warned == (["quotas are kept but have no effect"] if is_warned else [])


# What is found

ENTITIES: list[Who] = [
    {"client-id": "a"}, {"client-id": ANY}, {"client-id": "a", "user": "u"},
    {"client-id": ANY, "user": "u"}, {"user": "u"}, {"user": ANY}, {"ip": "10.0.0.1"}, {"ip": ANY},
]


@pytest.mark.parametrize(("components", "strict", "found"), [
    ([], False, range(8)),
    ([], True, []),
    ([("client-id", EXACT, "a")], False, [0, 2]),
    ([("client-id", EXACT, "a")], True, [0]),
    ([("client-id", DEFAULT, ANY)], False, [1, 3]),
    ([("client-id", SPECIFIED, ANY)], False, [0, 1, 2, 3]),
    ([("client-id", SPECIFIED, ANY)], True, [0, 1]),
    ([("user", SPECIFIED, ANY)], True, [4, 5]),
    ([("user", EXACT, "u"), ("client-id", SPECIFIED, ANY)], True, [2, 3]),
    ([("user", EXACT, "nobody")], False, []),
    ([("ip", SPECIFIED, ANY)], False, [6, 7]),
    ([("ip", DEFAULT, ANY)], True, [7]),
])
def test_a_filter_finds_what_kafka_finds(
    control: Control, components: Any, strict: bool, found: Any
) -> None:
    for each in ENTITIES:
        put(control, each, **({"connection_creation_rate": 1.0} if "ip" in each else RATE))
    told = [who for who, _ in describe(control, *components, strict=strict)]
    assert len(told) == len(found)
    assert all(ENTITIES[i] in told for i in found)


@pytest.mark.parametrize(("components", "code"), [
    ([("", EXACT, "a")], 42),
    ([("color", EXACT, "a")], 35),
    ([("user", EXACT, "a"), ("user", EXACT, "b")], 42),
    ([("user", EXACT, ANY)], 42),
    ([("user", DEFAULT, "a")], 42),
    ([("user", SPECIFIED, "a")], 42),
    ([("user", 3, ANY)], 42),
    ([("ip", EXACT, "10.0.0.1"), ("user", EXACT, "a")], 42),
])
def test_a_filter_that_cannot_be_is_refused(control: Control, components: Any, code: int) -> None:
    rows = [DescribeClientQuotasRequest.ComponentData(*each) for each in components]
    for version in (0, 1):
        answer = control.ask(DescribeClientQuotasRequest(rows), version)
        assert (answer.error_code, answer.entries) == (code, None)
        assert answer.error_message


# What the data plane is told


def test_nothing_is_told_without_quotas(tmp_path: Path) -> None:
    control = Control(tmp_path)
    assert control.queue.rates == {}
    put(control, {"client-id": "a"}, producer_byte_rate=7.0)
    assert rates(control, PRODUCE) == [(6, "", "a", 7)]
    assert rates(control, FETCH) == []
    control.close()
    control = Control(tmp_path)
    assert rates(control, PRODUCE) == [(6, "", "a", 7)]
    put(control, {"client-id": "a"}, producer_byte_rate=None)
    assert rates(control, PRODUCE) == []
    control.close()


# Kafka's order of precedence, the last first
LADDER: list[tuple[Who, tuple[int, str, str]]] = [
    ({"client-id": ANY}, (7, "", "")),
    ({"client-id": "a"}, (6, "", "a")),
    ({"user": ANY}, (5, "", "")),
    ({"client-id": ANY, "user": ANY}, (4, "", "")),
    ({"client-id": "a", "user": ANY}, (3, "", "a")),
    ({"user": "alice"}, (2, "alice", "")),
    ({"client-id": ANY, "user": "alice"}, (1, "alice", "")),
    ({"client-id": "a", "user": "alice"}, (0, "alice", "a")),
]


def test_each_entity_has_its_place_in_kafkas_order(control: Control) -> None:
    for rate, (who, _) in enumerate(LADDER, 1):
        put(control, who, consumer_byte_rate=float(rate))
    told = [(*place, rate) for rate, (_, place) in enumerate(LADDER, 1)]
    assert rates(control, FETCH) == sorted(told)
    assert rates(control, PRODUCE) == []


def test_addresses_are_told_as_they_are_seen(control: Control) -> None:
    put(control, {"ip": "2001:DB8:0:0:0:0:0:1"}, connection_creation_rate=3.0)
    put(control, {"ip": "10.0.0.1"}, connection_creation_rate=4.0)
    put(control, {"ip": ANY}, connection_creation_rate=5.0)
    assert rates(control, CONNECT) == [
        (6, "", "10.0.0.1", 4), (6, "", "2001:db8::1", 3), (7, "", "", 5)]
