"""Access rules (ACLs) as in Kafka, kept in the catalog. `authorizer.py` decides by them.

A rule that was written while rules were not enforced could be anybody's: it waits in a list of its
own, and decides nothing, until an administrator has confirmed it. Where rules are not enforced
nothing waits, and the log warns when the first rule is created.

An ACL allows or denies an operation to a principal, from a host (`*`: any), on a resource pattern
(literal or prefixed; the literal name `*` means every resource). A filter selects ACLs: a null or
ANY field matches all, and the pattern type MATCH selects the patterns that apply to a name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from enum import IntEnum
from typing import Any

from appliance.access.acl_rows import AclRows
from appliance.access.kept_per_address import Kept, check_name
from appliance.catalog.facts import Facts, FactUnusable, Troubles, Value, Values, readable
from appliance.errors import ApplianceError, RequestInvalid
from appliance.process import event_log

events = event_log.named("acls")

UNKNOWN, ANY = 0, 1  # in each of the numberings below
WILDCARD = "*"
CLUSTER_NAME = "kafka-cluster"


class ResourceType(IntEnum):
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Operation(IntEnum):
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class PatternType(IntEnum):
    MATCH = 2  # only in filters
    LITERAL = 3
    PREFIXED = 4


class PermissionType(IntEnum):
    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, order=True)
class Acl:
    """The fields are the columns of the catalog's table."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    @property
    def size(self) -> int:
        return len(self.resource_name) + len(self.principal) + len(self.host)

    def check(self) -> None:
        """Raises if it may not be created."""
        _check(self.resource_type in set(ResourceType), "resource type", self.resource_type)
        is_pattern = self.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED)
        _check(is_pattern, "pattern type", self.pattern_type)
        _check(self.operation in set(Operation), "operation", self.operation)
        is_permission = self.permission_type in set(PermissionType)
        _check(is_permission, "permission type", self.permission_type)
        _check(self.resource_name != "", "resource name", "")
        is_cluster = self.resource_type == ResourceType.CLUSTER
        if is_cluster and self.resource_name != CLUSTER_NAME:
            raise RequestInvalid(
                f"got cluster {self.resource_name!r}, its only name is {CLUSTER_NAME!r}"
            )
        if ":" not in self.principal:
            raise RequestInvalid(f"got principal {self.principal!r}, wanted TYPE:NAME")
        for text in (self.resource_name, self.principal, self.host):
            check_name("ACL", text)


@dataclass(frozen=True)
class AclFilter:
    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission_type: int

    def check(self) -> None:
        kinds = (ANY, *ResourceType)
        _check(self.resource_type in kinds, "resource type", self.resource_type)
        _check(self.pattern_type in (ANY, *PatternType), "pattern type", self.pattern_type)
        _check(self.operation in (ANY, *Operation), "operation", self.operation)
        permissions = (ANY, *PermissionType)
        _check(self.permission_type in permissions, "permission type", self.permission_type)

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in (ANY, acl.resource_type)
            and self.pattern_type in (ANY, PatternType.MATCH, acl.pattern_type)
            and self._matches_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (ANY, acl.operation)
            and self.permission_type in (ANY, acl.permission_type)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.resource_name is None or self.resource_name == acl.resource_name:
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        if acl.pattern_type == PatternType.LITERAL:
            return acl.resource_name == WILDCARD
        return self.resource_name.startswith(acl.resource_name)


def _check(is_so: bool, what: str, got: object) -> None:
    if not is_so:
        raise RequestInvalid(f"got {what} {got!r}")


EVERY = AclFilter(ANY, None, ANY, None, None, ANY, ANY)

# Hears of rules that come into force, and of those that go
Told = Callable[[Collection[Acl], Collection[Acl]], object]


class Acls:
    """All ACLs, in memory and in the catalog. `change` runs one change after the other."""

    kind, is_secret = "acls", False

    def __init__(
        self, rows: AclRows, change: Facts, kept: Kept, is_enforced: bool = False
    ) -> None:
        self._rows = rows
        self._change = change
        self._kept = kept
        self.is_enforced = is_enforced
        self._acls: set[Acl] = set()
        self._waiting: set[Acl] = set()
        self._unconfirmed: set[Acl] = set()  # those that wait, or would if rules were enforced
        self._told: list[Told] = []
        for *fields, is_confirmed in rows.all():
            acl = Acl(*fields)
            self._place(acl, bool(is_confirmed))
            kept.put(acl, acl.size)

    def _place(self, acl: Acl, is_confirmed: bool) -> None:
        decides = is_confirmed or not self.is_enforced
        (self._acls if decides else self._waiting).add(acl)
        (self._unconfirmed.discard if is_confirmed else self._unconfirmed.add)(acl)

    def on_change(self, told: Told) -> None:
        """From now on `told` hears of what comes into force and what goes, and at once of all."""
        self._told.append(told)
        told(self._acls, ())

    def find(self, wanted: AclFilter) -> list[Acl]:
        """Of those that decide, or would if rules were enforced."""
        wanted.check()
        return sorted(each for each in self._acls if wanted.matches(each))

    def waiting(self, wanted: AclFilter | None = None) -> list[Acl]:
        """Those that wait for an administrator."""
        if wanted is not None:
            wanted.check()
        return sorted(each for each in self._waiting if wanted is None or wanted.matches(each))

    async def create(self, acls: Sequence[Acl]) -> list[ApplianceError | None]:
        """Returns the result of each in order. An existing ACL is a success; one that waits is
        confirmed by it."""
        faults = [_fault(each) for each in acls]
        made = [each for each, fault in zip(acls, faults, strict=True) if fault is None]
        try:
            await self._change(lambda: self._put(made))
        except ApplianceError as error:
            return [fault or error for fault in faults]
        return faults

    async def confirm(self, wanted: AclFilter) -> list[Acl]:
        """Those that wait and match come into force."""
        confirmed: list[Acl] = await self._change(lambda: self._confirm(wanted))
        return confirmed

    async def _confirm(self, wanted: AclFilter) -> list[Acl]:
        found = self.waiting(wanted)
        await self._put(found)
        return found

    async def drop(self, wanted: AclFilter) -> list[Acl]:
        """Those that wait and match are deleted."""
        dropped: list[Acl] = await self._change(lambda: self._drop(wanted))
        return dropped

    async def _drop(self, wanted: AclFilter) -> list[Acl]:
        found = self.waiting(wanted)
        await self._remove(found)
        return found

    async def _put(self, acls: Iterable[Acl]) -> None:
        added = set(acls) - self._acls
        if not added:
            return
        new = added - self._waiting
        self._kept.check("", sum(each.size for each in new), len(new))
        await self._publish(added, ())
        await asyncio.to_thread(self._rows.change, _rows(added), [], self.is_enforced)
        if not self._acls and not self.is_enforced:
            events.warning("ACLs are kept but not enforced: every client may do everything")
        for each in added:
            self._waiting.discard(each)
            self._place(each, self.is_enforced)
        for each in new:
            self._kept.put(each, each.size)
        events.info("ACLs created", count=len(added))
        self._tell(added, ())

    async def delete(self, filters: Sequence[AclFilter]) -> list[list[Acl] | ApplianceError]:
        """Deletes the ACLs that match, and returns them for each filter."""
        try:
            found: list[list[Acl] | ApplianceError] = await self._change(
                lambda: self._delete(filters)
            )
        except ApplianceError as error:
            return [error for _ in filters]
        return found

    async def _delete(self, filters: Iterable[AclFilter]) -> list[list[Acl] | ApplianceError]:
        found: list[list[Acl] | ApplianceError] = []
        for each in filters:
            try:
                found.append(self.find(each))
            except ApplianceError as error:
                found.append(error)
        await self._remove({acl for each in found if isinstance(each, list) for acl in each})
        return found

    async def _remove(self, acls: Collection[Acl]) -> None:
        if not acls:
            return
        await self._publish((), acls)
        await asyncio.to_thread(self._rows.change, [], _rows(acls))
        self._forget(acls)
        events.info("ACLs deleted", count=len(acls))

    def _forget(self, acls: Collection[Acl]) -> None:
        removed = self._acls.intersection(acls)
        self._acls.difference_update(acls)
        self._waiting.difference_update(acls)
        self._unconfirmed.difference_update(acls)
        for acl in acls:
            self._kept.drop(acl)
        if removed:
            self._tell((), removed)

    # As facts of a cluster

    def facts(self) -> dict[str, Value]:
        return _by_pattern((*self._acls, *self._waiting), self._is_confirmed)

    def _is_confirmed(self, acl: Acl) -> bool:
        return acl not in self._unconfirmed

    async def _publish(self, added: Collection[Acl], removed: Collection[Acl]) -> None:
        """The patterns of these, as they will be."""
        if not self._change.are_shared:
            return  # there may be a hundred thousand to look through
        names = {pattern_of(each) for each in (*added, *removed)}
        patterns = {_resource(each) for each in (*added, *removed)}
        of_names = {each for acls in (self._acls, self._waiting) for each in acls
                    if _resource(each) in patterns and each not in removed} | {*added}  # fmt: skip
        values = _by_pattern(
            of_names,
            lambda acl: self.is_enforced if acl in added else self._is_confirmed(acl),
        )
        await self._change.publish(self.kind, {name: values.get(name) for name in names})

    async def take(self, values: Values) -> Troubles:
        good, troubles = readable(values, _read)
        here = self._acls | self._waiting
        wanted = {acl: confirmed for rules in good.values() for acl, confirmed in (
            rules or {}).items()}  # fmt: skip
        gone = {each for each in here if pattern_of(each) in good and each not in wanted}
        new = {acl: confirmed for acl, confirmed in wanted.items()
               if acl not in here or confirmed != self._is_confirmed(acl)}  # fmt: skip
        await asyncio.to_thread(self._take_rows, new, gone)
        before = {*self._acls}
        self._forget(gone)
        for acl, is_confirmed in new.items():
            self._waiting.discard(acl)
            self._place(acl, is_confirmed)
            self._kept.put(acl, acl.size)
        if added := self._acls - before:
            self._tell(added, ())
        return troubles

    def _take_rows(self, new: Mapping[Acl, bool], gone: Collection[Acl]) -> None:
        for is_confirmed in (True, False):
            added = [acl for acl, confirmed in new.items() if confirmed == is_confirmed]
            self._rows.change(_rows(added), _rows(gone), is_confirmed)

    def _tell(self, added: Collection[Acl], removed: Collection[Acl]) -> None:
        for each in self._told:
            each(added, removed)


def _fault(acl: Acl) -> ApplianceError | None:
    try:
        acl.check()
    except ApplianceError as error:
        return error
    return None


def _rows(acls: Iterable[Acl]) -> list[tuple[Any, ...]]:
    return [astuple(each) for each in acls]

# As facts of a cluster: one for each resource pattern, with all rules of it

Rules = Mapping[Acl, bool]  # whether each is confirmed


def _resource(acl: Acl) -> tuple[int, int, str]:
    return acl.resource_type, acl.pattern_type, acl.resource_name


def pattern_of(acl: Acl) -> str:
    return f"{int(acl.resource_type)}:{int(acl.pattern_type)}:{acl.resource_name}"


def _by_pattern(acls: Iterable[Acl], is_confirmed: Callable[[Acl], bool]) -> dict[str, Value]:
    rules: dict[str, list[list[object]]] = {}
    for each in sorted(acls):
        row = [each.principal, each.host, int(each.operation), int(each.permission_type),
               int(is_confirmed(each))]  # fmt: skip
        rules.setdefault(pattern_of(each), []).append(row)
    return {name: {"rules": rows} for name, rows in rules.items()}


def _read(name: str, value: Value) -> Rules:
    resource_type, pattern_type, resource = name.split(":", 2)
    found = {}
    for principal, host, operation, permission, is_confirmed in value["rules"]:
        if not isinstance(principal, str) or not isinstance(host, str):
            raise FactUnusable("rules: wanted texts for principal and host")
        acl = Acl(
            int(resource_type), resource, int(pattern_type), principal, host, int(operation),
            int(permission),
        )  # fmt: skip
        acl.check()
        found[acl] = bool(is_confirmed)
    return found
