"""UpdateFeatures 0-2: refuses, since no feature of this broker can be raised or lowered.

Neither one that ApiVersions lists nor any other can be updated: INVALID_UPDATE_VERSION, up to
version 1 for each feature, in version 2 for the whole request. A request without features changes
nothing and succeeds.

Left out: other levels of `group.version`, `share.version` and `transaction.version`. Clients that
do not know them speak the older protocols anyway, and are served side by side.
"""

from __future__ import annotations

from appliance.broker import Broker
from appliance.handlers.api_versions import FEATURES
from appliance.handlers.call import Call
from appliance.wire import ErrorCode
from appliance.wire.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

KEY = 57
VERSIONS = (0, 2)

Result = UpdateFeaturesResponse.UpdatableFeatureResult


def handle(broker: Broker, request: UpdateFeaturesRequest, call: Call) -> UpdateFeaturesResponse:
    names = [each.feature for each in request.feature_updates]
    texts = {name: _why_not(name) for name in names}
    if call.version >= 2 and names:
        return UpdateFeaturesResponse(
            error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message="; ".join(texts.values())
        )
    return UpdateFeaturesResponse(
        error_message=None,
        results=[
            Result(
                feature=name, error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=texts[name]
            )
            for name in texts
        ],
    )


def _why_not(name: str) -> str:
    for each in FEATURES:
        if each.name == name:
            return f"{name}: it is at level {each.finalized} and stays there"
    return f"{name}: there is no such feature"
