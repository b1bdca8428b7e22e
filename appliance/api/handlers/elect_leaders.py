"""ElectLeaders 0-2: the preferred leader of partitions, the first of their replicas, leads again;
or, unclean, whoever lives of their replicas leads where nobody does. That loses what only others
have: each of these tells its ledger what it cuts.

A null list means all, and the answer has those that changed. On a broker that is none of a cluster
no partition needs an election, because its only replica is the leader: ELECTION_NOT_NEEDED.

Rights: ALTER on the cluster.

Left out: nothing.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_cluster
from appliance.api.handlers.call import Call
from appliance.api.handlers.partition_lookup import find_log, find_topic
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.protocol import ErrorCode
from appliance.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from appliance.topics.topics import Cluster

KEY = 43
VERSIONS = (0, 2)

PREFERRED, UNCLEAN = 0, 1

TopicRow = ElectLeadersResponse.ReplicaElectionResult
PartitionRow = ElectLeadersResponse.PartitionResult


def handle(
    broker: Broker, request: ElectLeadersRequest, call: Call
) -> ElectLeadersResponse | Coroutine[Any, Any, ElectLeadersResponse]:
    try:
        check_cluster(call, Operation.ALTER)
    except ApplianceError as error:
        return _refused(request, error)
    if request.election_type not in (PREFERRED, UNCLEAN):
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
    if broker.topics.cluster is not None:
        return _elect(broker, broker.topics.cluster, request)
    if request.topic_partitions is None:
        rows = [TopicRow(topic=name) for name in sorted(broker.topics)]
    else:
        rows = [
            TopicRow(
                topic=each.topic,
                partition_result=[_result(broker, each.topic, i) for i in each.partitions],
            )
            for each in request.topic_partitions
        ]
    return ElectLeadersResponse(replica_election_results=rows)


async def _elect(
    broker: Broker, cluster: Cluster, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    asked = request.topic_partitions
    if asked is None:
        keys = [(topic.name, i) for topic in broker.topics.values() for i in range(len(topic.logs))]
    else:
        keys = [(each.topic, i) for each in asked for i in each.partitions]
    try:
        codes = await cluster.elect(keys, request.election_type == UNCLEAN)
    except ApplianceError as error:
        return _refused(request, error)
    rows: dict[str, TopicRow] = {}
    for topic, partition in keys:
        code = codes.get((topic, partition), int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        if asked is None and code == ErrorCode.ELECTION_NOT_NEEDED:
            continue
        row = rows.setdefault(topic, TopicRow(topic, []))
        row.partition_result.append(PartitionRow(partition, code, None if code == 0 else
                                                 ErrorCode(code).name))  # fmt: skip
    return ElectLeadersResponse(replica_election_results=[*rows.values()])


def _refused(request: ElectLeadersRequest, error: ApplianceError) -> ElectLeadersResponse:
    """At each partition too, since version 0 has no other place for it."""
    code, text = error.kafka_code, str(error)
    rows = [
        TopicRow(each.topic, [PartitionRow(i, code, text) for i in each.partitions])
        for each in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=error.kafka_code, replica_election_results=rows)


def _result(broker: Broker, topic: str, partition: int) -> PartitionRow:
    code, text = int(ErrorCode.ELECTION_NOT_NEEDED), f"broker {broker.node_id} leads already"
    try:
        find_log(find_topic(broker, topic), partition)
    except ApplianceError as error:
        code, text = error.kafka_code, str(error)
    return PartitionRow(partition_id=partition, error_code=code, error_message=text)
