"""ListConfigResources 0-1: the topics, brokers, groups and subscriptions to clients' metrics with
configs.

Version 0 lists only subscriptions. From version 1 on the request names the types; an empty list
means all. An unknown type gets UNSUPPORTED_VERSION.

Rights: DESCRIBE_CONFIGS on the cluster.

Left out: broker loggers, which have no configs here: none is listed.
"""

from __future__ import annotations

from collections.abc import Iterable

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_cluster
from appliance.api.handlers.call import Call
from appliance.api.handlers.config_resource import BROKER, CLIENT_METRICS, GROUP, TOPIC
from appliance.broker.broker import Broker
from appliance.protocol import ErrorCode
from appliance.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

KEY = 74
VERSIONS = (0, 1)

BROKER_LOGGER = 8
TYPES = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)

Row = ListConfigResourcesResponse.ConfigResource


def handle(
    broker: Broker, request: ListConfigResourcesRequest, call: Call
) -> ListConfigResourcesResponse:
    check_cluster(call, Operation.DESCRIBE_CONFIGS)
    types = set(request.resource_types) or set(TYPES)
    if call.version == 0:
        types = {CLIENT_METRICS}
    if types - set(TYPES):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    rows = [Row(name, each) for each in sorted(types) for name in _names(broker, each)]
    return ListConfigResourcesResponse(config_resources=rows)


def _names(broker: Broker, resource_type: int) -> Iterable[str]:
    if resource_type == GROUP:
        return broker.group_configs.names()
    if resource_type == TOPIC:
        return sorted(broker.topics)
    if resource_type == BROKER:
        return [str(broker.node_id)]
    return broker.client_metrics.names() if resource_type == CLIENT_METRICS else []
