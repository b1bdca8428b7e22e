"""Logins to the console at a service of OpenID Connect."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from appliance.admin import oidc
from appliance.config import OidcConfig, SettingInvalid
from appliance.config.access import STANDARD_AUTHORIZER
from appliance.config.oidc import BACK
from appliance.testing import RunningBroker, running_broker
from tests.support.certificates import Authority
from tests.support.oidc_provider import OidcProvider
from tests.support.people import logged_in, make_people
from tests.support.rest import Rest


class Heard(NamedTuple):
    status: int
    location: str
    cookies: dict[str, str]
    flags: str  # of the cookies


class Browser:
    """Follows nothing by itself."""

    def __init__(self, broker: RunningBroker, provider: OidcProvider, trust: Path) -> None:
        self.broker, self.admin, self.provider = broker, broker.admin, provider
        self._trust = ssl.create_default_context(cafile=str(trust))
        self.cookies: dict[str, str] = {}

    def get(self, path: str) -> Heard:
        line = http.client.HTTPConnection(self.admin, timeout=20)
        text = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return self._ask(line, path, {"Cookie": text} if text else {})

    def _ask(self, line: http.client.HTTPConnection, path: str, headers: dict[str, str]) -> Heard:
        line.request("GET", path, headers=headers)
        answer = line.getresponse()
        answer.read()
        line.close()
        told = answer.msg.get_all("Set-Cookie") or []
        pairs = [each.partition(";")[0].partition("=") for each in told]
        found = {name: value.strip('"') for name, _, value in pairs}
        self.cookies = {k: v for k, v in {**self.cookies, **found}.items() if v}
        return Heard(answer.status, answer.headers.get("Location", ""), found, "|".join(told))

    def at_service(self, url: str) -> str:
        """Logs in there, and is sent back to this path."""
        there = urlsplit(url)
        line = http.client.HTTPSConnection(str(there.hostname), there.port, context=self._trust)
        back = urlsplit(self._ask(line, f"{there.path}?{there.query}", {}).location)
        return f"{back.path}?{back.query}"

    def begin(self) -> str:
        sent = self.get("/api/v1/login/oidc")
        assert sent.status == 303, sent
        return self.at_service(sent.location)

    def log_in(self) -> Heard:
        return self.get(self.begin())

    def session(self) -> Any:
        return self.rest().get("/session")

    def rest(self) -> Rest:
        text = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return Rest(self.admin, {"Cookie": text})


Site = tuple[RunningBroker, OidcProvider, Path]


@contextmanager
def opened(folder: Path, **more: str) -> Iterator[Site]:
    authority = Authority(folder / "ca")
    make_people(folder / "data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(authority.trust))
        patch.setenv("NO_PROXY", "localhost")
        provider = OidcProvider(authority)
        settings = provider.settings(folder / "secret", "http://localhost:8780")
        with running_broker(folder / "data", {**settings, **more}) as broker:
            yield broker, provider, authority.trust
        provider.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with opened(tmp_path_factory.mktemp("oidc")) as made:
        yield made


@pytest.fixture
def browser(site: Site, monkeypatch: pytest.MonkeyPatch) -> Browser:
    made = Browser(*site)
    monkeypatch.setattr(made.provider, "claims", {"sub": "ann", "groups": ["ops"]})
    monkeypatch.setattr(made.provider, "changes", {})
    # a test that is refused must not keep the next one out
    monkeypatch.setattr(oidc, "attempted", lambda *_: None)
    return made


def test_who_logs_in_at_the_service_has_the_role_of_his_group(browser: Browser) -> None:
    assert browser.session()["has_service"]
    back = browser.log_in()
    assert (back.status, back.location) == (303, "/")
    assert "SameSite=Strict" in back.flags
    assert "HttpOnly" in back.flags
    session = browser.session()
    assert (session["name"], session["role"]) == ("oidc:ann", "operator")
    assert browser.rest().ask("GET", "/users").status == 403
    ada = logged_in(browser.broker, "ada")
    noted = [(each["who"], each["action"]) for each in ada.get("/audit")["entries"]]
    assert ("oidc:ann", f"POST {BACK}") in noted
    assert browser.rest().ask("POST", "/logout", {}).status == 204
    assert browser.session()["name"] is None


@pytest.mark.parametrize(
    ("groups", "role"),
    [(["staff"], "viewer"), (["staff", "root"], "admin"), ("ops", "operator")],
)
def test_the_highest_role_of_the_groups_counts(
    browser: Browser, groups: Any, role: str
) -> None:
    browser.provider.claims = {"sub": "ada", "groups": groups}
    assert browser.log_in().status == 303
    session = browser.session()
    assert (session["name"], session["role"]) == ("oidc:ada", role)  # ada is an admin here


def test_where_rules_are_enforced_the_role_decides_as_of_a_token(tmp_path: Path) -> None:
    """No rule names such a person, and neither do those for everybody or for nobody."""
    more = {"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
    with opened(tmp_path, **more) as (broker, provider, trust):
        ada = logged_in(broker, "ada")
        for name in ("free", "ruled"):
            ada.post("/topics", {"name": name})
        rule = {"resource_type": "topic", "resource_name": "ruled", "principal": "User:app",
                "operation": "read"}  # fmt: skip
        ada.post("/acls", {"acls": [rule]})
        for group, status in (("staff", 403), ("root", 204)):
            provider.claims = {"sub": "vic", "groups": [group]}
            vic = Browser(broker, provider, trust)
            assert vic.log_in().status == 303
            assert not vic.session()["is_ruled"]
            assert vic.rest().get("/topics/ruled")["name"] == "ruled"
            assert vic.rest().ask("DELETE", "/topics/free").status == status


def test_a_ticket_for_bulk_data_ends_with_the_session(browser: Browser) -> None:
    """The port of bulk data knows no cookie, and is told who asks."""

    def ticket() -> str:
        sent = urlsplit(browser.get("/export/v1/topics").location)
        return f"{sent.path}?{sent.query}"

    bulk = Rest(browser.broker.export)
    assert browser.log_in().status == 303
    assert bulk.raw("GET", ticket()).status == 200
    left = ticket()
    assert browser.rest().ask("POST", "/logout", {}).status == 204
    assert bulk.raw("GET", left).status == 401


BAD: dict[str, dict[str, Any]] = {
    "no group of ours": {"groups": ["guests"]}, "no groups": {"groups": None},
    "another audience": {"aud": "mail"}, "another issuer": {"iss": "https://evil.example"},
    "expired": {"exp": 1_700_000_000}, "another nonce": {"nonce": "x"},
    "for another party": {"azp": "mail"}, "no name": {"sub": ""},
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_a_token_that_is_not_right_lets_nobody_in(browser: Browser, kind: str) -> None:
    browser.provider.changes = BAD[kind]
    assert browser.log_in().status == 401
    assert browser.session()["name"] is None


def test_a_login_is_of_the_browser_that_began_it(browser: Browser) -> None:
    other = Browser.__new__(Browser)
    other.__dict__.update(browser.__dict__, cookies={})
    back = browser.begin()
    assert other.get(back).status == 401
    other.begin()
    assert other.get(back).status == 401
    query = dict(parse_qsl(urlsplit(back).query))
    changed = urlencode({**query, "state": query["state"][::-1]})
    assert browser.get(f"{BACK}?{changed}").status == 401
    assert browser.get(f"{BACK}?{urlencode({**query, 'iss': 'https://evil'})}").status == 401
    assert browser.get(back).status == 303
    browser.cookies.pop("appliance_session")
    assert browser.get(back).status == 401  # a code is good once


def test_a_login_that_takes_too_long_is_over(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    back = browser.begin()
    monkeypatch.setattr(oidc, "LOGIN_SECONDS", -1)
    assert browser.get(back).status == 401


@pytest.mark.parametrize(
    ("name", "value"),
    [("issuer", "http://id.example"), ("client_id", ""), ("redirect_url", ""),
     ("redirect_url", f"http://box.example{BACK}"), ("redirect_url", "https://box.example/")],
)  # fmt: skip
def test_settings_that_would_not_be_safe_are_refused(name: str, value: str) -> None:
    good = {"issuer": "https://id.example", "client_id": "c",
            "redirect_url": f"https://box.example{BACK}"}  # fmt: skip
    assert OidcConfig(**good).is_on  # type: ignore[arg-type]
    with pytest.raises(SettingInvalid, match=r"admin\.oidc"):
        OidcConfig(**{**good, name: value})  # type: ignore[arg-type]
