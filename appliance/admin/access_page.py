"""The tables of docs/access.md: the response of each route by user and origin, and by access rules.

It states the guard's duties independently of its code; a test requests every cell from a broker.
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


# Cell by heading. The last three are requested with all rights.
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


# While rules are enforced. The first three are of a user without a role.


def without_rule(route: Route) -> str:
    return YES if route.rights is not None and not route.wanted_rights else FORBIDDEN


def with_rights(route: Route) -> str:
    return FORBIDDEN if route.rights is None else YES


def denied(route: Route) -> str:
    return without_rule(route)


def operator_denied(route: Route) -> str:
    return by(OPERATOR)(route) if route.rights is None else without_rule(route)


RULED: dict[str, Callable[[Route], str]] = {
    "no rule": without_rule,
    "exactly the rights": with_rights,
    "one denied": denied,
    "operator, one denied": operator_denied,
}


def ruled_as_markdown(routes: Iterable[Route]) -> str:
    rows = [["route", "rights", *RULED], ["---"] * (2 + len(RULED))]
    for each in routes:
        if each.role != ANYONE:
            words = "the role" if each.rights is None else each.rights_in_words
            cells = [cell(each) for cell in RULED.values()]
            rows.append([f"`{each.method} {each.url}`", words, *cells])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def as_markdown(unguarded: Iterable[str], routes: Iterable[Route]) -> str:
    """`unguarded` routes are for everybody: they return nothing that needs protection."""
    rows = [["route", *COLUMNS], ["---"] * (1 + len(COLUMNS))]
    rows += [[f"`{each}`", *[YES] * len(COLUMNS)] for each in unguarded]
    rows += [
        [f"`{each.method} {each.url}`", *(cell(each) for cell in COLUMNS.values())]
        for each in routes
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
