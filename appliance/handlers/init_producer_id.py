"""InitProducerId 0-5: a new producer id for an idempotent producer, never given out twice.

Without a transactional id every call gets a fresh id with epoch 0, whatever id the client had.

Left out: transactions. There is no transaction coordinator yet, and a transactional id is refused
with UNSUPPORTED_VERSION, which clients take as final: a retriable error would have them wait for
ever. Version 6, two-phase commit, is not stable in Kafka either.
"""

from __future__ import annotations

from appliance.broker import Broker
from appliance.handlers.call import Call
from appliance.wire import ErrorCode
from appliance.wire.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

KEY = 22
VERSIONS = (0, 5)

NONE = -1


async def handle(
    broker: Broker, request: InitProducerIdRequest, call: Call
) -> InitProducerIdResponse:
    error = _error(request)
    if error:
        return InitProducerIdResponse(error_code=error, producer_epoch=NONE)
    return InitProducerIdResponse(producer_id=await broker.new_producer_id())


def _error(request: InitProducerIdRequest) -> ErrorCode:
    if (request.producer_id == NONE) != (request.producer_epoch == NONE):
        return ErrorCode.INVALID_REQUEST  # half of what identifies a producer
    if request.transactional_id == "":
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is not None:
        return ErrorCode.UNSUPPORTED_VERSION
    return ErrorCode.NONE
