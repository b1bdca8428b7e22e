"""IncrementalAlterConfigs 0-1: sets, deletes, appends to and subtracts from configs of a topic, the
broker, a group or a subscription to clients' metrics; other configs stay as they are.

Append and subtract change lists, starting with the effective value. All changes of a resource are
made, durably, or none. An error of one resource does not stop others.

Rights: ALTER_CONFIGS on the topic, the group, or, for what else has configs, the cluster.

Left out: broker loggers as resources (INVALID_REQUEST); broker settings that are read only at the
start (INVALID_REQUEST).
"""

from __future__ import annotations

from appliance.api.handlers.call import Call
from appliance.api.handlers.config_resource import Configs, change_all
from appliance.broker.broker import Broker
from appliance.config.config_key import ConfigChange
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
    async def change(found: Configs, asked: Asked) -> None:
        changes = [ConfigChange(it.name, it.config_operation, it.value) for it in asked.configs]
        await found.alter(changes, validate_only=request.validate_only)

    return IncrementalAlterConfigsResponse(
        responses=await change_all(broker, call, request.resources, Answer, change)
    )
