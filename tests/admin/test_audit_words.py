"""The audit trail in words: every request that it can have has some, and they say what it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

from appliance.admin import api
from appliance.admin.audit_words import ADMIN, KAFKA, in_sentence
from appliance.api.audited import ADMINISTRATIVE, error_codes
from appliance.protocol import API
from appliance.protocol.types import MessageType
from tests.support.wire_frames import filled, versions_of_messages


def codes_anywhere(value: Any) -> list[int]:
    if isinstance(value, list):
        return [code for each in value for code in codes_anywhere(each)]
    if not isinstance(type(value), MessageType):
        return []
    found = {name: getattr(value, name) for name in type(value).ROWS}
    return [code for name, each in found.items()
            for code in ([each] if name == "error_code" else codes_anywhere(each))]  # fmt: skip


def test_the_trail_sees_every_code_of_an_answer() -> None:
    counted = 0
    for message, versions in versions_of_messages():
        answer = filled(message, versions[-1])
        assert [*error_codes(answer)] == codes_anywhere(answer), message
        counted += len([*error_codes(answer)])
    assert counted > len(API)


@pytest.mark.parametrize(
    ("action", "body", "words"),
    [
        ("PATCH /api/v1/topics/orders", {"configs": {"retention.ms": "3d"}},
         "Change topic orders: retention.ms = 3 d"),
        ("PATCH /api/v1/topics/orders", {"configs": {"retention.ms": None}, "partitions": 3},
         "Change topic orders: retention.ms = the default, partitions 3"),
        ("PATCH /api/v1/topics/orders", {"configs": {"retention.ms": "3 GB"}},
         "Change topic orders: retention.ms = 3 GB"),
        ("POST /api/v1/topics", {"name": "orders", "partitions": 2},
         "Make topic orders: partitions 2"),
        ("DELETE /api/v1/topics/orders", None, "Delete topic orders"),
        ("POST /api/v1/users", {"name": "ada", "role": "admin", "password": "..."},
         "Make user ada: role admin"),
        ("POST /api/v1/topics/orders/messages", {"messages": 3},
         "Produce messages to topic orders: messages 3"),
        ("POST /api/v1/acls", {"acls": [{}, {}]}, "Add access rules: 2 acls"),
        ("PUT /export/v1/holds/daily", {"topic": "orders"},
         "Hold back retention for daily: topic orders"),
        ("PUT /export/v1/holds/daily", {"topic": "t", "offsets": {"0": 100}, "max_bytes": 1 << 20},
         "Hold back retention for daily: topic t, offsets 0 = 100, max bytes 1 MiB"),
        ("POST /api/v1/exports/daily/runs", {"id": "one", "started_ms": 1_700_000_000_000},
         "Report a run of export daily: id one, started ms 2023-11-14 22:13:20Z"),
        ("POST /api/v1/quotas", {"entity": {"user": "ada"}, "values": {"producer_byte_rate": "9"}},
         "Change quotas: user = ada, producer_byte_rate = 9"),
        ("POST /api/v1/groups/billing/reset", {"to": "earliest", "dry_run": False},
         "Reset offsets of group billing: to earliest"),
        ("POST /api/v1/groups/billing/reset", {"to": "earliest"},
         "Reset offsets of group billing (a dry run): to earliest"),
        # those beyond the limit of a minute, counted
        ("PATCH /api/v1/topics/{topic}", {"more": 7, "answers": {"200": 7}, "of": ["a", "b"]},
         "Change topic …: more 7, of a, b"),
        ("CreateTopics orders", {"request": {"topics": []}, "answers": {"NONE": 1}},
         "Make topics orders"),
        ("refused DELETE /api/v1/topics/{topic}", {"times": 2, "of": ["x"]},
         "Refused by access rules: Delete topic …"),
        ("login", None, ""),
        ("GET /somewhere/else", None, ""),
    ],
)
def test_a_row_is_said_in_words(action: str, body: Any, words: str) -> None:
    assert in_sentence(action, "" if body is None else json.dumps(body)) == words


@pytest.mark.parametrize(
    "details", ['{"configs": {"retention.ms": "3', "[" * 5000, "[1]", "null", '{"a": {"b": {}}}']
)
def test_what_cannot_be_read_costs_no_row(details: str) -> None:
    assert in_sentence("PATCH /api/v1/topics/t", details).startswith("Change topic t")


def test_a_long_request_is_said_in_short() -> None:
    body = {"configs": {f"c{number}": "v" * 500 for number in range(50)}, "topics": ["t" * 99] * 50}
    assert len(in_sentence("PATCH /api/v1/topics/t", json.dumps(body))) < 1000


def test_every_request_that_is_noted_has_words() -> None:
    noted = {
        f"{each.method} {each.path}"
        for each in api.ROUTES
        if each.has_audit or each.reads_messages
    }
    assert noted - set(ADMIN) == set()
    assert {API[key].name for key in ADMINISTRATIVE} == set(KAFKA)
