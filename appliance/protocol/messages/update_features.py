"""UpdateFeatures: raise or lower the finalized level of a feature."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import (
    Api,
    Message,
    Versions,
    array,
    boolean,
    field,
    int8,
    int16,
    int32,
    string,
)

VERSIONS = Versions(0, 2, flexible_from=0)


class UpdateFeaturesRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class FeatureUpdateKey(Message):
        feature: str = field(string)
        max_version_level: int = field(int16)
        allow_downgrade: bool = field(boolean, "0")
        upgrade_type: int = field(int8, "1+", default=1)

    timeout_ms: int = field(int32, default=60000)
    feature_updates: list[FeatureUpdateKey] = field(array(FeatureUpdateKey))
    validate_only: bool = field(boolean, "1+")


class UpdateFeaturesResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class UpdatableFeatureResult(Message):
        feature: str = field(string)
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+")

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+")
    results: list[UpdatableFeatureResult] = field(array(UpdatableFeatureResult), "0-1")


API = Api(57, "UpdateFeatures", UpdateFeaturesRequest, UpdateFeaturesResponse)
