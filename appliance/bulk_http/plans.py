"""What there is to read: names of topics, and the plan of a bulk read."""

from __future__ import annotations

from appliance.admin.bulk_read import Plan, TopicNames
from appliance.admin.route import Call
from appliance.admin.topic_lookup import check_meant, topic_of
from appliance.bulk.bounds import LIMITS, bounds
from appliance.bulk.plan import PlannedPartition, Split, partitions_of, splits_of
from appliance.catalog import kafka_uuid


async def topic_names(call: Call) -> TopicNames:
    described = call.described_topics()
    found = (each.name for each in call.broker.topics.values() if not each.is_internal)
    return {"topics": sorted(name for name in found if name in described)}


async def make_plan(call: Call) -> Plan:
    topic, params = topic_of(call), call.params
    check_meant(topic, params["topic_id"])
    count = len(topic.logs)
    first, last = bounds("from", params["from"], count), bounds("to", params["to"], count)
    prefix = f"{call.broker.node_id}/{topic.name}"
    await call.broker.leaders.readable(topic, sorted(first.keys() & last.keys()))

    def plan() -> tuple[list[PlannedPartition], list[Split]]:
        found = partitions_of(topic.log, first, last, LIMITS[params["isolation"]])
        return found, splits_of(topic.log, found, params["splits"], prefix)

    partitions, splits = await call.reading.on_thread(plan)
    return {
        "topic": topic.name,
        "topic_id": kafka_uuid.text_of(topic.id),
        "cluster_id": call.broker.cluster_id,
        "broker_id": call.broker.node_id,
        "isolation": params["isolation"],
        "partitions": partitions,
        "splits": splits,
    }
