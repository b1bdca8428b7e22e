"""What the requests for states of share partitions have in common: a row for each partition, the
right to ClusterAction, refusals in the row."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_cluster
from appliance.api.handlers.call import Call
from appliance.errors import ApplianceError
from appliance.share.state_log import SharePartitionKey

One = Callable[[SharePartitionKey, Any], Awaitable[Any]]


async def results_of(
    call: Call, request: Any, result: Callable[..., Any], row: Callable[..., Any], one: One
) -> list[Any]:
    """`one` answers for a partition with a `row`; those of a topic are a `result`."""
    results = []
    for topic in request.topics:
        rows = [
            await _row_of(
                call, SharePartitionKey(request.group_id, topic.topic_id, each.partition), each,
                row, one,
            )
            for each in topic.partitions
        ]  # fmt: skip
        results.append(result(topic.topic_id, rows))
    return results


async def _row_of(
    call: Call, key: SharePartitionKey, asked: Any, row: Callable[..., Any], one: One
) -> Any:
    try:
        check_cluster(call, Operation.CLUSTER_ACTION)
        return await one(key, asked)
    except ApplianceError as error:
        return row(key.partition, error.kafka_code, str(error))
