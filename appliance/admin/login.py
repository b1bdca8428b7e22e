"""Logging in and out, the first user, users and tokens over REST."""

from __future__ import annotations

import hmac
from http import HTTPStatus
from typing import Literal, TypedDict

from aiohttp import web
from typing_extensions import NotRequired

from appliance.admin.guard import COOKIE, Denied, Guard
from appliance.admin.route import ADMIN, ANYONE, VIEWER, Call, NotServing, delete, get, patch, post
from appliance.admin.users import Users

Role = Literal["viewer", "operator", "admin"]


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
    needs_setup: bool  # nobody has a password yet
    is_read_only: bool
    warning: str | None


class NewPassword(TypedDict):
    old_password: str
    password: str


class User(TypedDict):
    name: str
    role: str
    created_ms: int


class UserList(TypedDict):
    users: list[User]


class NewUser(TypedDict):
    name: str
    role: Role
    password: str


class UserChange(TypedDict):
    role: NotRequired[Role]
    password: NotRequired[str]


class Token(TypedDict):
    name: str
    role: str
    created_ms: int


class TokenList(TypedDict):
    tokens: list[Token]


class NewToken(TypedDict):
    name: str
    role: Role


class MadeToken(Token):
    token: str  # told this once


def users_of(call: Call) -> Users:
    users = call.guard.users()
    if users is None:
        raise NotServing(f"the broker is {call.process.status}")
    return users


def get_session(call: Call) -> SessionAnswer:
    guard: Guard = call.guard
    users, identity = guard.users(), guard.identity(call.request)
    is_open = users is not None and users.is_open
    is_known = identity is not None and not is_open
    return {
        "name": identity.name if identity is not None and is_known else None,
        "role": identity.role if identity is not None else None,
        "needs_setup": is_open,
        "is_read_only": call.process.config.admin.is_read_only,
        "warning": "There is no password: whoever reaches these pages may do everything. They are "
        "on loopback only. Open the setup link that the broker printed."
        if is_open
        else None,
    }


async def set_up(call: Call) -> web.Response:
    """The first user, with the secret of the link; it is good once."""
    users, body = users_of(call), call.body
    secret = call.process.setup_secret
    if not users.is_open:
        raise Denied(HTTPStatus.FORBIDDEN, "already_set_up", "there is a user already: log in")
    peer = f"address {call.request.remote}"
    call.guard.failures.check(peer)
    if not secret or not hmac.compare_digest(secret.encode(), body["token"].encode()):
        call.guard.failures.note(peer)
        raise Denied(HTTPStatus.FORBIDDEN, "token_wrong", "token: it is not that of the setup link")
    await users.put(body["name"], ADMIN, body["password"])
    call.process.setup_secret = ""
    return begun(call, body["name"])


async def log_in(call: Call) -> web.Response:
    users, body = users_of(call), call.body
    keys = (f"user {body['name'][:64]}", f"address {call.request.remote}")
    call.guard.failures.check(*keys)
    identity = await users.verify(body["name"], body["password"])
    if identity is None:
        call.guard.failures.note(*keys)
        raise Denied(HTTPStatus.UNAUTHORIZED, "login_wrong", "the name or the password is wrong")
    call.guard.failures.forget(*keys)
    return begun(call, identity.name)


def begun(call: Call, name: str) -> web.Response:
    response = web.Response(status=HTTPStatus.NO_CONTENT)
    response.set_cookie(
        COOKIE,
        call.guard.sessions.begin(name),
        httponly=True,
        samesite="Strict",
        secure=call.request.secure or call.process.config.admin.is_behind_tls,
        path="/",
    )
    return response


async def log_out(call: Call) -> web.Response:
    call.guard.sessions.end(call.request.cookies.get(COOKIE, ""))
    response = web.Response(status=HTTPStatus.NO_CONTENT)
    response.del_cookie(COOKIE, path="/")
    return response


async def change_password(call: Call) -> web.Response:
    users = users_of(call)
    key = f"user {call.who}"
    call.guard.failures.check(key)
    identity = await users.verify(call.who, call.body["old_password"])
    if identity is None:
        call.guard.failures.note(key)
        raise Denied(HTTPStatus.FORBIDDEN, "login_wrong", "old_password is wrong")
    await users.put(identity.name, identity.role, call.body["password"])
    call.guard.sessions.end_all_of(identity.name)
    return begun(call, identity.name)


def list_users(call: Call) -> UserList:
    return {
        "users": [
            {"name": each.name, "role": each.role, "created_ms": each.created_ms}
            for each in users_of(call).users()
        ]
    }


async def create_user(call: Call) -> UserList:
    users, body = users_of(call), call.body
    if users.find(body["name"]) is not None:
        raise Denied(HTTPStatus.CONFLICT, "user_exists", f"there is a user {body['name']} already")
    if users.is_open:
        raise Denied(HTTPStatus.FORBIDDEN, "setup_required", "the first user is made by the link")
    await users.put(body["name"], body["role"], body["password"])
    return list_users(call)


async def change_user(call: Call) -> UserList:
    users, name = users_of(call), call.path["user"]
    known = users.find(name)
    role = call.body.get("role", known.role if known else VIEWER)
    await users.put(name, role, call.body.get("password") if known else None)
    call.guard.sessions.end_all_of(name)
    return list_users(call)


async def delete_user(call: Call) -> None:
    await users_of(call).remove(call.path["user"])
    call.guard.sessions.end_all_of(call.path["user"])


def list_tokens(call: Call) -> TokenList:
    return {
        "tokens": [
            {"name": each.name, "role": each.role, "created_ms": each.created_ms}
            for each in users_of(call).tokens()
        ]
    }


async def create_token(call: Call) -> MadeToken:
    users, body = users_of(call), call.body
    if users.is_open:
        raise Denied(HTTPStatus.FORBIDDEN, "setup_required", "without users no token is needed")
    made, secret = await users.make_token(body["name"], body["role"])
    return {
        "name": made.name, "role": made.role, "created_ms": made.created_ms, "token": secret,
    }  # fmt: skip


async def delete_token(call: Call) -> None:
    await users_of(call).remove_token(call.path["token"])


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
    ),
    get("/users", list_users, UserList, "Users and their roles.", role=ADMIN),
    post("/users", create_user, UserList, "Make a user.", body=NewUser, role=ADMIN, status=201),
    patch(
        "/users/{user}",
        change_user,
        UserList,
        "Another role or password; the user's sessions end.",
        body=UserChange,
        role=ADMIN,
    ),
    delete("/users/{user}", delete_user, None, "Delete a user.", role=ADMIN),
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
