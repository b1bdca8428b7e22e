"""The table of docs/access.md, asked of a broker cell by cell; and that it leaves out no route."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import argon2
import pytest

from appliance import admin_http
from appliance.admin import access_page, api, users
from appliance.admin.broker_process import Process
from appliance.admin.console import Console
from appliance.admin.route import ANYONE, get
from appliance.config import BrokerConfig
from appliance.config.access import STANDARD_AUTHORIZER
from appliance.server import Server
from appliance.testing import RunningBroker, running_broker
from tests.support.people import PEOPLE, asked, denied, is_let_in, logged_in, make_people
from tests.support.rest import Rest

PAGE = Path(__file__).parents[2] / "docs" / "access.md"
REAL_HASHER = argon2.PasswordHasher
BLIND = "bob"
BODIES = {f"{each.method} {each.url}" for each in api.ROUTES if each.body is not None}
ELSEWHERE = "http://evil.example"
NOT_OURS = ("evil.example", "evil.example:8780", "127.0.0.1.evil.example", "", "10.9.8.7")


def table(mark: str = "access") -> dict[str, dict[str, str]]:
    """Route to its cells, as the page has them."""
    found = re.search(rf"<!-- {mark} -->\n(.*)<!-- /{mark} -->", PAGE.read_text(), re.DOTALL)
    assert found, f"wanted the two {mark} marks"
    head, _, *rows = [line.strip("| ").split(" | ") for line in found[1].splitlines()]
    return {row[0].strip("`"): dict(zip(head[1:], row[1:], strict=True)) for row in rows}


TABLE = table()
# A role is a bundle of rules once rules are enforced: nothing else may change by that
RULES = {"roles alone": {}, "rules enforced": {"authorizer.class.name": STANDARD_AUTHORIZER}}


@pytest.fixture(scope="module", params=RULES.values(), ids=RULES.keys())
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    patch = pytest.MonkeyPatch()
    # a hash of the real cost takes a core's tenth of a second, and this file makes hundreds
    patch.setattr(users.argon2, "PasswordHasher", lambda: REAL_HASHER(1, 8, 1))
    path = tmp_path_factory.mktemp("access") / "data"
    make_people(path, BLIND)
    with running_broker(path, request.param) as running:
        yield running
    patch.undo()


@pytest.fixture(scope="module")
def read_only(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    path = tmp_path_factory.mktemp("read-only") / "data"
    with running_broker(path, {"admin.read.only": "true"}) as running:
        yield running


Asker = Callable[[str], list[Any]]


@pytest.fixture(scope="module")
def askers(broker: RunningBroker, read_only: RunningBroker) -> dict[str, Asker]:
    """Heading to what asks for a route in that way, maybe in several: all must get the same."""
    over = logged_in(broker, "ada")
    assert over.ask("POST", "/logout").status == 204
    sessions = {each: logged_in(broker, each) for each in (*PEOPLE, BLIND)}
    assets = Console().prefix

    def ask(rest: Rest, route: str, **headers: str) -> Any:
        method, url = route.split()
        path = url.replace("/assets/...", f"{assets}/app.css")
        return asked(rest, method, path, route in BODIES, **headers)

    def by(name: str) -> Asker:
        def asker(route: str) -> list[Any]:
            ends_it = route.endswith("/logout")  # then the next one needs a session too
            return [ask(logged_in(broker, name) if ends_it else sessions[name], route)]

        return asker

    ada, own = sessions["ada"], f"http://{broker.admin}"
    sites = [
        {"Origin": ELSEWHERE},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": f"{own.rpartition(':')[0]}:1"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors"},
        {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "cors"},
    ]
    return {
        "no login": lambda route: [
            ask(Rest(broker.admin, headers), route)
            for headers in ({}, {"Cookie": "appliance_session=x"}, {"Authorization": "Bearer x"})
        ],
        "session over": lambda route: [ask(over, route)],
        **{role: by(name) for name, role in PEOPLE.items()},
        "admin, no messages": by(BLIND),
        "other Host": lambda route: [ask(ada, route, Host=host) for host in NOT_OURS],
        "other site": lambda route: [ask(ada, route, **headers) for headers in sites],
        "read-only": lambda route: [ask(Rest(read_only.admin), route)],
    }


BY_RULES = {
    "topic_authorization_failed",
    "group_authorization_failed",
    "cluster_authorization_failed",
}
CODES = {
    "no login": {"login_required"},
    "session over": {"login_required"},
    "viewer": {"role_required", *BY_RULES},
    "operator": {"role_required", *BY_RULES},
    "admin, no messages": {"messages_hidden"},
    "other Host": {"host_unknown"},
    "other site": {"cross_site", "cross_origin"},
    "read-only": {"read_only"},
}


@pytest.mark.parametrize("route", TABLE)
def test_a_route_answers_as_the_table_says(route: str, askers: dict[str, Asker]) -> None:
    for heading, cell in TABLE[route].items():
        for answer in askers[heading](route):
            if cell == access_page.YES:
                assert is_let_in(answer), (heading, answer.status, answer.body)
                continue
            status, code = denied(answer)
            assert (str(status), code in CODES[heading]) == (cell, True), (heading, code)


def served(tmp_path: Path) -> set[str]:
    """Every route that the program has, whatever put it there."""
    process = cast(Process, Server(BrokerConfig(data_dir=tmp_path)))
    app = admin_http.make_app(process)
    assets = re.compile(r"/assets/.+")
    return {
        f"{each.method} {assets.sub('/assets/...', each.resource.canonical)}"
        for each in app.router.routes()
        if each.resource is not None and each.method != "HEAD"  # a GET without its body
    }


def test_the_table_has_every_route_that_is_served(tmp_path: Path) -> None:
    assert set(TABLE) == served(tmp_path)


def test_a_route_that_goes_around_the_table_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    around = admin_http.web.get("/around", admin_http.get_livez)
    monkeypatch.setattr(admin_http, "ROUTES", [*admin_http.ROUTES, around])
    assert served(tmp_path) - set(TABLE) == {"GET /around"}


def test_the_page_has_the_table_as_it_is() -> None:
    assert admin_http.access_table() in PAGE.read_text(), "print it: python -m appliance.admin_http"


def test_every_column_is_asked_and_can_refuse() -> None:
    headings = set(access_page.COLUMNS)
    assert headings == set(CODES) | {"admin"}
    for heading in CODES:
        assert any(row[heading] != access_page.YES for row in TABLE.values()), heading


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_what_is_in_no_row_is_nowhere(broker: RunningBroker, method: str) -> None:
    ada = logged_in(broker, "ada")
    for path in ("/api", "/api/v1", "/api/v1/", "/api/v1/topics/", "/API/v1/topics", "/assets/",
                 "//api/v1/topics", "/api/v1/../v1/topics", "/metrics/", "/static/app.js"):
        assert ada.raw(method, path).status in (404, 405), path


def test_a_link_from_another_site_leads_here(broker: RunningBroker) -> None:
    headers = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    ada = logged_in(broker, "ada")
    assert asked(ada, "GET", "/api/v1/topics", False, **headers).status == 200
    assert denied(asked(ada, "POST", "/api/v1/topics", True, **headers)) == (403, "cross_site")


def test_before_the_first_password_other_sites_and_names_are_refused_too(
    tmp_path: Path
) -> None:
    with running_broker(tmp_path) as broker:
        rest = Rest(broker.admin)
        for route, row in TABLE.items():
            method, url = route.split()
            if row["other Host"] == access_page.YES:
                continue
            has_body = route in BODIES
            assert denied(asked(rest, method, url, has_body, Host="evil.example"))[0] == 421
            assert denied(asked(rest, method, url, has_body, Origin=ELSEWHERE))[0] == 403


def test_the_table_can_be_wrong() -> None:
    route = get("/x", lambda _: None, None, "", role=ANYONE, reads_messages=True)
    (line,) = access_page.as_markdown([], [route]).splitlines()[2:]
    assert line == (
        "| `GET /api/v1/x` | yes | yes | yes | yes | yes | 403 | 421 | 403 | yes |"
    )
