"""Decides who is let in, by host, origin, identity and role.

    Host       one of our names: a foreign page whose name points here must not reach us
    Origin     our own pages or no browser; other sites may only link here, which changes nothing
    identity   a session's cookie, or a token in `Authorization: Bearer`, or a session there
    role       required by the route, and the right to read messages if it returns some; once
               access rules are enforced, the route's rights instead (`rights.py`); with
               `admin.read.only` nobody changes anything

Before the first password everybody who reaches the pages is an admin; the pages are on loopback
then, whatever admin.address says (`server.py`). Where rules are enforced a password of Kafka's port
alone is one: from then on nobody is let in without a login, and the first admin comes by the link.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Protocol
from urllib.parse import urlsplit

from appliance.access.login_attempts import LoginAttempts
from appliance.access.scram_keys import HASHES
from appliance.admin.broker_process import Process
from appliance.admin.rights import Rights
from appliance.admin.route import ADMIN, ANYONE, Route
from appliance.admin.sessions import Sessions
from appliance.admin.token_rows import TokenRows
from appliance.admin.users import FIRST_USER, Identity, Users
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError, Refused

COOKIE = "appliance_session"
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
SAFE = ("GET", "HEAD", "OPTIONS")
SAME_SITE = ("same-origin", "none")  # none: a typed address, or a bookmark
NOBODY = Identity("", ADMIN)


class Denied(ApplianceError):
    kafka_code = 31

    def __init__(self, status: HTTPStatus, code: str, text: str) -> None:
        super().__init__(text)
        self.status, self.code = status, code


class Asked(Protocol):
    """A request as far as the guard looks at it: aiohttp's, or one of the bulk port."""

    @property
    def method(self) -> str: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def cookies(self) -> Mapping[str, str]: ...
    @property
    def transport(self) -> asyncio.BaseTransport | None: ...
    @property
    def match_info(self) -> Mapping[str, str]: ...
    @property
    def remote(self) -> str | None: ...


class Guard:
    def __init__(self, process: Process) -> None:
        self._process = process
        self._users: tuple[Broker, Users] | None = None
        self.sessions = Sessions()
        self.attempts = LoginAttempts()

    def users(self) -> Users | None:
        """None: the catalog is not open yet."""
        broker = self._process.broker
        if broker is None:
            return None
        if self._users is None or self._users[0] is not broker:
            users = Users(
                broker.users, TokenRows(broker.catalog), broker.clock.latest_ms,
                broker.authorizer.is_enforced,
            )  # fmt: skip
            self._users = (broker, users)
            broker.users.on_withdrawn(self._withdrawn)
            self.attempts = broker.login_attempts  # of both ports
        return self._users[1]

    def _withdrawn(self, name: str, mechanisms: Collection[int] | None) -> None:
        """At Kafka's port, too. None: the user is gone, and another may get his name. All of them:
        he has another password, perhaps since he was at another broker of the cluster."""
        if mechanisms is None or {*mechanisms} == {*HASHES}:
            self.sessions.end_all_of(name)

    def check(self, request: Asked, route: Route, sent: Identity | None = None) -> Identity:
        """`sent`: by the admin port, who has looked at what was shown there."""
        self._check_host(request)
        self._check_site(request)
        self._check_origin(request)
        is_change = request.method not in SAFE and route.role != ANYONE
        if is_change and self._process.config.admin.is_read_only:
            raise Denied(HTTPStatus.FORBIDDEN, "read_only", "admin.read.only is true")
        if route.role == ANYONE:
            return NOBODY
        identity = self.identity(request) if sent is None else self._now(sent)
        if identity is None:
            raise self._login_required()
        self._check_allowed(identity, request, route)
        return identity

    def _login_required(self) -> Denied:
        users = self.users()
        why = f"; {FIRST_USER}" if users is not None and users.is_open else ""
        text = f"log in first, or send a token{why}"
        return Denied(HTTPStatus.UNAUTHORIZED, "login_required", text)

    def rights(self, identity: Identity, request: Asked) -> Rights:
        broker = self._process.broker
        authorizer = broker.authorizer if broker is not None else None
        return Rights(authorizer, identity, request.remote or "")

    def _check_allowed(self, identity: Identity, request: Asked, route: Route) -> None:
        rights = self.rights(identity, request)
        if route.rights is not None and rights.are_ruled:
            if route.reads_messages and not identity.shows_messages:
                raise messages_hidden(identity)
            rights.check_route(route, request.match_info)
            return
        if not identity.may(route.role):
            raise Denied(
                HTTPStatus.FORBIDDEN,
                "role_required",
                f"{identity.name} has the role {identity.role}, wanted {route.role}",
            )
        if route.reads_messages and not identity.may_read:
            raise messages_hidden(identity)

    def may_go_on(self, request: Asked, route: Route, sent: Identity | None = None) -> bool:
        """Whether who was let in would be again."""
        identity = self.identity(request, is_used=False) if sent is None else self._now(sent)
        if identity is None:
            return False
        try:
            self._check_allowed(identity, request, route)
        except (Denied, Refused):
            return False
        return True

    def identity(self, request: Asked, *, is_used: bool = True) -> Identity | None:
        """`is_used`: somebody asks. A stream that looks whether it may go on would keep the session
        of a page that was forgotten."""
        users = self.users()
        if users is None:
            # only the open catalog knows whether there are users, of Kafka alone too
            is_open = not self._process.has_users and not self._process.config.enforces_rights
            return NOBODY if is_open else None
        if users.lets_everybody_in:
            return NOBODY
        scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
        is_bearer = scheme.lower() == "bearer"
        if is_bearer and (token := users.of_token(secret.strip())) is not None:
            return token
        # a command shows its session as it does a token: no page can make a browser do that
        shown = secret.strip() if is_bearer else request.cookies.get(COOKIE, "")
        find = self.sessions.find if is_used else self.sessions.look
        session = find(shown)
        if session is None:
            return None
        return session.identity or users.find(session.name)

    def _now(self, sent: Identity) -> Identity | None:
        """What he may may have changed since."""
        users = self.users()
        if users is None:
            return None
        if users.lets_everybody_in:
            return NOBODY
        if sent.is_elsewhere:
            return self.sessions.elsewhere(sent.name)
        if sent.is_token:
            return users.token_named(sent.name)
        return users.find(sent.name) if self.sessions.has_any_of(sent.name) else None

    # Browsers

    def _check_host(self, request: Asked) -> None:
        name = host_of(request.headers.get("Host", ""))
        config = self._process.config
        told = (config.admin_address, config.export_listens, config.export.advertised_address)
        if name in LOOPBACK_NAMES or name in config.admin.hosts.names:
            return
        if (name and name in [each.host for each in told]) or is_own_address(request, name):
            return
        raise Denied(
            HTTPStatus.MISDIRECTED_REQUEST,
            "host_unknown",
            f"Host: got {name[:80]!r}, which is no name of this broker; add it to admin.hosts",
        )

    def _check_site(self, request: Asked) -> None:
        """Other sites may lead here by a link, and do nothing else."""
        site = request.headers.get("Sec-Fetch-Site")
        if site is None or site in SAME_SITE:
            return
        if request.method in SAFE and request.headers.get("Sec-Fetch-Mode") == "navigate":
            return
        raise Denied(HTTPStatus.FORBIDDEN, "cross_site", f"Sec-Fetch-Site: got {site[:40]!r}")

    def _check_origin(self, request: Asked) -> None:
        origin = request.headers.get("Origin")
        if origin is not None and place_of(origin) != request.headers.get("Host", ""):
            raise Denied(
                HTTPStatus.FORBIDDEN,
                "cross_origin",
                f"Origin: got {origin[:80]!r}, wanted the console's own",
            )


def messages_hidden(identity: Identity) -> Denied:
    return Denied(HTTPStatus.FORBIDDEN, "messages_hidden", f"{identity.name} may not read messages")


def place_of(origin: str) -> str | None:
    """None: it is no URL."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def host_of(text: str) -> str:
    """Without the port."""
    try:
        return urlsplit(f"//{text}").hostname or ""
    except ValueError:
        return ""


def is_own_address(request: Asked, name: str) -> bool:
    """The address at which the connection arrived: no name can be made to look like one."""
    try:
        asked = ipaddress.ip_address(name)
    except ValueError:
        return False
    local = request.transport.get_extra_info("sockname") if request.transport else None
    return local is not None and asked == ipaddress.ip_address(local[0])
