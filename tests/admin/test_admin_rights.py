"""Access rules at the admin port: the second table of docs/access.md, asked cell by cell; what
users with a few rights see and do; and that a refusal tells nothing."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import argon2
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from appliance import admin_http
from appliance.access.acls import CLUSTER_NAME
from appliance.admin import access_page, api, users
from appliance.admin.rights import CLUSTER, SOME, Right
from appliance.admin.route import ANYONE, Route
from appliance.config import ExportConfig
from appliance.config.access import STANDARD_AUTHORIZER
from appliance.testing import RunningBroker, running_broker
from tests.admin.test_admin_access_page import BODIES, BY_RULES, PAGE, table
from tests.support.people import NOBODY, PASSWORD, asked, denied, is_let_in, logged_in, make_people
from tests.support.rest import Rest

REAL_HASHER = argon2.PasswordHasher
ROUTES = {f"{each.method} {each.url}": each for each in (admin_http.METRICS_ROUTE, *api.ROUTES)}
TABLE = table("rules")
OPERATOR = "otto"
ENFORCED = {"authorizer.class.name": STANDARD_AUTHORIZER}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    patch = pytest.MonkeyPatch()
    patch.setattr(users.argon2, "PasswordHasher", lambda: REAL_HASHER(1, 8, 1))
    path = tmp_path_factory.mktemp("rights") / "data"
    make_people(path, plain=NOBODY)
    with running_broker(path, {**ENFORCED, "super.users": "User:ANONYMOUS"}) as running:
        fill(running)
        yield running
    patch.undo()


def fill(broker: RunningBroker) -> None:
    """Two topics of which one is hers, a group that reads both, an export and a hold of each."""
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    made = client.create_topics([NewTopic("orders", 1), NewTopic("secrets", 1)])
    for each in made.values():
        each.result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for name in made:
        producer.produce(name, b"text", b"key")
    assert producer.flush(30) == 0
    ada = logged_in(broker, "ada")
    for name in made:
        offsets = {"to": "earliest", "topics": [{"topic": name}], "dry_run": False}
        ada.post("/groups/readers/reset", offsets)
        ada.post(f"/groups/of-{name}/reset", offsets)
        export = {"topics": [name], "target": "/lake"}
        assert ada.ask("PUT", f"/exports/{name}", export).status == 200
        hold = {"topic": name, "offsets": {"0": 0}}
        assert ada.ask("PUT", f"/holds/{name}", hold, prefix="/export/v1").status == 200
    pattern = {"pattern": ".*", "target": "/lake"}
    assert ada.ask("PUT", "/exports/all", pattern).status == 200


@pytest.fixture(scope="module")
def people(broker: RunningBroker) -> dict[str, Rest]:
    return {name: logged_in(broker, name) for name in ("ada", "vera", OPERATOR, NOBODY)}


@pytest.fixture
def rules(people: dict[str, Rest]) -> Iterator[Any]:
    """Adds a rule; all are gone after the test."""
    ada = people["ada"]

    def add(who: str, permission: str, operation: str, name: str, kind: str = "topic") -> None:
        rule = {"principal": f"User:{who}", "permission": permission, "operation": operation,
                "resource_type": kind, "resource_name": name}  # fmt: skip
        ada.post("/acls", {"acls": [rule]})

    yield add
    ada.post("/acls/remove", {"dry_run": False})


# The table


def test_the_page_has_the_table_of_rules_as_it_is() -> None:
    assert admin_http.ruled_table() in PAGE.read_text(), "print it: python -m appliance.admin_http"


def test_each_route_that_needs_a_login_is_in_the_table() -> None:
    assert set(TABLE) == {name for name, each in ROUTES.items() if each.role != ANYONE}


def of(route: Route) -> list[Right]:
    return list(route.wanted_rights)


def put(rules: Any, who: str, permission: str, right: Right) -> None:
    """`none` is what stands for a name in a path."""
    name = CLUSTER_NAME if right.resource_type is CLUSTER else "none"
    if right.name == SOME and permission == "deny":
        name = "*"
    rules(who, permission, right.operation.name.lower(), name, right.resource_type.name.lower())


@pytest.mark.parametrize("name", TABLE)
def test_a_route_is_opened_and_closed_by_rules(
    name: str, people: dict[str, Rest], rules: Any
) -> None:
    route, cells = ROUTES[name], TABLE[name]

    def check(heading: str, who: str) -> None:
        answer = asked(people[who], *name.split(), name in BODIES)
        if cells[heading] == access_page.YES:
            assert is_let_in(answer), (heading, answer.body)
            return
        status, code = denied(answer)
        assert str(status) == cells[heading], heading
        assert code in ({"role_required"} if route.rights is None else BY_RULES), heading
        if route.rights is not None:
            text = answer.body["error"]["message"]
            assert text.startswith(f"User:{who} may not "), text

    check("no rule", NOBODY)
    for right in of(route):
        put(rules, NOBODY, "allow", right)
    check("exactly the rights", NOBODY)
    # each of them, and all of those of which one is enough
    closing = [[right] for right in route.rights or ()]
    closing += [[*route.either]] if route.either else []
    for together in closing:
        for who in (NOBODY, OPERATOR):
            for right in together:
                put(rules, who, "deny", right)
        check("one denied", NOBODY)
        check("operator, one denied", OPERATOR)
        people["ada"].post("/acls/remove", {"permission": "deny", "dry_run": False})
    if not closing:
        check("one denied", NOBODY)
        check("operator, one denied", OPERATOR)


# What a user with one topic sees


def test_a_user_without_a_role_sees_the_topics_that_rules_give(
    people: dict[str, Rest], rules: Any
) -> None:
    nora = people[NOBODY]
    assert [each["name"] for each in nora.get("/topics")["topics"]] == []
    rules(NOBODY, "allow", "read", "orders")
    rules(NOBODY, "allow", "describe", "readers", "group")
    assert [each["name"] for each in nora.get("/topics")["topics"]] == ["orders"]
    assert {each["topic"] for each in nora.get("/logs")["logs"]} == {"orders"}
    (message,) = nora.get("/topics/orders/messages")["messages"]
    assert message["value"]["text"] == "text"
    (group,) = nora.get("/groups")["groups"]
    assert (group["group"], group["topics"]) == ("readers", ["orders"])
    one, all_of_it = nora.get("/groups/readers"), people["vera"].get("/groups/readers")
    assert [each["topic"] for each in one["offsets"]] == ["orders"]
    assert (group["lag_records"], one["lag_records"], all_of_it["lag_records"]) == (1, 1, 2)
    assert [each["name"] for each in nora.get("/exports")["exports"]] == ["orders"]
    holds = nora.ask("GET", "/holds", prefix="/export/v1").body["holds"]
    assert [each["name"] for each in holds] == ["orders"]
    # and who may see everything still does, in the same second
    assert len(people["vera"].get("/topics")["topics"]) == 2
    assert len(people["vera"].get("/exports")["exports"]) == 3


def test_a_denied_topic_is_in_no_list_of_an_operator(people: dict[str, Rest], rules: Any) -> None:
    otto = people[OPERATOR]
    rules(OPERATOR, "deny", "all", "secrets")
    assert [each["name"] for each in otto.get("/topics")["topics"]] == ["orders"]
    assert otto.get("/topics")["total"] == 1
    assert [each["name"] for each in otto.get("/exports")["exports"]] == ["orders"]
    assert otto.get("/groups/readers")["topics"] == ["orders"]
    reset = otto.post("/groups/readers/reset", {"to": "earliest"})
    assert [each["topic"] for each in reset["partitions"]] == ["orders"]
    text = str([otto.get(path) for path in ("/topics", "/logs", "/groups", "/exports")])
    assert "secrets" not in text.replace("of-secrets", "")


@pytest.mark.parametrize("name", [each for each, one in ROUTES.items() if "{topic}" in one.path
                                  and one.rights is not None])  # fmt: skip
def test_a_refusal_does_not_tell_whether_there_is_such_a_topic(
    name: str, people: dict[str, Rest]
) -> None:
    method, url = name.split()
    told = [
        asked(people[NOBODY], method, url.replace("{topic}", topic), name in BODIES).body
        for topic in ("secrets", "missing")
    ]
    assert str(told[0]).replace("secrets", "missing") == str(told[1])


@pytest.mark.parametrize("path", ["/exports/{}", "/exports/{}/runs"])
def test_an_export_of_others_is_as_if_it_were_not_there(path: str, people: dict[str, Rest]) -> None:
    told = [people[NOBODY].ask("GET", path.format(name)) for name in ("secrets", "missing")]
    assert [each.status for each in told] == [404, 404]
    assert str(told[0].body).replace("secrets", "missing") == str(told[1].body)


# What it may do


def test_topics_in_bodies_are_asked_for_too(people: dict[str, Rest], rules: Any) -> None:
    nora = people[NOBODY]
    rules(NOBODY, "allow", "read", "orders")
    replay = {"to_topic": "secrets"}
    no_topic = (403, "topic_authorization_failed")
    assert nora.refused("POST", "/topics/orders/replay", replay) == no_topic
    rules(NOBODY, "allow", "write", "secrets")
    assert nora.post("/topics/orders/replay", replay)["count"] == 1
    rules(NOBODY, "allow", "create", "own")
    assert nora.refused("POST", "/topics", {"name": "other"}) == no_topic
    rules(NOBODY, "allow", "describe", "own")
    assert nora.post("/topics", {"name": "own"})["allowed"] == ["create", "describe"]
    assert nora.refused("PATCH", "/topics/own", {"partitions": 2}) == no_topic
    rules(NOBODY, "allow", "alter_configs", "own")
    assert nora.refused("PATCH", "/topics/own", {"partitions": 2}) == no_topic
    changed = nora.ask("PATCH", "/topics/own", {"configs": {"retention.ms": "1000"}})
    assert changed.body["retention_ms"] == 1000


def test_of_several_topics_each_is_asked_for(people: dict[str, Rest], rules: Any) -> None:
    people["ada"].post("/topics", {"name": "hers"})
    rules(NOBODY, "allow", "delete", "hers")
    rules(NOBODY, "allow", "describe", "orders")
    body = {"topics": ["secrets", "orders", "hers"], "dry_run": False}
    found = people[NOBODY].post("/several-topics/delete", body)["results"]
    assert [each["outcome"] for each in found] == ["refused", "refused", "deleted"]
    assert found[0]["text"] == "there is no topic 'secrets'"  # which she may not know of
    assert found[1]["text"] == f"User:{NOBODY} may not delete topic orders"
    kept = {each["name"] for each in people["ada"].get("/topics")["topics"]}
    assert {"orders", "secrets"} <= kept
    assert "hers" not in kept


def test_a_group_is_reset_on_topics_that_may_be_read(people: dict[str, Rest], rules: Any) -> None:
    nora = people[NOBODY]
    rules(NOBODY, "allow", "read", "readers", "group")
    body = {"to": "earliest", "topics": [{"topic": "secrets"}]}
    path = "/groups/readers/reset"
    assert nora.refused("POST", path, body) == (403, "topic_authorization_failed")
    rules(NOBODY, "allow", "read", "orders")
    reset = nora.post(path, {"to": "earliest"})
    assert [each["topic"] for each in reset["partitions"]] == ["orders"]
    from_group = {"to": "group", "group": "of-orders"}
    assert nora.refused("POST", path, from_group) == (403, "group_authorization_failed")


def test_exports_and_holds_take_the_right_to_read(people: dict[str, Rest], rules: Any) -> None:
    nora, vera = people[NOBODY], people["vera"]
    rules(NOBODY, "allow", "read", "orders")
    rules("vera", "allow", "read", "orders")
    own = {"topics": ["orders"], "target": "/lake"}
    of_others = {"topics": ["secrets"], "target": "/lake"}
    no_topic = (403, "topic_authorization_failed")
    for who, name in ((nora, "nora.mine"), (vera, "mine")):
        # a viewer reads secrets, and may not export them
        assert who.ask("PUT", f"/exports/{name}", own).status == 200
        assert who.refused("PUT", "/exports/theirs", of_others) == no_topic
        pattern = {"pattern": "ord.*", "target": "/lake"}
        assert who.refused("PUT", "/exports/theirs", pattern) == no_topic
        hold = {"topic": "secrets", "offsets": {"0": 0}}
        refused = who.ask("PUT", "/holds/theirs", hold, prefix="/export/v1")
        assert denied(refused) == no_topic
    assert vera.refused("DELETE", "/exports/secrets") == no_topic
    assert nora.ask("DELETE", "/exports/nora.mine").status == 204
    rules("vera", "deny", "read", "orders")
    assert vera.refused("PUT", "/exports/mine", own) == no_topic


def test_who_may_read_keeps_no_more_than_the_setting_allows(
    people: dict[str, Rest], rules: Any
) -> None:
    """An operator may have more kept, and who goes on with that hold leaves it so."""
    rules(NOBODY, "allow", "read", "orders")
    usual = ExportConfig().hold_bytes
    hold = {"topic": "orders", "offsets": {"0": 0}, "max_bytes": usual + 1}

    def kept(who: str, name: str) -> Any:
        answer = people[who].ask("PUT", f"/holds/{name}", hold, prefix="/export/v1")
        return answer.body["max_bytes"]

    assert kept(NOBODY, f"{NOBODY}.mine") == usual
    assert kept("ada", f"{NOBODY}.large") == usual + 1
    assert kept(NOBODY, f"{NOBODY}.large") == usual + 1
    assert people["ada"].ask("DELETE", f"/holds/{NOBODY}.large", prefix="/export/v1").status == 204
    assert people["ada"].ask("DELETE", f"/holds/{NOBODY}.mine", prefix="/export/v1").status == 204


def test_dead_letters_take_the_right_to_read_and_runs_do_not_quote_them(
    people: dict[str, Rest], rules: Any
) -> None:
    ada, nora = people["ada"], people[NOBODY]
    letter = {"topic": "orders", "partition": 0, "offset": 0, "why": "field at: 'hush' is no time"}
    of_others = [{**letter, "topic": "secrets"}, {**letter, "topic": "gone"}]
    run = {"id": "one", "state": "failed", "started_ms": 1, "letters": [letter, *of_others]}
    ada.post("/exports/orders/runs", run)
    rules(NOBODY, "allow", "describe", "orders")
    shown = [nora.get("/exports/orders"), nora.get("/exports"), nora.get("/exports/orders/runs")]
    assert "one" in str(shown[0])
    assert "hush" not in str(shown)
    path = "/exports/orders/runs/one/dead-letters"
    assert nora.refused("GET", path) == (403, "topic_authorization_failed")
    rules(NOBODY, "allow", "read", "orders")
    assert nora.get(path) == {"total": 1, "letters": [{**letter, "is_in_log": True}]}
    told = [each["is_in_log"] for each in ada.get(path)["letters"]]
    assert told == [True, True, False]
    entries = ada.get("/audit")["entries"]
    assert '"letters": 3' in str(entries)  # and their number alone
    assert "hush" not in str(entries)
    assert {each["who"] for each in entries if path in str(each["action"])} == {NOBODY, "ada"}
    assert nora.refused("GET", "/exports/orders/runs/two/dead-letters")[0] == 404


def test_runs_of_an_older_definition_do_not_tell_its_topics(
    people: dict[str, Rest], rules: Any
) -> None:
    ada, nora = people["ada"], people[NOBODY]
    ada.ask("PUT", "/exports/moved", {"topics": ["orders", "secrets"], "target": "/lake"})
    parts = [{"topic": name, "partition": 0, "from": 0, "to": 1, "rows": 0, "dead_letters": 1}
             for name in ("orders", "secrets")]  # fmt: skip
    failed = {"state": "failed", "error": "secrets is gone", "partitions": parts}
    for at, state in enumerate((failed, {**failed, "state": "succeeded", "error": None})):
        ada.post("/exports/moved/runs", {"id": f"run-{at}", "started_ms": at, **state})
    ada.ask("PUT", "/exports/moved", {"topics": ["orders"], "target": "/lake"})
    rules(NOBODY, "allow", "read", "orders")
    told = [nora.get(f"/exports{path}") for path in ("", "/moved", "/moved/runs")]
    assert "run-0" in str(told[2])
    assert "secrets" not in str(told)
    assert nora.get("/exports/moved/runs/run-0/dead-letters")["total"] == 1
    whole = ada.get("/exports/moved/runs")["runs"][1]
    assert (whole["error"], len(whole["partitions"])) == ("secrets is gone", 2)
    assert ada.ask("DELETE", "/exports/moved").status == 204


def test_a_name_of_an_export_or_a_hold_is_not_found_out_by_trying(
    people: dict[str, Rest], rules: Any
) -> None:
    nora = people[NOBODY]
    rules(NOBODY, "allow", "read", "orders")
    export = {"topics": ["orders"], "target": "/lake"}
    hold = {"topic": "orders", "offsets": {"0": 0}}
    for prefix, kind, body in (("/api/v1", "exports", export), ("/export/v1", "holds", hold)):
        told = [nora.ask("PUT", f"/{kind}/{name}", body, prefix=prefix)
                for name in ("secrets", "missing")]  # fmt: skip
        assert [each.status for each in told] == [400, 400]
        assert str(told[0].body).replace("secrets", "missing") == str(told[1].body)


def test_allowed_operations_are_those_of_rules_and_of_the_role(
    people: dict[str, Rest], rules: Any
) -> None:
    rules(NOBODY, "allow", "write", "orders")
    rules(OPERATOR, "deny", "write", "orders")
    rules("vera", "allow", "delete", "orders")
    told = {who: people[who].get("/topics/orders") for who in people}
    assert told[NOBODY]["allowed"] == ["write", "describe"]
    assert told[NOBODY]["configs"] == []
    assert "write" not in told[OPERATOR]["allowed"]
    assert {"read", "alter", "alter_configs"} <= set(told[OPERATOR]["allowed"])
    assert told["vera"]["allowed"] == ["read", "delete", "describe", "describe_configs"]
    assert len(told["ada"]["allowed"]) == 8
    sessions = {who: people[who].get("/session") for who in people}
    assert sessions[NOBODY]["is_ruled"]
    assert (sessions[NOBODY]["role"], sessions[NOBODY]["allowed"]) == ("none", [])
    assert sessions["vera"]["allowed"] == ["describe", "describe_configs"]


def test_a_role_is_explained_as_rules(people: dict[str, Rest], rules: Any) -> None:
    rules("vera", "deny", "read", "secrets")
    told = people["ada"].get("/acls/explain", principal="User:vera")
    assert {each["principal"] for each in told["allow"]} == {"Role:viewer"}
    assert [each["resource_name"] for each in told["deny"]] == ["secrets"]
    asked = {"principal": "User:vera", "operation": "read"}
    found = people["ada"].get("/acls/try", resource_name="orders", **asked)
    assert (found["is_allowed"], found["why"]) == (True, "its role allows it")
    found = people["ada"].get("/acls/try", resource_name="secrets", **asked)
    assert (found["is_allowed"], found["why"]) == (False, "a rule denies it")


def test_one_may_ask_what_oneself_may(people: dict[str, Rest]) -> None:
    nora = people[NOBODY]
    assert nora.get("/acls/explain", principal=f"User:{NOBODY}")["allow"] == []
    refused = nora.ask("GET", "/acls/explain", principal="User:ada")
    assert denied(refused) == (403, "cluster_authorization_failed")


def test_a_rule_of_kafkas_port_holds_for_a_role_as_here(
    broker: RunningBroker, people: dict[str, Rest], rules: Any
) -> None:
    """A token is of a program, and no rule names it."""
    made = people["ada"].post("/tokens", {"name": "vera", "role": "viewer"})
    program = Rest(broker.admin, {"Authorization": f"Bearer {made['token']}"})
    rules("vera", "deny", "all", "orders")
    assert people["vera"].refused("GET", "/topics/orders")[0] == 403
    assert program.get("/topics/orders")["name"] == "orders"
    assert people["ada"].ask("DELETE", "/tokens/vera").status == 204


# Bulk data, and what goes on for long


def test_bulk_data_is_opened_and_closed_by_rules(
    broker: RunningBroker, people: dict[str, Rest], rules: Any
) -> None:
    bulk = Rest(broker.export, people[NOBODY].headers)
    batches = "/export/v1/topics/orders/partitions/0/batches"
    assert bulk.raw("GET", "/export/v1/topics").body == {"topics": []}
    assert denied(bulk.raw("GET", batches)) == (403, "topic_authorization_failed")
    rules(NOBODY, "allow", "describe", "orders")
    assert bulk.raw("GET", "/export/v1/topics").body == {"topics": ["orders"]}
    assert bulk.raw("GET", "/export/v1/topics/orders/plan").status == 200
    assert denied(bulk.raw("GET", batches)) == (403, "topic_authorization_failed")
    rules(NOBODY, "allow", "read", "orders")
    assert b"text" in bulk.raw("GET", batches).body
    assert b"text" in people[NOBODY].raw("GET", batches).body  # by the redirect, with a ticket
    rules(NOBODY, "deny", "read", "orders")
    assert denied(bulk.raw("GET", batches)) == (403, "topic_authorization_failed")


def test_a_stream_of_messages_ends_when_its_right_is_withdrawn(
    broker: RunningBroker, people: dict[str, Rest], rules: Any
) -> None:
    rules(NOBODY, "allow", "read", "orders")
    url = f"http://{broker.admin}/api/v1/topics/orders/messages/live"
    request = urllib.request.Request(url, headers=people[NOBODY].headers)
    with urllib.request.urlopen(request, timeout=30) as stream:
        assert b"following" in stream.readline()
        rules(NOBODY, "deny", "read", "orders")
        while stream.readline():
            pass


# Who may log in


def test_without_enforcement_a_user_without_a_role_is_of_kafka_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(users.argon2, "PasswordHasher", lambda: REAL_HASHER(1, 8, 1))
    make_people(tmp_path / "data", plain=NOBODY)
    with running_broker(tmp_path / "data") as broker:
        login = {"name": NOBODY, "password": PASSWORD}
        assert Rest(broker.admin).refused("POST", "/login", login) == (401, "login_wrong")
        rule = {"principal": "User:otto", "permission": "deny", "operation": "all",
                "resource_type": "topic", "resource_name": "*"}  # fmt: skip
        logged_in(broker, "ada").post("/acls", {"acls": [rule]})
        otto = logged_in(broker, OPERATOR)
        assert otto.post("/topics", {"name": "orders"})["name"] == "orders"
        assert not otto.get("/session")["is_ruled"]
        assert {"write", "alter"} <= set(otto.get("/topics/orders")["allowed"])
