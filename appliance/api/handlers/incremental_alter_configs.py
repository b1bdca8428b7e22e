"""IncrementalAlterConfigs 0-1: sets, deletes, appends to and subtracts from configs of a topic, the
broker, a group or a subscription to clients' metrics; other configs stay as they are.

Append and subtract change lists, starting with the effective value. All changes of a resource are
made, durably, or none. An error of one resource does not stop others.

Left out: broker loggers as resources (INVALID_REQUEST); broker settings that are read only at the
start (INVALID_REQUEST).
"""

from __future__ import annotations

from appliance.api.handlers import config_resource
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.config.config_key import ConfigChange
from appliance.errors import ApplianceError
from appliance.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

KEY = 44
VERSIONS = (0, 1)

Asked = IncrementalAlterConfigsRequest.AlterConfigsResource
Answer = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse


async def handle(
    broker: Broker, request: IncrementalAlterConfigsRequest, call: Call
) -> IncrementalAlterConfigsResponse:
    twice = config_resource.named_twice(request.resources)
    return IncrementalAlterConfigsResponse(
        responses=[
            await _alter(broker, each, twice, request.validate_only) for each in request.resources
        ]
    )


async def _alter(
    broker: Broker, asked: Asked, twice: set[tuple[int, str]], validate_only: bool
) -> Answer:
    answer = Answer(
        error_message=None, resource_type=asked.resource_type, resource_name=asked.resource_name
    )
    changes = [ConfigChange(each.name, each.config_operation, each.value) for each in asked.configs]
    try:
        found = config_resource.find(broker, asked, twice)
        await found.alter(changes, validate_only=validate_only)
    except ApplianceError as error:
        answer.error_code, answer.error_message = error.kafka_code, str(error)
    return answer
