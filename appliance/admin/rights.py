"""Rights that routes want once access rules are enforced, and whether who asks has them.

The authorizer decides, as for Kafka's clients: a role is a bundle of rules there. Until rules are
enforced, and for tokens and people of a service, of whom no rule is, the role alone decides
(`guard.py`), and everything is allowed here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from appliance.access import role_rules
from appliance.access.acls import CLUSTER_NAME, WILDCARD, Operation, ResourceType
from appliance.access.authorizer import Authorizer
from appliance.access.principal import USER, Principal
from appliance.errors import Refused
from appliance.protocol import ErrorCode

if TYPE_CHECKING:
    from appliance.admin.route import Route
    from appliance.admin.users import Identity  # both know of rights

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER

REFUSALS = {
    TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}

# Of a resource, as Kafka tells clients: without those that are for brokers, or for nobody here
OPERATIONS: Mapping[ResourceType, Sequence[Operation]] = {
    TOPIC: (Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER,
            Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS),
    GROUP: (Operation.READ, Operation.DELETE, Operation.DESCRIBE),
    CLUSTER: (Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS,
              Operation.ALTER_CONFIGS),
}  # fmt: skip


SOME = "*"  # one that the body names: the handler asks for it


class Right(NamedTuple):
    """`name` is the parameter of the path that names the resource; "": the cluster."""

    operation: Operation
    resource_type: ResourceType
    name: str = ""

    def __str__(self) -> str:
        return f"{self.operation.name} {self.resource_type.name.lower()}"


READ_SOME_TOPIC = Right(Operation.READ, TOPIC, SOME)
WRITE_SOME_TOPIC = Right(Operation.WRITE, TOPIC, SOME)
CREATE_SOME_TOPIC = Right(Operation.CREATE, TOPIC, SOME)
DELETE_SOME_TOPIC = Right(Operation.DELETE, TOPIC, SOME)
DESCRIBE_CONFIGS_SOME_TOPIC = Right(Operation.DESCRIBE_CONFIGS, TOPIC, SOME)
ALTER_CONFIGS_SOME_TOPIC = Right(Operation.ALTER_CONFIGS, TOPIC, SOME)
CREATE_CLUSTER = Right(Operation.CREATE, CLUSTER)
ALTER_TOPIC = Right(Operation.ALTER, TOPIC, "topic")
DESCRIBE_TOPIC = Right(Operation.DESCRIBE, TOPIC, "topic")
READ_TOPIC = Right(Operation.READ, TOPIC, "topic")
WRITE_TOPIC = Right(Operation.WRITE, TOPIC, "topic")
DELETE_TOPIC = Right(Operation.DELETE, TOPIC, "topic")
ALTER_TOPIC_CONFIGS = Right(Operation.ALTER_CONFIGS, TOPIC, "topic")
DESCRIBE_GROUP = Right(Operation.DESCRIBE, GROUP, "group")
READ_GROUP = Right(Operation.READ, GROUP, "group")
DELETE_GROUP = Right(Operation.DELETE, GROUP, "group")
DESCRIBE_CLUSTER = Right(Operation.DESCRIBE, CLUSTER)
DESCRIBE_CLUSTER_CONFIGS = Right(Operation.DESCRIBE_CONFIGS, CLUSTER)
ALTER_CLUSTER = Right(Operation.ALTER, CLUSTER)
ALTER_CLUSTER_CONFIGS = Right(Operation.ALTER_CONFIGS, CLUSTER)


class Rights:
    """Of who asks, at the address where the connection comes from."""

    def __init__(self, authorizer: Authorizer | None, identity: Identity, host: str) -> None:
        """`authorizer`: None before the catalog is open."""
        self._identity = identity
        self.principal = Principal(USER, identity.name)
        self.host = host
        is_user = bool(identity.name) and not (identity.is_token or identity.is_elsewhere)
        is_enforced = authorizer is not None and authorizer.is_enforced
        self._authorizer = authorizer if is_enforced and is_user else None

    @property
    def are_ruled(self) -> bool:
        """Rules decide, and not the role alone."""
        return self._authorizer is not None

    def may(
        self, operation: Operation, resource_type: ResourceType, name: str, *,
        without_role: bool = False,
    ) -> bool:  # fmt: skip
        """No topic is called `*`: who asks for that means all (`export_rights.py`)."""
        return self._authorizer is None or self._authorizer.allows(
            self.principal, self.host, operation, resource_type, name, without_role=without_role,
            is_every=resource_type is TOPIC and name == WILDCARD,
        )  # fmt: skip

    def may_every(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whatever its name."""
        return self._authorizer is None or self._authorizer.allows_every(
            self.principal, self.host, operation, resource_type
        )

    def check(self, operation: Operation, resource_type: ResourceType, name: str) -> None:
        if not self.may(operation, resource_type, name):
            raise self.refusal(operation, resource_type, name)

    def refusal(self, operation: Operation, resource_type: ResourceType, name: str) -> Refused:
        what = "the cluster" if resource_type is CLUSTER else f"{resource_type.name.lower()} {name}"
        told = operation.name.lower().replace("_", " ")
        return Refused(REFUSALS[resource_type], f"{self.principal} may not {told} {what[:280]}")

    # Of a route. `role` is what it needs where nothing is enforced: a lower one is not enough to
    # change what only others may change, though it may read.

    def check_route(self, route: Route, path: Mapping[str, str]) -> None:
        for each in route.rights or ():
            if not self._has(each, route, path):
                raise self._refusal(each, path)
        if route.either and not any(self._has(each, route, path) for each in route.either):
            raise self._refusal(route.either[0], path)

    def _has(self, right: Right, route: Route, path: Mapping[str, str]) -> bool:
        if right.name == SOME:
            return self.may_some(right.operation, right.resource_type, route.role)
        return self.may(right.operation, right.resource_type, _named(right, path))

    def may_some(self, operation: Operation, resource_type: ResourceType, role: str) -> bool:
        """One at least. What a role below `role` allows does not count."""
        is_high = self._identity.may(role)
        if self._authorizer is None:
            return is_high
        return self._authorizer.allows_any(
            self.principal, self.host, operation, resource_type, without_role=not is_high
        )

    def _refusal(self, right: Right, path: Mapping[str, str]) -> Refused:
        return self.refusal(right.operation, right.resource_type, _named(right, path))

    # What may be seen

    def described(self, resource_type: ResourceType) -> Described:
        """For lists: names that may be told."""
        return Described(self, resource_type)

    @property
    def view(self) -> tuple[str, str, int] | None:
        """Whose lists these are, and of which generation; None: they are everybody's."""
        if self._authorizer is None or all(
            self.may_every(Operation.DESCRIBE, each) for each in (TOPIC, GROUP)
        ):
            return None
        return str(self.principal), self.host, self._authorizer.generation

    def allowed(self, resource_type: ResourceType, name: str) -> list[str]:
        """Operations on it, for a page that disables what would be refused."""
        operations = OPERATIONS[resource_type]
        if self._authorizer is not None:
            found = [each for each in operations if self.may(each, resource_type, name)]
        elif self._identity.role == role_rules.ADMIN:
            found = list(operations)
        else:
            bundle = role_rules.bundle(self._identity.role, self._identity.may_read)
            granted = bundle[resource_type].allowed if resource_type in bundle else 0
            found = [each for each in operations if granted & 1 << each]
        if resource_type is TOPIC and not self._identity.shows_messages:
            found = [each for each in found if each is not Operation.READ]
        return [each.name.lower() for each in found]


def _named(right: Right, path: Mapping[str, str]) -> str:
    if right.name == SOME:
        return "of any name"
    return path[right.name] if right.name else CLUSTER_NAME


class Described:
    """`name in described`: it may be told."""

    def __init__(self, rights: Rights, resource_type: ResourceType) -> None:
        self._rights, self._resource_type = rights, resource_type
        self.is_everything = rights.may_every(Operation.DESCRIBE, resource_type)

    def __contains__(self, name: object) -> bool:
        return self.is_everything or self._rights.may(
            Operation.DESCRIBE, self._resource_type, str(name)
        )
