"""A broker's directory in which people have passwords, and what they ask of the admin port."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from appliance.access.user_rows import NONE, User, UserRows
from appliance.access.users import UserTable
from appliance.admin import users
from appliance.admin.route import ADMIN, OPERATOR, VIEWER
from appliance.admin.token_rows import TokenRows
from appliance.catalog.catalog import NAME, Catalog
from appliance.catalog.facts import Facts
from appliance.machine.believed_time import wall_now_ms
from appliance.process.detached_tasks import Changes
from appliance.testing import RunningBroker, running_broker
from tests.support.rest import Rest

PASSWORD = "correct horse battery"
NOBODY = "nora"  # a user without a role, if there is one
PEOPLE = {"vera": VIEWER, "otto": OPERATOR, "ada": ADMIN}


def make_people(path: Path, blind: str = "", plain: str = "") -> None:
    """`blind` is an admin too, and may not read messages. `plain` has no role."""
    with running_broker(path):
        pass
    catalog = Catalog.open(path / NAME)
    stored = users.argon2.PasswordHasher().hash(PASSWORD)
    rows = [User(name, role, stored, 1_700_000_000_000) for name, role in PEOPLE.items()]
    if blind:
        rows.append(User(blind, ADMIN, stored, 1_700_000_000_000, 0))
    if plain:
        rows.append(User(plain, NONE, stored, 1_700_000_000_000))
    UserRows(catalog).change(rows)
    catalog.close()


def users_in(catalog: Catalog, now_ms: Callable[[], int] = wall_now_ms) -> users.Users:
    table = UserTable(UserRows(catalog), Facts(Changes()))
    return users.Users(table, TokenRows(catalog), now_ms)


def logged_in(broker: RunningBroker, name: str, password: str = PASSWORD) -> Rest:
    rest = Rest(broker.admin)
    answer = rest.ask("POST", "/login", {"name": name, "password": password})
    assert answer.status == 204, answer.body
    return Rest(broker.admin, {"Cookie": answer.headers["Set-Cookie"].partition(";")[0]})


def denied(answer: Any) -> tuple[int, str]:
    return answer.status, answer.body["error"]["code"]


def asked(rest: Rest, method: str, url: str, has_body: bool, **headers: str) -> Any:
    """What stands for a name in the URL is of nothing that exists, and the body is none that any
    route takes: who is let in finds nothing, is refused for that, and changes nothing."""
    path = re.sub(r"{\w+}", "none", url.replace("{partition}", "0"))
    if method != "GET":
        headers["Content_Type"] = "application/json"
    return rest.raw(method, path, b"[]" if has_body else None, **headers)


def is_let_in(answer: Any) -> bool:
    """Whatever comes of it."""
    return answer.status not in (401, 403, 421)
