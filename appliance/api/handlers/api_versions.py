"""ApiVersions 0-4: the APIs, versions and features of this broker.

Every version gets a response: an unknown version gets the body of version 0 with error 35 and our
range for this API, and the client asks again. From version 3 on the client names its software; a
name that cannot be logged safely is refused. A feature that may be off (lowest level 0) is hidden
below version 4, because older clients take 0 for an error.

Four of Kafka's features are implemented. `group.version`, at level 1: groups of the newer protocol
(KIP-848). `transaction.version`, at level 2: clients that know it use TV2 (Produce 12,
TxnOffsetCommit 5, EndTxn 5), others the earlier protocol. `share.version`, at level 1: share groups
(KIP-932). `streams.version`, at level 1: groups of Kafka Streams (KIP-1071).

Rights: none.

Left out: the other features, because none of them is implemented.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from appliance.api.handlers.call import CLIENT_ID_MAX, Call
from appliance.broker.broker import Broker
from appliance.protocol import ErrorCode
from appliance.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

KEY = 18
VERSIONS = (0, 4)

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")

# Levels are changed by UpdateFeatures, which can change none: the epoch of them never moves.
FEATURES_EPOCH = 0


class Feature(NamedTuple):
    name: str
    lowest: int
    highest: int
    finalized: int | None  # the level in force; None where it is not in use


# In Kafka's order. A row belongs here with the code that keeps its promise, not before.
FEATURES: tuple[Feature, ...] = (
    Feature("group.version", 0, 1, 1),
    Feature("share.version", 0, 1, 1),
    Feature("streams.version", 0, 1, 1),
    Feature("transaction.version", 0, 2, 2),
)


def handle(broker: Broker, request: ApiVersionsRequest, call: Call) -> ApiVersionsResponse:
    if call.version >= 3 and not _names_software(request):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    if call.version >= 3:
        broker.software[call.connection] = (
            request.client_software_name[:CLIENT_ID_MAX],
            request.client_software_version[:CLIENT_ID_MAX],
        )
    answer = ApiVersionsResponse(
        api_keys=[
            ApiVersionsResponse.ApiVersion(api_key=key, min_version=lowest, max_version=highest)
            for key, (lowest, highest) in sorted(call.served.items())
        ]
    )
    list_features(answer, FEATURES, call.version)
    return answer


def of_unknown_version() -> ApiVersionsResponse:
    """To be encoded as version 0, which every client that ever asked this can read."""
    lowest, highest = VERSIONS
    own = ApiVersionsResponse.ApiVersion(api_key=KEY, min_version=lowest, max_version=highest)
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[own])


def list_features(answer: ApiVersionsResponse, features: Iterable[Feature], version: int) -> None:
    rows = list(features)
    answer.supported_features = [
        ApiVersionsResponse.SupportedFeatureKey(
            name=each.name, min_version=each.lowest, max_version=each.highest
        )
        for each in rows
        if each.lowest > 0 or version >= 4
    ]
    answer.finalized_features_epoch = FEATURES_EPOCH
    answer.finalized_features = [
        ApiVersionsResponse.FinalizedFeatureKey(
            name=each.name, max_version_level=each.finalized, min_version_level=each.finalized
        )
        for each in rows
        if each.finalized is not None
    ]


def _names_software(request: ApiVersionsRequest) -> bool:
    given = (request.client_software_name, request.client_software_version)
    return all(_SOFTWARE.fullmatch(each) for each in given)
