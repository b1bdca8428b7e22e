"""The table of docs/access.md: what each route answers to whom, and to what from where.

It says what the guard is to do, in words of its own; a test asks a broker for every cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from appliance.admin.route import ADMIN, ANYONE, OPERATOR, ROLES, VIEWER, Route

YES, LOGIN, FORBIDDEN, MISDIRECTED = "yes", "401", "403", "421"


def by(role: str, may_read: bool = True) -> Callable[[Route], str]:
    def cell(route: Route) -> str:
        is_high = ROLES.index(role) >= ROLES.index(route.role)
        return YES if is_high and (may_read or not route.reads_messages) else FORBIDDEN

    return cell


def by_nobody(route: Route) -> str:
    return YES if route.role == ANYONE else LOGIN


def while_read_only(route: Route) -> str:
    return YES if route.method == "GET" or route.role == ANYONE else FORBIDDEN


# Heading to cell. The last three are asked with all rights.
COLUMNS: dict[str, Callable[[Route], str]] = {
    "no login": by_nobody,
    "session over": by_nobody,
    "viewer": by(VIEWER),
    "operator": by(OPERATOR),
    "admin": by(ADMIN),
    "admin, no messages": by(ADMIN, may_read=False),
    "other Host": lambda _: MISDIRECTED,
    "other site": lambda _: FORBIDDEN,
    "read-only": while_read_only,
}


def as_markdown(unguarded: Iterable[str], routes: Iterable[Route]) -> str:
    """`unguarded` are for everybody from everywhere: they tell nothing that is worth guarding."""
    rows = [["route", *COLUMNS], ["---"] * (1 + len(COLUMNS))]
    rows += [[f"`{each}`", *[YES] * len(COLUMNS)] for each in unguarded]
    rows += [
        [f"`{each.method} {each.url}`", *(cell(each) for cell in COLUMNS.values())]
        for each in routes
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
