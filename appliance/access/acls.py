"""Access rules (ACLs) as in Kafka, kept in the catalog.

The broker keeps and shows them but does not enforce them yet: every client may do everything. The
log warns when the first rule is created.

An ACL allows or denies an operation to a principal, from a host (`*`: any), on a resource pattern
(literal or prefixed; the literal name `*` means every resource). A filter selects ACLs: a null or
ANY field matches all, and the pattern type MATCH selects the patterns that apply to a name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from enum import IntEnum
from typing import Any

from appliance.access.acl_rows import AclRows
from appliance.access.kept_per_address import Kept, check_name
from appliance.errors import ApplianceError, RequestInvalid
from appliance.process import event_log
from appliance.process.detached_tasks import Changes

events = event_log.named("acls")

UNKNOWN, ANY = 0, 1  # in each of the numberings below
IS_ENFORCED = False  # shown together with the rules
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


class Acls:
    """All ACLs, in memory and in the catalog. `change` runs one change after the other."""

    def __init__(self, rows: AclRows, change: Changes, kept: Kept) -> None:
        self._rows = rows
        self._change = change
        self._kept = kept
        self._acls = {Acl(*row) for row in rows.all()}
        for each in self._acls:
            kept.put(each, each.size)

    def find(self, wanted: AclFilter) -> list[Acl]:
        wanted.check()
        return sorted(each for each in self._acls if wanted.matches(each))

    async def create(self, acls: Sequence[Acl]) -> list[ApplianceError | None]:
        """Returns the result of each in order. An existing ACL is a success."""
        faults = [_fault(each) for each in acls]
        made = [each for each, fault in zip(acls, faults, strict=True) if fault is None]
        try:
            await self._change(self._put(made))
        except ApplianceError as error:
            return [fault or error for fault in faults]
        return faults

    async def _put(self, acls: Iterable[Acl]) -> None:
        added = set(acls) - self._acls
        if not added:
            return
        self._kept.check("", sum(each.size for each in added), len(added))
        await asyncio.to_thread(self._rows.change, _rows(added), [])
        if not self._acls:
            events.warning("ACLs are kept but not enforced: every client may do everything")
        self._acls |= added
        for each in added:
            self._kept.put(each, each.size)
        events.info("ACLs created", count=len(added))

    async def delete(self, filters: Sequence[AclFilter]) -> list[list[Acl] | ApplianceError]:
        """Deletes the ACLs that match, and returns them for each filter."""
        try:
            found: list[list[Acl] | ApplianceError] = await self._change(self._delete(filters))
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
        removed = {acl for each in found if isinstance(each, list) for acl in each}
        if removed:
            await asyncio.to_thread(self._rows.change, [], _rows(removed))
            self._acls -= removed
            for acl in removed:
                self._kept.drop(acl)
            events.info("ACLs deleted", count=len(removed))
        return found


def _fault(acl: Acl) -> ApplianceError | None:
    try:
        acl.check()
    except ApplianceError as error:
        return error
    return None


def _rows(acls: Iterable[Acl]) -> list[tuple[Any, ...]]:
    return [astuple(each) for each in acls]
