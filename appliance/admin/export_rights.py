"""Who may see and change exports, and what they may be called. To somebody who may not describe all
topics of an export it is not there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from appliance.access.acls import WILDCARD, Operation
from appliance.admin.export_progress import topics_of
from appliance.admin.rights import TOPIC, Described
from appliance.admin.route import OPERATOR, Call
from appliance.broker.broker import Broker
from appliance.errors import RequestInvalid, ResourceUnknown
from appliance.export.definitions_and_runs import Last

NAME = re.compile(r"[a-zA-Z0-9._-]{1,100}")


def described_export(call: Call) -> tuple[dict[str, Any], Last]:
    name, broker = call.path["export"], call.broker
    found = broker.exports.get(name)
    if not is_described(found[0], call.described_topics(), broker):
        raise ResourceUnknown(f"there is no export {name!r}")
    return found


def is_described(definition: Mapping[str, Any], described: Described, broker: Broker) -> bool:
    return described.is_everything or all(
        name in described for name in names_of(definition, broker)
    )


def names_of(definition: Mapping[str, Any], broker: Broker) -> set[str]:
    """Of topics; `*` for a pattern, which topics to come may match, too."""
    named = {*(definition.get("topics") or [])}
    if named and not definition.get("pattern"):
        return named
    return {WILDCARD, *named, *(each.name for each in topics_of(definition, broker.topics))}


def check_readable(call: Call, names: Iterable[str]) -> None:
    """A viewer reads, too, and may not decide what is kept and copied: that takes a rule, or an
    operator."""
    for name in sorted(names):
        if not may_change(call, name):
            raise call.rights.refusal(Operation.READ, TOPIC, name)


def may_change(call: Call, topic: str) -> bool:
    is_low = not call.identity.may(OPERATOR)
    if is_low and not call.rights.are_ruled:
        return False
    return call.rights.may(Operation.READ, TOPIC, topic, without_role=is_low)


def changed_export(call: Call) -> str:
    """Its name."""
    definition, _ = described_export(call)
    check_readable(call, names_of(definition, call.broker))
    return call.path["export"]


def checked_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise RequestInvalid(f"name: got {name[:80]!r}, wanted 1 to 100 of a-z A-Z 0-9 . _ -")
    return name


def check_new_name(call: Call, name: str) -> None:
    """All share the names. So that nobody finds out by trying what others have, who may not
    describe every topic keeps to names that begin with its own."""
    own = f"{call.identity.name}."
    if not call.described_topics().is_everything and not name.startswith(own):
        raise RequestInvalid(
            f"name: got {name!r}, wanted one that begins with {own!r}: "
            f"{call.identity.name} may not describe every topic"
        )
