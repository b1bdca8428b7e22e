"""AlterUserScramCredentials 0: sets and removes credentials of users, durably.

The stored credential is derived from the salted password and does not allow a login. A request may
name a user once (DUPLICATE_RESOURCE); it accepts SCRAM-SHA-256 and -512 with 4096 to 16384
iterations (UNSUPPORTED_SASL_MECHANISM, UNACCEPTABLE_CREDENTIAL); a credential to remove must exist
(RESOURCE_NOT_FOUND). An error of one user does not stop others.

Rights: ALTER on the cluster.

A credential of somebody new makes a user who may log in here, and not to the console. Where rules
are not enforced, nobody may write credentials of a user of the console
(CLUSTER_AUTHORIZATION_FAILED); those that are written while other machines reach such a broker open
nothing until an administrator has confirmed them.

Left out: nothing.
"""

from __future__ import annotations

from appliance.access.acls import Operation
from appliance.access.scram import Deletion, Upsertion
from appliance.api.handlers.authorization import check_cluster
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)

KEY = 51
VERSIONS = (0, 0)

Result = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult


async def handle(
    broker: Broker, request: AlterUserScramCredentialsRequest, call: Call
) -> AlterUserScramCredentialsResponse:
    try:
        check_cluster(call, Operation.ALTER)
    except ApplianceError as error:  # the answer has no place for it but at each user
        named = [each.name for each in request.deletions]
        named += [each.name for each in request.upsertions]
        return AlterUserScramCredentialsResponse(
            results=[_result(each, error) for each in dict.fromkeys(named)]
        )
    upsertions = [
        Upsertion(each.name, each.mechanism, each.iterations, each.salt, each.salted_password)
        for each in request.upsertions
    ]
    found = await broker.scram.alter(
        [Deletion(each.name, each.mechanism) for each in request.deletions], upsertions
    )
    return AlterUserScramCredentialsResponse(
        results=[_result(user, error) for user, error in found.items()]
    )


def _result(user: str, error: ApplianceError | None) -> Result:
    if error is None:
        return Result(user=user, error_message=None)
    return Result(user=user, error_code=error.kafka_code, error_message=str(error))
