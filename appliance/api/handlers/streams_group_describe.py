"""StreamsGroupDescribe 0: groups of Kafka Streams: topology, members, and their tasks.

Once all topics are there, the topology has the number of partitions of internal topics. A group
that does not exist, or is of another protocol, gets GROUP_ID_NOT_FOUND.

Rights: DESCRIBE on the group, and on every topic of its topology.

Left out: offsets of changelogs, which members do not send, as in Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_group, may_topic
from appliance.api.handlers.authorized_operations import NOT_ASKED, on_group
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.groups.streams.group import StreamsGroup
from appliance.groups.streams.member import StreamsMember
from appliance.groups.streams.task import NO_TASKS, Role, Tasks, rows
from appliance.groups.streams.topology import InternalTopic, Subtopology
from appliance.protocol import ErrorCode
from appliance.protocol.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)

KEY = 89
VERSIONS = (0, 0)

Response = StreamsGroupDescribeResponse
Answer = Response.DescribedGroup


def handle(broker: Broker, request: StreamsGroupDescribeRequest, call: Call) -> Response:
    is_asked = request.include_authorized_operations
    asked = dict.fromkeys(request.group_ids)
    return Response(groups=[_describe(broker, call, each, is_asked) for each in asked])


def _describe(broker: Broker, call: Call, group_id: str, wants_operations: bool) -> Answer:
    try:
        check_group(call, Operation.DESCRIBE, group_id)
        group = broker.groups.streams.get(group_id)
    except ApplianceError as error:
        return Answer(error_code=error.kafka_code, error_message=str(error), group_id=group_id)
    topics = group.topology.topics if group.topology else ()
    if not all(may_topic(call, Operation.DESCRIBE, each) for each in topics):
        return _unnamed(group_id)
    return Answer(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        topology=_topology(group),
        members=[_member(group, each) for each in group.all()],
        authorized_operations=on_group(call, group_id) if wants_operations else NOT_ASKED,
    )


def _unnamed(group_id: str) -> Answer:
    return Answer(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message=(
            "The described group uses topics that the client is not authorized to describe."
        ),
        group_id=group_id,
    )


def _topology(group: StreamsGroup) -> Response.Topology | None:
    said, partitions = group.topology, group.found.partitions if group.found.is_ready else {}
    if said is None:
        return None
    return Response.Topology(
        said.epoch, [_subtopology(each, partitions) for each in said.subtopologies]
    )


def _subtopology(said: Subtopology, partitions: Mapping[str, int]) -> Response.Subtopology:
    return Response.Subtopology(
        said.id,
        list(said.source_topics),
        list(said.repartition_sinks),
        [_topic(each, partitions) for each in said.changelogs],
        [_topic(each, partitions) for each in said.repartition_sources],
    )


def _topic(said: InternalTopic, partitions: Mapping[str, int]) -> Response.TopicInfo:
    configs = [Response.KeyValue(*each) for each in said.configs]
    count = partitions.get(said.name, said.partitions)
    return Response.TopicInfo(said.name, count, said.replication_factor, configs)


def _member(group: StreamsGroup, member: StreamsMember) -> Response.Member:
    said = member.said
    return Response.Member(
        member_id=member.id,
        member_epoch=member.now.epoch,
        instance_id=said.instance_id,
        rack_id=said.rack_id,
        client_id=said.client_id,
        client_host=said.client_host,
        topology_epoch=said.topology_epoch,
        process_id=said.process_id,
        user_endpoint=said.endpoint and Response.Endpoint(*said.endpoint),
        client_tags=[Response.KeyValue(*each) for each in said.tags],
        assignment=_tasks(member.now.assigned),
        target_assignment=_tasks(group.targets.get(member.id, NO_TASKS)),
    )


def _tasks(tasks: Tasks) -> Response.Assignment:
    return Response.Assignment(*(rows(tasks, role, Response.TaskIds) for role in Role))
