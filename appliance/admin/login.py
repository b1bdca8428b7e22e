"""Logging in and out, the first user, users and tokens over REST."""

from __future__ import annotations

import hmac
from collections import Counter
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Literal, TypedDict

from aiohttp import web
from typing_extensions import NotRequired

from appliance.access.acls import CLUSTER_NAME, Operation
from appliance.access.audit import NAME_MAX
from appliance.access.login_attempts import LoginRefused
from appliance.access.users import mechanisms_in_words
from appliance.admin.body_schema import Limits, row_of
from appliance.admin.guard import COOKIE, Denied, Guard
from appliance.admin.rights import CLUSTER, TOPIC
from appliance.admin.route import (
    ADMIN,
    ANYONE,
    OPERATOR,
    PREFIX,
    VIEWER,
    Call,
    NotServing,
    delete,
    get,
    patch,
    post,
)
from appliance.admin.token_rows import AdminToken
from appliance.admin.users import FIRST_USER, Identity, Users
from appliance.errors import ApplianceError
from appliance.native._peer_network import network_of

DAY_MS = 86_400_000
DEVICE_COOKIE = "appliance_device"
DEVICE_SECONDS = 365 * 86_400  # a browser is known for so long since its last login
DAYS_MAX = 3650  # of a token: longer is for ever, and should say so

OPEN = (
    "There is no password: whoever reaches these pages may do everything. They are on loopback "
    "only until one is set: open the setup link that the broker printed."
)
NO_ADMIN = "There is no administrator yet: open the setup link that the broker printed."

Role = Literal["viewer", "operator", "admin"]
UserRole = Literal["none", "viewer", "operator", "admin"]  # none: the user is of Kafka alone


class Login(TypedDict):
    name: str
    password: str


class Setup(TypedDict):
    token: str  # of the link that the first start prints
    name: str
    password: str


class SessionAnswer(TypedDict):
    name: str | None  # None: nobody is logged in
    role: str | None
    may_read: bool  # messages
    is_ruled: bool  # access rules decide, with the role as one of them
    allowed: list[str]  # operations on the cluster; topics and groups have their own
    creates_topics: bool  # of some names
    defines_exports: bool  # of some topics
    needs_setup: bool  # nobody has a password yet, so everybody may do everything
    is_read_only: bool
    has_service: bool  # at which one may log in, by GET /login/oidc
    warning: str | None


class NewPassword(TypedDict):
    old_password: str
    password: str


class User(TypedDict):
    name: str
    role: str  # none: in the console
    may_read: bool  # messages
    created_ms: int
    sessions: int
    kafka: list[str]  # mechanisms by which the user may log in to Kafka


class UserList(TypedDict):
    users: list[User]


class NewUser(TypedDict):
    name: str
    role: UserRole
    password: str
    may_read: NotRequired[bool]  # true, unless told otherwise


class UserChange(TypedDict):
    role: NotRequired[UserRole]
    password: NotRequired[str]
    may_read: NotRequired[bool]


class Token(TypedDict):
    name: str
    role: str
    may_read: bool
    created_ms: int
    expires_ms: int | None  # None: never
    used_ms: int | None  # None: not since the start


class TokenList(TypedDict):
    tokens: list[Token]


class NewToken(TypedDict):
    name: str
    role: Role
    may_read: NotRequired[bool]
    days: NotRequired[Annotated[int, Limits(1, DAYS_MAX)]]  # that it is good for; for ever, else


class MadeToken(Token):
    token: str  # told this once


class SessionRow(TypedDict):
    session: str
    name: str
    peer: str
    software: str
    age_s: float
    unused_s: float
    is_own: bool  # that of who asks


class SessionList(TypedDict):
    sessions: list[SessionRow]


def users_of(call: Call) -> Users:
    users = call.guard.users()
    if users is None:
        raise NotServing(f"the broker is {call.process.status}")
    return users


def attended(call: Call) -> Users:
    """For what may make an administrator, or let somebody log in: before the first user that takes
    the secret of the link, as everybody on the machine may ask."""
    users = users_of(call)
    if users.is_open:
        raise Denied(HTTPStatus.FORBIDDEN, "setup_required", FIRST_USER)
    return users


def get_session(call: Call) -> SessionAnswer:
    guard: Guard = call.guard
    users, identity = guard.users(), guard.identity(call.request)
    is_open = users is not None and users.lets_everybody_in
    rights = None if identity is None else guard.rights(identity, call.request)
    allowed = [] if rights is None else rights.allowed(CLUSTER, CLUSTER_NAME)
    creates = rights is not None and rights.may_some(Operation.CREATE, TOPIC, OPERATOR)
    exports = rights is not None and rights.may_some(Operation.READ, TOPIC, OPERATOR)
    return {
        "name": (identity.name or None) if identity is not None else None,
        "role": identity.role if identity is not None else None,
        "may_read": identity is not None and identity.may_read,
        "is_ruled": rights is not None and rights.are_ruled,
        "allowed": allowed,
        "creates_topics": creates or "create" in allowed,
        "defines_exports": exports,
        "needs_setup": is_open,
        "is_read_only": call.process.config.admin.is_read_only,
        "has_service": call.process.config.oidc.is_on,
        "warning": OPEN if is_open else NO_ADMIN if users is not None and users.is_open else None,
    }


async def set_up(call: Call) -> web.Response:
    """The first user, with the secret of the link; it is good once."""
    users, body = users_of(call), call.body
    secret = call.process.setup_secret
    if not users.is_open:
        raise Denied(HTTPStatus.FORBIDDEN, "already_set_up", "there is a user already: log in")
    address = network_of(call.request.remote)
    attempted(call, address, "the first user", None)
    if not secret or not hmac.compare_digest(secret.encode(), body["token"].encode()):
        call.trail.failed(address, "the first user")
        raise Denied(HTTPStatus.FORBIDDEN, "token_wrong", "token: it is not that of the setup link")
    call.process.setup_secret = ""  # before there is time for another
    try:
        await users.make(body["name"], ADMIN, body["password"])
    except ApplianceError:
        call.process.setup_secret = secret
        raise
    await call.process.has_first_user()
    return await begun_at(call, body["name"], "/setup")


async def log_in(call: Call) -> web.Response:
    users, name = users_of(call), call.body["name"]
    address = network_of(call.request.remote)
    device = users.known_device(name, call.request.cookies.get(DEVICE_COOKIE, ""))
    if device is None:
        users.check_room()
    attempted(call, address, name, device)
    identity = await users.verify(name, call.body["password"], is_known=device is not None)
    if identity is None:
        call.trail.failed(address, name)
        raise Denied(HTTPStatus.UNAUTHORIZED, "login_wrong", "the name or the password is wrong")
    call.guard.attempts.forget(address, name, device)
    return await begun_at(call, identity.name, "/login")


def attempted(call: Call, address: str, name: str, device: str | None) -> None:
    """Counted, before anything is looked at."""
    try:
        call.guard.attempts.take(address, name[:NAME_MAX], device)
    except LoginRefused:
        call.trail.failed(address, name, is_refused=True)
        raise


async def begun_at(call: Call, name: str, path: str) -> web.Response:
    """By who is somebody from now on: that is noted."""
    response = begun(call, name)
    await noted(call, name, path)
    return response


async def noted(call: Call, name: str, path: str) -> None:
    (route,) = [each for each in ROUTES if (each.method, each.path) == ("POST", path)]
    somebody = replace(call, identity=replace(call.identity, name=name))
    await call.trail.note(somebody, route, HTTPStatus.NO_CONTENT)


def begun(call: Call, name: str, identity: Identity | None = None) -> web.Response:
    """A session always has a new secret, whatever the browser came with, and ends that."""
    sessions, response = call.guard.sessions, web.Response(status=HTTPStatus.NO_CONTENT)
    sessions.end(call.request.cookies.get(COOKIE, ""))
    software = call.request.headers.get("User-Agent", "")
    secret = sessions.begin(name, call.request.remote or "", software, identity)
    is_secure = call.request.secure or call.process.config.admin.is_behind_tls
    response.set_cookie(
        COOKIE, secret, httponly=True, samesite="Strict", secure=is_secure, path="/"
    )
    if identity is not None:
        return response  # a browser that knows no password here
    response.set_cookie(
        DEVICE_COOKIE, users_of(call).device_of(name), max_age=DEVICE_SECONDS,
        httponly=True, samesite="Strict", secure=is_secure, path=f"{PREFIX}/login",
    )  # fmt: skip
    return response


async def log_out(call: Call) -> web.Response:
    sessions, secret = call.guard.sessions, call.request.cookies.get(COOKIE, "")
    name = sessions.name_of(secret)
    sessions.end(secret)
    if name is not None:
        await noted(call, name, "/logout")
    response = web.Response(status=HTTPStatus.NO_CONTENT)
    response.del_cookie(COOKIE, path="/")
    return response


async def change_password(call: Call) -> web.Response:
    users = users_of(call)
    device = f"session of {call.who}"
    call.guard.attempts.take("", call.who, device)
    identity = await users.verify(call.who, call.body["old_password"], is_known=True)
    if identity is None:
        raise Denied(HTTPStatus.FORBIDDEN, "login_wrong", "old_password is wrong")
    call.guard.attempts.forget("", call.who, device)
    await users.change(identity.name, password=call.body["password"])
    call.guard.sessions.end_all_of(identity.name)
    return begun(call, identity.name)


def list_users(call: Call) -> UserList:
    users = users_of(call)
    sessions = Counter(each.name for each, _, _ in call.guard.sessions.all())
    return {
        "users": [
            row_of(
                User,
                each,
                may_read=bool(each.may_read),
                sessions=sessions[each.name],
                kafka=mechanisms_in_words(users.table.credentials(each.name).values()),
            )
            for each in users.users()
        ]
    }


async def create_user(call: Call) -> UserList:
    users, body = attended(call), call.body
    await users.make(body["name"], body["role"], body["password"], body.get("may_read", True))
    return list_users(call)


async def change_user(call: Call) -> UserList:
    users, name = attended(call), call.path["user"]
    await users.change(name, **call.body)
    call.guard.sessions.end_all_of(name)
    return list_users(call)


async def confirm_user(call: Call) -> UserList:
    users = attended(call)
    await users.confirm(call.path["user"])
    return list_users(call)


async def delete_user(call: Call) -> None:
    """Sessions end with him (`guard.py`)."""
    await attended(call).remove(call.path["user"])


def list_tokens(call: Call) -> TokenList:
    users = users_of(call)
    return {"tokens": [token_row(users, each) for each in users.tokens()]}


def token_row(users: Users, token: AdminToken) -> Token:
    return row_of(Token, token, may_read=bool(token.may_read), used_ms=users.used_ms(token))


async def create_token(call: Call) -> MadeToken:
    users, body = users_of(call), call.body
    if users.is_open:
        raise Denied(HTTPStatus.FORBIDDEN, "setup_required", "without users no token is needed")
    days = body.get("days")
    expires_ms = None if days is None else users.now_ms() + days * DAY_MS
    made, secret = await users.make_token(
        body["name"], body["role"], body.get("may_read", True), expires_ms
    )
    return {**token_row(users, made), "token": secret}


async def delete_token(call: Call) -> None:
    await users_of(call).remove_token(call.path["token"])


def list_sessions(call: Call) -> SessionList:
    own = call.guard.sessions.find(call.request.cookies.get(COOKIE, ""))
    return {
        "sessions": [
            row_of(SessionRow, one, session=one.id, age_s=age, unused_s=unused, is_own=own is one)
            for one, age, unused in call.guard.sessions.all()
        ]
    }


def end_session(call: Call) -> None:
    call.guard.sessions.end_one(call.path["session"])


def end_sessions(call: Call) -> None:
    """Of one user. Who was deleted has none."""
    call.guard.sessions.end_all_of(call.path["user"])


ROUTES = [
    get("/session", get_session, SessionAnswer, "Who is logged in.", role=ANYONE),
    post("/setup", set_up, None, "Make the first user.", body=Setup, role=ANYONE, status=204),
    post("/login", log_in, None, "Begin a session.", body=Login, role=ANYONE, status=204),
    post("/logout", log_out, None, "End the session.", role=ANYONE, status=204),
    post(
        "/session/password",
        change_password,
        None,
        "Another password for oneself; other sessions end.",
        body=NewPassword,
        role=VIEWER,
        status=204,
        rights=(),
    ),
    get("/users", list_users, UserList, "Users and their roles.", role=ADMIN),
    post("/users", create_user, UserList, "Make a user.", body=NewUser, role=ADMIN, status=201),
    patch(
        "/users/{user}",
        change_user,
        UserList,
        "Another role, right or password; the user's sessions end.",
        body=UserChange,
        role=ADMIN,
    ),
    post(
        "/users/{user}/confirmation",
        confirm_user,
        UserList,
        "Let a user log in to Kafka whose password was set when everybody could set it.",
        role=ADMIN,
    ),
    delete("/users/{user}", delete_user, None, "Delete a user.", role=ADMIN),
    get("/sessions", list_sessions, SessionList, "Who is logged in, and from where.", role=ADMIN),
    delete("/sessions/{session}", end_session, None, "End a session.", role=ADMIN),
    delete("/users/{user}/sessions", end_sessions, None, "End all sessions of a user.", role=ADMIN),
    get("/tokens", list_tokens, TokenList, "Tokens of programs.", role=ADMIN),
    post(
        "/tokens",
        create_token,
        MadeToken,
        "Make a token; its secret is told this once.",
        body=NewToken,
        role=ADMIN,
        status=201,
    ),
    delete("/tokens/{token}", delete_token, None, "Delete a token.", role=ADMIN),
]
