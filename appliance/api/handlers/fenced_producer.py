"""The error code of a fenced producer by the version of an API: older clients know only one
code."""

from __future__ import annotations

from appliance.errors import ApplianceError
from appliance.protocol import ErrorCode


def told(error: ApplianceError, version: int, first_with_fenced: int) -> int:
    if error.kafka_code == ErrorCode.PRODUCER_FENCED and version < first_with_fenced:
        return int(ErrorCode.INVALID_PRODUCER_EPOCH)
    return error.kafka_code
