"""Authorized operations in the responses of Metadata and the Describe APIs: a bit per operation.

ACLs are not enforced yet, so every client may do all operations of the resource. A Kafka without an
authorizer answers the same.
"""

from __future__ import annotations

READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION = 3, 4, 5, 6, 7, 8, 9
DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = 10, 11, 12

NOT_ASKED = -(1 << 31)  # not 0, which would mean: nothing is allowed


def _bits(*operations: int) -> int:
    return sum(1 << each for each in operations)


ON_TOPIC = _bits(READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
ON_GROUP = _bits(READ, DELETE, DESCRIBE)
ON_CLUSTER = _bits(
    CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE
)
