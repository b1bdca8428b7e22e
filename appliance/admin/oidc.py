"""Logins at a service by OpenID Connect: the authorization code flow, with PKCE.

    GET /login/oidc        the browser is sent to the service, with a cookie of one login
    GET /login/oidc/back   it comes back with a code, for which we get a signed token

Three values of a login are made from the cookie and a key that this process has: `state`, without
which nobody comes back; `nonce`, which must be in the token; and the verifier of PKCE, without
which nobody gets a token for the code. So nothing is kept for who never comes back, and a code that
was meant for another browser is good for nothing.

Requests to the service run on threads, few at a time (`oidc_service.py`).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from aiohttp import web

from appliance.access.sasl import LoginFailed
from appliance.admin.guard import Denied
from appliance.admin.login import attempted, begun, noted, users_of
from appliance.admin.route import ADMIN, ANYONE, OPERATOR, VIEWER, Call, Param, get
from appliance.admin.users import Identity
from appliance.config import OidcConfig
from appliance.config.oidc import BACK
from appliance.errors import ApplianceError, Refused
from appliance.native._peer_network import network_of
from appliance.process import event_log
from appliance.protocol import ErrorCode

if TYPE_CHECKING:
    from appliance.admin.oidc_service import Service

log = event_log.named("oidc")

COOKIE = "appliance_oidc"
COOKIE_FORM = re.compile(r"[0-9]{1,12}\.[A-Za-z0-9_-]{43}")
LOGIN_SECONDS = 600  # that a login may take, with all that the service asks
ASKED_MAX, WAITING_MAX = 2, 8  # requests to the service at a time, and logins that wait for one
NAME_MAX = 200

KEY = secrets.token_bytes(32)


def made_from(cookie: str, what: str) -> str:
    mac = hmac.digest(KEY, f"{what} {cookie}".encode(), "sha256")
    return base64.urlsafe_b64encode(mac).decode().rstrip("=")


def identity_of(claims: Mapping[str, Any], config: OidcConfig) -> Identity:
    name = claims.get(config.name_claim)
    if not isinstance(name, str) or not 0 < len(name) <= NAME_MAX or not name.isprintable():
        raise LoginFailed(f"{config.name_claim}: got {str(name)[:80]!r}, which is no name")
    told = claims.get(config.groups_claim, [])
    told = told if isinstance(told, list) else [told]
    groups = {each for each in told if isinstance(each, str)}
    ranks = ((ADMIN, config.admins), (OPERATOR, config.operators), (VIEWER, config.viewers))
    for role, names in ranks:
        if groups & set(names.all):
            return Identity(f"oidc:{name}", role, is_elsewhere=True)
    raise LoginFailed(f"{name!r} is in none of the groups that are let in")


class OidcLogins:
    """On the event loop."""

    def __init__(self) -> None:
        self._service: tuple[OidcConfig, Service] | None = None
        self._is_free = asyncio.Semaphore(ASKED_MAX)
        self._waiting = 0

    def service_of(self, call: Call) -> Service:
        config = call.process.config.oidc
        if not config.is_on:
            raise Denied(HTTPStatus.NOT_FOUND, "no_service", "admin.oidc.issuer is not set")
        if users_of(call).is_open:
            raise Denied(HTTPStatus.FORBIDDEN, "setup_required", "the first user has a password")
        if self._service is None or self._service[0] is not config:
            from appliance.admin.oidc_service import Service  # with cryptography

            self._service = config, Service(config)
        return self._service[1]

    async def ask(self, job: Callable[..., dict[str, Any]], *given: str) -> dict[str, Any]:
        if self._waiting >= WAITING_MAX:
            text = f"{self._waiting} logins wait for the service: try again in a second"
            raise Refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED, text)
        self._waiting += 1
        try:
            async with self._is_free:
                return await asyncio.to_thread(job, *given)
        finally:
            self._waiting -= 1


LOGINS = OidcLogins()


async def go(call: Call) -> web.Response:
    service, config = LOGINS.service_of(call), call.process.config.oidc
    try:
        facts = await LOGINS.ask(service.facts)
    except Refused:
        raise
    except ApplianceError as error:
        raise refused(call, error) from error
    cookie = f"{int(time.time())}.{secrets.token_urlsafe(32)}"
    verifier = made_from(cookie, "verifier").encode()
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier).digest()).decode().rstrip("=")
    url = str(facts["authorization_endpoint"])
    asked = {"response_type": "code", "client_id": config.client_id, "scope": "openid profile",
             "redirect_uri": config.redirect_url, "state": made_from(cookie, "state"),
             "nonce": made_from(cookie, "nonce"), "code_challenge": challenge,
             "code_challenge_method": "S256"}  # fmt: skip
    response = to(f"{url}{'&' if '?' in url else '?'}{urlencode(asked)}")
    # Lax: the browser comes back by a link of another site
    response.set_cookie(
        COOKIE, cookie, httponly=True, samesite="Lax", path=BACK, max_age=LOGIN_SECONDS,
        secure=config.redirect_url.startswith("https"),
    )  # fmt: skip
    return response


async def come_back(call: Call) -> web.Response:
    service, config = LOGINS.service_of(call), call.process.config.oidc
    address = network_of(call.request.remote)
    who = f"single sign-on at {address}"  # counted by the address alone: nobody has named himself
    cookie = call.request.cookies.get(COOKIE, "")
    attempted(call, address, who, None)
    try:
        check_own(call, cookie)
        claims = await LOGINS.ask(
            service.claims, call.params["code"] or "", made_from(cookie, "verifier"),
            made_from(cookie, "nonce"),
        )  # fmt: skip
        identity = identity_of(claims, config)
    except Refused:
        raise
    except ApplianceError as error:
        call.trail.failed(address, who)
        raise refused(call, error) from error
    call.guard.attempts.forget(address, who, None)
    log.info("logged in", name=identity.name, role=identity.role, peer=address)
    response = to("/")
    for name, morsel in begun(call, identity.name, identity).cookies.items():
        response.cookies[name] = morsel
    response.del_cookie(COOKIE, path=BACK)
    await noted(call, identity.name, "/login")
    return response


def check_own(call: Call, cookie: str) -> None:
    """That this browser began this login, and not long ago."""
    if not COOKIE_FORM.fullmatch(cookie):
        raise LoginFailed("the browser shows no login that has begun")
    if not 0 <= time.time() - int(cookie.partition(".")[0]) <= LOGIN_SECONDS:
        raise LoginFailed("the login has begun too long ago")
    state = made_from(cookie, "state").encode()
    if not hmac.compare_digest((call.params["state"] or "").encode(), state):
        raise LoginFailed("the state is that of another login")
    if call.params["error"] or not call.params["code"]:
        raise LoginFailed(f"the service said {str(call.params['error'])[:80]!r}")
    if call.params["iss"] not in (None, call.process.config.oidc.issuer):
        raise LoginFailed(f"another service answered: {call.params['iss'][:80]!r}")


def refused(call: Call, error: Exception) -> Denied:
    """The log has the reason."""
    log.warning("login failed", peer=call.request.remote, why=error)
    text = "the login at the service failed; the log has the reason. Begin again at /"
    return Denied(HTTPStatus.UNAUTHORIZED, "login_wrong", text)


def to(url: str) -> web.Response:
    return web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": url})


# What services send beside it: none of it is looked at
OTHERS = ("error_description", "error_uri", "session_state", "scope", "authuser", "hd", "prompt")

ROUTES = [
    get("/login/oidc", go, None, "Log in at the service.", role=ANYONE, status=303),
    get(
        BACK.removeprefix("/api/v1"),
        come_back,
        None,
        "Where the service sends the browser back to.",
        role=ANYONE,
        status=303,
        params=(
            Param("code", str, "For which the token is given."),
            Param("state", str, "What the login began with."),
            Param("iss", str, "The issuer."),
            Param("error", str, "Why there is no code."),
            *(Param(each, str, "Not looked at.") for each in OTHERS),
        ),
    ),
]
