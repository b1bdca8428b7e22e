"""UpdateFeatures 0-2: refuses, since no feature of this broker can be raised or lowered.

A feature that ApiVersions does not list cannot be updated: INVALID_UPDATE_VERSION, up to version 1
for each feature, in version 2 for the whole request. A request without features changes nothing
and succeeds.

Left out: features with levels. Their rows come with what they switch on.
"""

from __future__ import annotations

from appliance.broker import Broker
from appliance.handlers.call import Call
from appliance.wire import ErrorCode
from appliance.wire.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

KEY = 57
VERSIONS = (0, 2)

Result = UpdateFeaturesResponse.UpdatableFeatureResult


def handle(broker: Broker, request: UpdateFeaturesRequest, call: Call) -> UpdateFeaturesResponse:
    names = [each.feature for each in request.feature_updates]
    texts = {name: f"{name}: there is no such feature" for name in names}
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
