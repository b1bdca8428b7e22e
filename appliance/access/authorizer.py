"""Decides who may do what: the one owner of rules, for Kafka's APIs and for the admin port.

As in Kafka, the first that applies decides:

    1. super users and administrators may do everything
    2. a rule that denies
    3. a rule that allows
    4. the role of the user allows (`role_rules.py`), which Kafka does not have
    5. the resource has any rule, of whomever: denied
    6. allow.everyone.if.no.acl.found

Rules are enforced as soon as a listener has authentication, or `authorizer.class.name` says so.
Whether they are is settled at the start. Where nothing is enforced nobody asks: `is_enforced` is
looked at before anything is.

Whoever keeps decisions keeps `generation` with them: it moves with every change of rules, of super
users and administrators, and makes older decisions worthless.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from appliance.access import role_rules
from appliance.access.acl_index import AclIndex, Grant
from appliance.access.acls import WILDCARD, Acl, Operation, PermissionType, ResourceType
from appliance.access.principal import USER, Principal

DENY, ALLOW = PermissionType.DENY, PermissionType.ALLOW
ANY_NAME = "hardcode"  # Kafka's stand-in for "a resource that has no rules of its own"

# Principal, host, operation and resource type
Asked = tuple[str, str, int, int]

ANY_MAX = 10_000  # answers kept: principals times addresses, of which anybody may have many


class Decision(NamedTuple):
    is_allowed: bool
    why: str
    acl: Acl | None = None  # the rule that decided, where one did


class Authorizer:
    """On the event loop."""

    def __init__(
        self,
        is_enforced: bool = False,
        super_users: Collection[str] = (),
        allows_everyone: bool = False,
    ) -> None:
        """`super_users` are principals as text. `allows_everyone` to resources without rules."""
        self.is_enforced = is_enforced
        self.generation = 1
        self.decisions = 0  # since the start; explanations are none
        self._super_users = frozenset(super_users)
        self._administrators: frozenset[str] = frozenset()
        # What roles grant, by principal and kind of resource
        self._roles: dict[str, dict[int, Grant]] = {}
        self._allows_everyone = allows_everyone
        self._index = AclIndex()
        self._told: list[Callable[[int], object]] = []
        # What `allows_any` and `allows_every` found in this generation
        self._any: dict[Asked, bool] = {}
        self._every: dict[Asked, bool] = {}

    # What decides

    def change(self, added: Iterable[Acl], removed: Iterable[Acl]) -> None:
        """Rules came into force, or went."""
        for acl in removed:
            self._index.remove(acl)
        for acl in added:
            self._index.add(acl)
        self._moved()

    def set_administrators(self, names: Iterable[str]) -> None:
        """Users that may do everything, by their names."""
        found = frozenset(str(Principal(USER, each)) for each in names)
        if found != self._administrators:
            self._administrators = found
            self._moved()

    def set_roles(self, roles: Mapping[str, tuple[str, bool]]) -> None:
        """Of users, by their names: the role, and whether it may read messages."""
        bundles = {str(Principal(USER, name)): role_rules.bundle(*of) for name, of in roles.items()}
        found = {who: each for who, each in bundles.items() if each}
        if found != self._roles:
            self._roles = found
            self._moved()

    def on_change(self, callback: Callable[[int], object]) -> None:
        """Called with each new generation, when it is in force."""
        self._told.append(callback)

    def _moved(self) -> None:
        self.generation += 1
        self._any.clear()
        self._every.clear()
        for each in self._told:
            each(self.generation)

    # Decisions

    def allows(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        *,
        without_role: bool = False,
        is_every: bool = False,
    ) -> bool:
        """`without_role`: what its role allows does not count. `is_every`: the name is `*`, and
        means all, which the names that begin so are not."""
        if not self.is_enforced:
            return True
        self.decisions += 1
        who = str(principal)
        if who in self._super_users or who in self._administrators:
            return True
        is_allowed, grant = self._by_rules(who, host, operation, resource_type, name, is_every)
        return is_allowed and not (without_role and self._is_role(who, resource_type, grant))

    def allows_any(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType,
        *, without_role: bool = False,
    ) -> bool:  # fmt: skip
        """Whether it may do this to at least one resource, which need not exist: an idempotent
        producer may begin if there is a topic that it may write to."""
        if self.allows(
            principal, host, operation, resource_type, ANY_NAME, without_role=without_role
        ):
            return True
        key = (str(principal), host, int(operation), int(resource_type))
        return found_once(self._any, self._any_pattern, key)

    def allows_every(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether it may do this to every resource, whatever its name: then nobody need ask for
        each of a list. False where only no rule is in the way."""
        if self.why_everything(principal) is not None:
            return True
        key = (str(principal), host, int(operation), int(resource_type))
        return found_once(self._every, self._every_pattern, key)

    def allowed_operations(
        self, principal: Principal, host: str, operations: Sequence[Operation],
        resource_type: ResourceType, name: str,
    ) -> int:  # fmt: skip
        """As a bit field, by their numbers."""
        return sum(
            1 << each
            for each in operations
            if self.allows(principal, host, each, resource_type, name)
        )

    def decide(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> Decision:
        """The same as `allows`, with the reason, for people."""
        why = self.why_everything(principal)
        if why is not None:
            return Decision(True, why)
        is_allowed, grant = self._by_rules(str(principal), host, operation, resource_type, name)
        if grant is not None:
            acl = grant.rule(operation, ALLOW if is_allowed else DENY)
            if self._is_role(str(principal), resource_type, grant):
                return Decision(True, "its role allows it", acl)
            return Decision(is_allowed, f"a rule {'allows' if is_allowed else 'denies'} it", acl)
        if self._index.is_ruled(resource_type, name):
            return Decision(False, "the resource has rules, and none of them allows it")
        setting = f"allow.everyone.if.no.acl.found is {str(self._allows_everyone).lower()}"
        return Decision(is_allowed, f"no rule is about the resource, and {setting}")

    def rules_of(self, principal: Principal, host: str | None = None) -> list[Acl]:
        """All that decide what it may do, at this host or at any; and those of its role."""
        who = str(principal)
        of_role = [acl for grant in self._roles.get(who, {}).values() for acl in grant.acls]
        return sorted(
            each
            for each in (*self._index.acls(who), *of_role)
            if host is None or each.host in (host, WILDCARD)
        )

    def why_everything(self, principal: Principal) -> str | None:
        """Why it may do everything; None: it may do what rules say."""
        who = str(principal)
        if not self.is_enforced:
            return "rules are not enforced"
        if who in self._super_users:
            return "it is one of super.users"
        return "it is an administrator" if who in self._administrators else None

    def _by_rules(
        self, who: str, host: str, operation: int, resource_type: int, name: str,
        is_every: bool = False,
    ) -> tuple[bool, Grant | None]:  # fmt: skip
        """What the rules say, and which of them; None: none of them is about it."""
        bit = 1 << operation
        allowing = None
        for grant in self._index.grants(who, host, resource_type, name):
            if grant.denied & bit:
                return False, grant
            if allowing is None and grant.allowed & bit and not (is_every and grant.is_prefix):
                allowing = grant
        if allowing is not None:
            return True, allowing
        role = self._roles.get(who, {}).get(resource_type)
        if role is not None and role.allowed & bit:
            return True, role
        if not self._allows_everyone:
            return False, None
        return not self._index.is_ruled(resource_type, name), None

    def _is_role(self, who: str, resource_type: int, grant: Grant | None) -> bool:
        return grant is not None and grant is self._roles.get(who, {}).get(resource_type)

    def _every_pattern(self, who: str, host: str, operation: int, resource_type: int) -> bool:
        """By `*` or its role, and nothing is denied. A prefix `*` is of names that begin so."""
        bit = 1 << operation
        role = self._roles.get(who, {}).get(resource_type)
        is_allowed = role is not None and bool(role.allowed & bit)
        for is_prefix, name, grant in self._index.patterns(who, host, resource_type):
            if grant.denied & bit:
                return False
            is_everything = name == WILDCARD and not is_prefix
            is_allowed = is_allowed or (is_everything and bool(grant.allowed & bit))
        return is_allowed

    def _any_pattern(self, who: str, host: str, operation: int, resource_type: int) -> bool:
        """A literal name counts unless it, or a prefix of it, is denied; a prefix, unless it or a
        shorter one is. `*` counts whatever else is denied, unless `*` is."""
        bit = 1 << operation
        allowed, denied = set[tuple[bool, str]](), set[tuple[bool, str]]()
        for is_prefix, name, grant in self._index.patterns(who, host, resource_type):
            if grant.denied & bit:
                denied.add((is_prefix, name))
            if grant.allowed & bit:
                allowed.add((is_prefix, name))
        everything = (False, WILDCARD)
        if everything in denied or everything in allowed:
            return everything not in denied
        return any(
            pattern not in denied
            and not any((True, pattern[1][:i]) in denied for i in range(1, len(pattern[1]) + 1))
            for pattern in allowed
        )


def found_once(found: dict[Asked, bool], find: Callable[..., bool], key: Asked) -> bool:
    """What was found is kept, of a bounded number."""
    if key not in found:
        if len(found) >= ANY_MAX:
            found.clear()
        found[key] = find(*key)
    return found[key]
