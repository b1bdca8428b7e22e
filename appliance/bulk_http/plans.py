"""What there is to read: names of topics, and the plan of a bulk read."""

from __future__ import annotations

from appliance.admin.bulk_read import Plan, TopicNames
from appliance.admin.route import Call
from appliance.admin.topic_lookup import check_meant, topic_of
from appliance.broker.partition_leaders import COMMITTED, UNCOMMITTED
from appliance.bulk.bounds import LIMITS, bounds
from appliance.bulk.plan import PlannedPartition, Split, partitions_of, splits_of
from appliance.bulk_http.leader_range import partitions_at_leaders, sizes_at_leaders
from appliance.catalog import kafka_uuid
from appliance.topics.topic import Topic


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
    up_to, leaders = LIMITS[params["isolation"]], call.broker.leaders
    chosen = sorted(first.keys() & last.keys())
    away = await elsewhere(call, topic, chosen)
    at_leaders = await partitions_at_leaders(
        leaders, topic, {each: first[each] for each in away}, {each: last[each] for each in away},
        COMMITTED if up_to == "stable" else UNCOMMITTED,
    )  # fmt: skip
    sizes = await sizes_at_leaders(leaders, topic, at_leaders)
    here = {each: first[each] for each in chosen if each not in away}

    def plan() -> tuple[list[PlannedPartition], list[Split]]:
        found = partitions_of(topic.log, here, last, up_to) + at_leaders
        found.sort(key=lambda each: each["partition"])
        return found, splits_of(topic.log, found, params["splits"], prefix, sizes)

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


async def elsewhere(call: Call, topic: Topic, numbers: list[int]) -> set[int]:
    """Of which nothing is here, or not all that counts: they are read from their leaders."""
    _, away = await call.broker.leaders.shown_of([(topic, each) for each in numbers])
    for _, number in away:
        if number in topic.unserved:
            topic.log(number)  # refused: it is here, and not open
    return {number for _, number in away}
