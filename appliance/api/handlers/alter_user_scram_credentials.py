"""AlterUserScramCredentials 0: sets and removes credentials of users, durably.

What is kept is made of the salted password and is no use for a login. A user may be named once in a
request (DUPLICATE_RESOURCE); SCRAM-SHA-256 and -512 with 4096 to 16384 iterations are accepted
(UNSUPPORTED_SASL_MECHANISM, UNACCEPTABLE_CREDENTIAL); what is to be removed must be there
(RESOURCE_NOT_FOUND). A user's fault stops no other.

Left out: logins. Credentials are kept and shown, and nobody is asked for one.
"""

from __future__ import annotations

from appliance.access.scram import Deletion, Upsertion
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
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
    upsertions = [
        Upsertion(each.name, each.mechanism, each.iterations, each.salt, each.salted_password)
        for each in request.upsertions
    ]
    found = await broker.scram.alter(
        [Deletion(each.name, each.mechanism) for each in request.deletions], upsertions
    )
    return AlterUserScramCredentialsResponse(
        results=[
            Result(user=user, error_code=error.kafka_code, error_message=str(error))
            if error
            else Result(user=user, error_message=None)
            for user, error in found.items()
        ]
    )
