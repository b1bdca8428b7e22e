"""DescribeUserScramCredentials 0: mechanisms and iterations of users; never a secret.

A null or empty list means all users. A user without a credential gets RESOURCE_NOT_FOUND, a
duplicate user DUPLICATE_RESOURCE.

Rights: DESCRIBE on the cluster.

Left out: nothing.
"""

from __future__ import annotations

from collections import Counter

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_cluster
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError, Refused
from appliance.protocol import ErrorCode
from appliance.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

KEY = 50
VERSIONS = (0, 0)

Result = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
Row = DescribeUserScramCredentialsResponse.CredentialInfo


def handle(
    broker: Broker, request: DescribeUserScramCredentialsRequest, call: Call
) -> DescribeUserScramCredentialsResponse:
    check_cluster(call, Operation.DESCRIBE)
    times = Counter(each.name for each in request.users or []) or Counter(broker.scram.users())
    return DescribeUserScramCredentialsResponse(
        error_message=None,
        results=[_result(broker, user, count) for user, count in times.items()],
    )


def _result(broker: Broker, user: str, count: int) -> Result:
    try:
        if count > 1:
            raise Refused(ErrorCode.DUPLICATE_RESOURCE, f"user {user!r} is named {count} times")
        found = broker.scram.iterations(user)
    except ApplianceError as error:
        return Result(user=user, error_code=error.kafka_code, error_message=str(error))
    return Result(
        user=user,
        error_message=None,
        credential_infos=[Row(mechanism, iterations) for mechanism, iterations in found.items()],
    )
