"""Roles as bundles of access rules, which the authorizer looks at behind those that were written.

    viewer     sees all, and reads messages if it may
    operator   and makes and changes topics, writes messages, resets groups
    admin      is an administrator: no rules, everything

None of them can be listed or deleted by Kafka's tools. docs/decisions/roles-and-rules.md has the
reasons.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from appliance.access.acl_index import Grant
from appliance.access.acls import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)

VIEWER, OPERATOR, ADMIN = "viewer", "operator", "admin"
KIND = "Role"  # of the principal that stands in these rules; no client has one of this kind

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
SEEING = {
    TOPIC: (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS),
    GROUP: (Operation.DESCRIBE,),
    CLUSTER: (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS),
    ResourceType.TRANSACTIONAL_ID: (Operation.DESCRIBE,),
}
OPERATING = {
    TOPIC: (Operation.WRITE, Operation.CREATE, Operation.ALTER, Operation.ALTER_CONFIGS),
    GROUP: (Operation.READ,),
    CLUSTER: (Operation.CREATE,),
}


@cache
def bundle(role: str, may_read: bool) -> dict[int, Grant]:
    """What a role grants on every name, by kind of resource. `may_read`: messages."""
    found: dict[int, Grant] = {}
    for kind, operation in _granted(role, may_read):
        name = CLUSTER_NAME if kind is CLUSTER else WILDCARD
        acl = Acl(kind, name, PatternType.LITERAL, f"{KIND}:{role}", WILDCARD, operation,
                  PermissionType.ALLOW)  # fmt: skip
        found.setdefault(kind, Grant()).acls.add(acl)
    for grant in found.values():
        grant.sum_up()
    return found


def _granted(role: str, may_read: bool) -> Iterator[tuple[ResourceType, Operation]]:
    parts = {VIEWER: (SEEING,), OPERATOR: (SEEING, OPERATING)}.get(role, ())
    for part in parts:
        for kind, operations in part.items():
            yield from ((kind, each) for each in operations)
    if parts and may_read:
        yield TOPIC, Operation.READ
