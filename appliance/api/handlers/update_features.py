"""UpdateFeatures 0-2: always refuses, because no feature of this broker can be raised or lowered.

Every feature, listed in ApiVersions or not, gets INVALID_UPDATE_VERSION for the whole request, in
every version, as in Apache Kafka since 4.0. A request without features changes nothing and
succeeds.

Rights: ALTER on the cluster.

Left out: other levels of `group.version`, `share.version`, `streams.version` and
`transaction.version`. Clients that do not know them use the older protocols, which are served side
by side.
"""

from __future__ import annotations

from appliance.access.acls import Operation
from appliance.api.handlers.api_versions import FEATURES
from appliance.api.handlers.authorization import check_cluster
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.protocol import ErrorCode
from appliance.protocol.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

KEY = 57
VERSIONS = (0, 2)

def handle(broker: Broker, request: UpdateFeaturesRequest, call: Call) -> UpdateFeaturesResponse:
    check_cluster(call, Operation.ALTER)
    texts = {each.feature: _why_not(each.feature) for each in request.feature_updates}
    if not texts:
        return UpdateFeaturesResponse(error_message=None)
    return UpdateFeaturesResponse(
        error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message="; ".join(texts.values())
    )


def _why_not(name: str) -> str:
    for each in FEATURES:
        if each.name == name:
            return f"{name}: it is at level {each.finalized} and stays there"
    return f"{name}: there is no such feature"
