"""Authorized operations in the responses of Metadata and the Describe APIs: a bit per operation.

Of the operations that there are on the kind of resource, those that who asks may do.
"""

from __future__ import annotations

from appliance.access.acls import CLUSTER_NAME, Operation, ResourceType
from appliance.api.handlers.call import Call

NOT_ASKED = -(1 << 31)  # not 0, which would mean: nothing is allowed
NOTHING = 0

ON_TOPIC = (
    Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER,
    Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
)  # fmt: skip
ON_GROUP = (
    Operation.READ, Operation.DELETE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)  # fmt: skip
ON_CLUSTER = (
    Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.IDEMPOTENT_WRITE,
)  # fmt: skip


def on_topic(call: Call, name: str) -> int:
    return _allowed(call, ON_TOPIC, ResourceType.TOPIC, name)


def on_group(call: Call, group_id: str) -> int:
    return _allowed(call, ON_GROUP, ResourceType.GROUP, group_id)


def on_cluster(call: Call) -> int:
    """Nothing to whom the cluster may not be described, as in Kafka."""
    if not call.may(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return NOTHING
    return _allowed(call, ON_CLUSTER, ResourceType.CLUSTER, CLUSTER_NAME)


def _allowed(
    call: Call, operations: tuple[Operation, ...], resource_type: ResourceType, name: str
) -> int:
    return call.authorizer.allowed_operations(
        call.principal, call.peer, operations, resource_type, name
    )
