"""DescribeConfigs 1-4: all configs of a topic, the broker or a group: value, source, type, meaning.
For a subscription to clients' metrics only the configs that were set.

An empty list of names means all, like null. A success has the message "", not null, as in Kafka. A
secret has the value null. For all brokers (the empty name) only configs that were set at run time
are listed.

Rights: DESCRIBE_CONFIGS on the topic, the group, or, for what else has configs, the cluster.

Left out: broker loggers as resources (INVALID_REQUEST).
"""

from __future__ import annotations

import asyncio

from appliance.access.acls import Operation
from appliance.api.handlers import config_resource
from appliance.api.handlers.call import Call
from appliance.api.handlers.repeated_items import distinct
from appliance.broker.broker import Broker
from appliance.config.dynamic_broker_config import ConfigEntry
from appliance.errors import ApplianceError
from appliance.protocol import ErrorCode
from appliance.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)

KEY = 32
VERSIONS = (1, 4)

Asked = DescribeConfigsRequest.DescribeConfigsResource
Answer = DescribeConfigsResponse.DescribeConfigsResult
Row = DescribeConfigsResponse.DescribeConfigsResourceResult


# Topics are as many as there are; a group, say, has configs whether there is one or not.
OTHERS_MAX = 1000
TURN_RESOURCES = 20


async def handle(
    broker: Broker, request: DescribeConfigsRequest, call: Call
) -> DescribeConfigsResponse:
    asked = distinct(request.resources, lambda each: (each.resource_type, each.resource_name))
    left = OTHERS_MAX
    results: list[Answer] = []
    for each in asked:
        is_topic = each.resource_type == config_resource.TOPIC
        left -= not is_topic
        is_one = is_topic or left >= 0
        results.append(_describe(broker, call, each, request) if is_one else _one_too_many(each))
        if len(results) % TURN_RESOURCES == 0:
            await asyncio.sleep(0)
    return DescribeConfigsResponse(results=results)


def _one_too_many(asked: Asked) -> Answer:
    why = f"wanted at most {OTHERS_MAX} resources that are no topics"
    return Answer(ErrorCode.INVALID_REQUEST, why, asked.resource_type, asked.resource_name)


def _describe(
    broker: Broker, call: Call, asked: Asked, request: DescribeConfigsRequest
) -> Answer:
    answer = Answer(resource_type=asked.resource_type, resource_name=asked.resource_name)
    try:
        config_resource.check_rights(call, Operation.DESCRIBE_CONFIGS, asked)
        found = config_resource.find(broker, asked).entries()
    except ApplianceError as error:
        answer.error_code, answer.error_message = error.kafka_code, str(error)
        return answer
    names = frozenset(asked.configuration_keys or ())
    answer.configs = [_row(each, request) for each in found if not names or each.name in names]
    return answer


def _row(entry: ConfigEntry, request: DescribeConfigsRequest) -> Row:
    row = Row(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        config_type=entry.type,
        documentation=entry.doc if request.include_documentation else None,
    )
    if request.include_synonyms:
        row.synonyms = [
            DescribeConfigsResponse.DescribeConfigsSynonym(
                name=each.name,
                value=each.value,
                source=each.source,
            )
            for each in entry.synonyms
        ]
    return row
