"""ElectLeaders 0-2: no partition needs an election, because its only replica is the leader.

Named partitions get ELECTION_NOT_NEEDED. A null list means all: every topic is listed without
partitions, because none changed.

Rights: ALTER on the cluster.

Left out: elections, because there is one broker.
"""

from __future__ import annotations

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_cluster
from appliance.api.handlers.call import Call
from appliance.api.handlers.partition_lookup import find_log, find_topic
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.protocol import ErrorCode
from appliance.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

KEY = 43
VERSIONS = (0, 2)

PREFERRED, UNCLEAN = 0, 1

TopicRow = ElectLeadersResponse.ReplicaElectionResult
PartitionRow = ElectLeadersResponse.PartitionResult


def handle(broker: Broker, request: ElectLeadersRequest, call: Call) -> ElectLeadersResponse:
    try:
        check_cluster(call, Operation.ALTER)
    except ApplianceError as error:
        return _refused(request, error)
    if request.election_type not in (PREFERRED, UNCLEAN):
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
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
