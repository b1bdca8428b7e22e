"""AlterConfigs 0-2: sets all configs of a topic, the broker, a group or a subscription to clients'
metrics; configs that are not given get their defaults. Most clients need the newer
IncrementalAlterConfigs.

All configs of a resource change, durably, or none. An error of one resource does not stop others.

Rights: ALTER_CONFIGS on the topic, the group, or, for what else has configs, the cluster.

Left out: broker loggers as resources (INVALID_REQUEST); broker settings that are read only at the
start (INVALID_REQUEST).
"""

from __future__ import annotations

from appliance.api.handlers.call import Call
from appliance.api.handlers.config_resource import Configs, change_all
from appliance.broker.broker import Broker
from appliance.errors import Refused
from appliance.protocol import ErrorCode
from appliance.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse

KEY = 33
VERSIONS = (0, 2)

Asked = AlterConfigsRequest.AlterConfigsResource
Answer = AlterConfigsResponse.AlterConfigsResourceResponse


async def handle(broker: Broker, request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:
    async def change(found: Configs, asked: Asked) -> None:
        await found.set(_configs(asked), validate_only=request.validate_only)

    return AlterConfigsResponse(
        responses=await change_all(broker, call, request.resources, Answer, change)
    )


def _configs(asked: Asked) -> dict[str, str]:
    configs: dict[str, str] = {}
    for each in asked.configs:
        if each.value is None or each.name in configs:
            fault = "has no value (null)" if each.value is None else "is given twice"
            raise Refused(ErrorCode.INVALID_REQUEST, f"{each.name} {fault}")
        configs[each.name] = each.value
    return configs
