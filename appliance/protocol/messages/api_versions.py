"""ApiVersions: which APIs and versions the broker serves; the first thing a client asks."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import (
    Api,
    Message,
    Versions,
    array,
    boolean,
    field,
    int16,
    int32,
    int64,
    string,
)

VERSIONS = Versions(0, 4, flexible_from=3)


class ApiVersionsRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    client_software_name: str = field(string, "3+")
    client_software_version: str = field(string, "3+")


class ApiVersionsResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class ApiVersion(Message):
        api_key: int = field(int16)
        min_version: int = field(int16)
        max_version: int = field(int16)

    class SupportedFeatureKey(Message):
        name: str = field(string, "3+")
        min_version: int = field(int16, "3+")
        max_version: int = field(int16, "3+")

    class FinalizedFeatureKey(Message):
        name: str = field(string, "3+")
        max_version_level: int = field(int16, "3+")
        min_version_level: int = field(int16, "3+")

    error_code: int = field(int16)
    api_keys: list[ApiVersion] = field(array(ApiVersion))
    throttle_time_ms: int = field(int32, "1+")
    supported_features: list[SupportedFeatureKey] = field(array(SupportedFeatureKey), "3+", tag=0)
    finalized_features_epoch: int = field(int64, "3+", default=-1, tag=1)
    finalized_features: list[FinalizedFeatureKey] = field(array(FinalizedFeatureKey), "3+", tag=2)
    zk_migration_ready: bool = field(boolean, "3+", tag=3)


API = Api(18, "ApiVersions", ApiVersionsRequest, ApiVersionsResponse)
