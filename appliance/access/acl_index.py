"""Finds the access rules that apply to a request, at a cost that does not grow with their number.

The rules of one principal on one kind of resource are `_Patterns`: literal names are looked up by
hash, prefixes by each length that the principal has rules for. At the end is a `Grant`, all rules
of one principal and host on one pattern, as two sets of operations:

    (TOPIC, "User:ann") -> literals["orders"] -> "*" -> Grant(allowed {READ, DESCRIBE}, denied {})

A rule that allows READ, WRITE, DELETE or ALTER allows DESCRIBE, and one that allows ALTER_CONFIGS
allows DESCRIBE_CONFIGS. A rule that denies implies nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from appliance.access.acls import (
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)

ANYBODY = "User:*"

DESCRIBING = (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)
IMPLIED: dict[int, int] = {
    **dict.fromkeys(DESCRIBING, 1 << Operation.DESCRIBE),
    Operation.ALTER_CONFIGS: 1 << Operation.DESCRIBE_CONFIGS,
}
EVERY_OPERATION = sum(1 << each for each in Operation)


@dataclass(slots=True)
class Grant:
    """Operations are bits, by their numbers."""

    acls: set[Acl] = field(default_factory=set)  # at most one for each operation and permission
    allowed: int = 0
    denied: int = 0

    @property
    def is_prefix(self) -> bool:
        return any(each.pattern_type == PatternType.PREFIXED for each in self.acls)

    def sum_up(self) -> None:
        self.allowed = self.denied = 0
        for each in self.acls:
            if each.permission_type == PermissionType.DENY:
                self.denied |= _denied(each.operation)
            else:
                self.allowed |= _denied(each.operation) | IMPLIED.get(each.operation, 0)

    def rule(self, operation: int, permission: PermissionType) -> Acl:
        """Of those that decide so, the one that names the operation, if one does."""
        found = [
            each
            for each in self.acls
            if each.permission_type == permission
            and each.operation in (Operation.ALL, operation, *_implying(operation, permission))
        ]
        return min(found, key=lambda each: (each.operation != operation, each))


def _denied(operation: int) -> int:
    return EVERY_OPERATION if operation == Operation.ALL else 1 << operation


def _implying(operation: int, permission: PermissionType) -> list[int]:
    bit = 1 << operation if permission == PermissionType.ALLOW else 0
    return [each for each, implied in IMPLIED.items() if implied & bit]


Grants = dict[str, Grant]  # by host


class _Patterns:
    """Which patterns there are, and the lengths of prefixes, in ascending order."""

    def __init__(self) -> None:
        self.literals: dict[str, Grants] = {}
        self.prefixes: dict[str, Grants] = {}
        self.lengths: list[int] = []
        self._times: Counter[int] = Counter()

    def of(self, acl: Acl) -> dict[str, Grants]:
        return self.prefixes if acl.pattern_type == PatternType.PREFIXED else self.literals

    def count(self, acl: Acl, step: int) -> None:
        """A prefix comes or goes."""
        if acl.pattern_type == PatternType.PREFIXED:
            self._times[len(acl.resource_name)] += step
            self._times += Counter()  # without those that are at zero
            self.lengths = sorted(self._times)

    def matching(self, name: str) -> Iterator[Grants]:
        if name in self.literals:
            yield self.literals[name]
        if WILDCARD in self.literals and name != WILDCARD:
            yield self.literals[WILDCARD]
        for length in self.lengths:
            if length > len(name):
                return
            found = self.prefixes.get(name[:length])
            if found is not None:
                yield found


class AclIndex:
    """Of the rules that are in force."""

    def __init__(self) -> None:
        self._tables: dict[tuple[int, str], _Patterns] = {}  # by kind of resource and principal
        # Of all principals, by kind of resource: whether a name has any rule
        self._ruled: dict[int, _Patterns] = {}
        self._times: Counter[tuple[int, int, str]] = Counter()  # rules of a pattern

    def add(self, acl: Acl) -> None:
        table = self._tables.setdefault((acl.resource_type, acl.principal), _Patterns())
        patterns = table.of(acl)
        if acl.resource_name not in patterns:
            patterns[acl.resource_name] = {}
            table.count(acl, 1)
        grant = patterns[acl.resource_name].setdefault(acl.host, Grant())
        grant.acls.add(acl)
        grant.sum_up()
        pattern = (acl.resource_type, acl.pattern_type, acl.resource_name)
        self._times[pattern] += 1
        if self._times[pattern] == 1:
            ruled = self._ruled.setdefault(acl.resource_type, _Patterns())
            ruled.of(acl)[acl.resource_name] = {}
            ruled.count(acl, 1)

    def remove(self, acl: Acl) -> None:
        table = self._tables[acl.resource_type, acl.principal]
        patterns = table.of(acl)
        grants = patterns[acl.resource_name]
        grant = grants[acl.host]
        grant.acls.remove(acl)
        grant.sum_up()
        if not grant.acls:
            del grants[acl.host]
        if not grants:
            del patterns[acl.resource_name]
            table.count(acl, -1)
        if not table.literals and not table.prefixes:
            del self._tables[acl.resource_type, acl.principal]
        pattern = (acl.resource_type, acl.pattern_type, acl.resource_name)
        self._times[pattern] -= 1
        if not self._times[pattern]:
            del self._times[pattern]
            ruled = self._ruled[acl.resource_type]
            del ruled.of(acl)[acl.resource_name]
            ruled.count(acl, -1)

    def grants(self, principal: str, host: str, resource_type: int, name: str) -> Iterator[Grant]:
        """All that apply to this principal at this host on this resource."""
        for who in (principal, ANYBODY):
            table = self._tables.get((resource_type, who))
            if table is None:
                continue
            for by_host in table.matching(name):
                if host in by_host:
                    yield by_host[host]
                if WILDCARD in by_host:
                    yield by_host[WILDCARD]

    def acls(self, principal: str) -> Iterator[Acl]:
        """All that name it, or everybody, at whatever host."""
        tables = [
            self._tables.get((kind, who), _Patterns())
            for kind in ResourceType
            for who in dict.fromkeys((principal, ANYBODY))
        ]
        for table in tables:
            for by_host in (*table.literals.values(), *table.prefixes.values()):
                for grant in by_host.values():
                    yield from grant.acls

    def is_ruled(self, resource_type: int, name: str) -> bool:
        """Whether any rule, of whomever, is about this resource."""
        ruled = self._ruled.get(resource_type)
        return ruled is not None and any(True for _ in ruled.matching(name))

    def patterns(
        self, principal: str, host: str, resource_type: int
    ) -> Iterator[tuple[bool, str, Grant]]:
        """All that it has at this host: whether it is a prefix, the name, what is granted."""
        for who in (principal, ANYBODY):
            table = self._tables.get((resource_type, who), _Patterns())
            for is_prefix, of in ((False, table.literals), (True, table.prefixes)):
                for name, by_host in of.items():
                    for where in {host, WILDCARD} & by_host.keys():
                        yield is_prefix, name, by_host[where]
