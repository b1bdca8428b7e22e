"""Quotas over REST: in words and in numbers, the same that Kafka's clients see and set."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from appliance.testing import RunningBroker
from tests.support.rest import Rest
from tests.support.wire_client import WireClient, frame_of


@pytest.fixture
def rest(appliance_broker: RunningBroker) -> Rest:
    return Rest(appliance_broker.admin)


def change(rest: Rest, entity: dict[str, Any], **values: str | None) -> list[tuple[str, Any]]:
    answer = rest.post("/quotas", {"entity": entity, "values": values})
    return [
        (each["who"], {one["name"]: one["words"] for one in each["values"]})
        for each in answer["quotas"]
    ]


def test_a_quota_is_set_in_words_changed_and_removed(rest: Rest) -> None:
    assert rest.get("/quotas")["quotas"] == []
    found = change(rest, {"user": "ada"}, producer_byte_rate="10 MiB/s", consumer_byte_rate="1000")
    assert found == [
        ("user ada", {"producer_byte_rate": "10 MiB/s", "consumer_byte_rate": "1000 B/s"})]
    found = change(rest, {"user": "ada"}, consumer_byte_rate=None)
    assert found == [("user ada", {"producer_byte_rate": "10 MiB/s"})]
    (row,) = rest.get("/quotas")["quotas"]
    assert row["entity"] == {"user": "ada"}
    assert row["values"][0] == {
        "name": "producer_byte_rate", "value": 10 << 20, "words": "10 MiB/s", "has_effect": True}
    assert change(rest, {"user": "ada"}, producer_byte_rate=None) == []


def test_a_quota_may_be_of_all_without_one_of_their_own(rest: Rest) -> None:
    change(rest, {"user": None, "client_id": "sensor"}, producer_byte_rate="1 MB")
    change(rest, {"client_id": None}, request_percentage="12.5")
    found = change(rest, {"ip": "10.0.0.1"}, connection_creation_rate="20")
    assert sorted(found) == [
        ("address 10.0.0.1", {"connection_creation_rate": "20/s"}),
        ("client sensor of every user", {"producer_byte_rate": "about 976.6 KiB/s"}),
        ("every client", {"request_percentage": "12.5 %"}),
    ]
    effects = {each["values"][0]["name"]: each["values"][0]["has_effect"]
               for each in rest.get("/quotas")["quotas"]}  # fmt: skip
    assert effects["request_percentage"] is False


@pytest.mark.parametrize(
    ("entity", "values"),
    [
        ({}, {"producer_byte_rate": "1"}),
        ({"ip": "10.0.0.1", "user": "ada"}, {"connection_creation_rate": "1"}),
        ({"ip": "here"}, {"connection_creation_rate": "1"}),
        ({"user": "ada"}, {"producer_byte_rate": "fast"}),
        ({"user": "ada"}, {"producer_byte_rate": "nan"}),
        ({"user": "ada"}, {"request_percentage": "1e999"}),
        ({"user": "ada"}, {"producer_byte_rate": "-1"}),
        ({"user": "ada"}, {"connection_creation_rate": "1"}),
        ({"user": ""}, {"producer_byte_rate": "1"}),
        ({"user": "ada"}, {"producer_byte_rate": "10 d"}),
    ],
)
def test_what_is_no_quota_is_refused(
    rest: Rest, entity: dict[str, Any], values: dict[str, str]
) -> None:
    assert rest.refused("POST", "/quotas", {"entity": entity, "values": values})[0] == 400
    assert rest.get("/quotas")["quotas"] == []


def test_clients_at_kafkas_port_see_the_same(rest: Rest, appliance_broker: RunningBroker) -> None:
    change(rest, {"user": "ada"}, producer_byte_rate="1 KiB")
    host, port = appliance_broker.bootstrap.split(":")
    with WireClient((host, int(port))) as client:
        client.send(frame_of(DescribeClientQuotasRequest(), 48, 1))
        (found,) = client.answer(DescribeClientQuotasResponse, 48, 1).entries
    assert [(each.entity_type, each.entity_name) for each in found.entity] == [("user", "ada")]
    assert [(each.key, each.value) for each in found.values] == [("producer_byte_rate", 1024.0)]
