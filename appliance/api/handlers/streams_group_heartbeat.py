"""StreamsGroupHeartbeat 0: joins, stays in or leaves a group of Kafka Streams (KIP-1071).

A member says its topology when it joins. The broker makes the internal topics, assigns tasks, and
moves a task only after its old owner has confirmed the release. Changes are on disk before the
response. A status tells why there are no tasks: topics are missing or unevenly partitioned, or the
first members wait for others. A group of the classic protocol without members takes the streams
protocol, with its offsets; a group without members takes a new topology. A member that comes with
its previous epoch, or owns other tasks than it was given, is told its tasks again. One that waits
for topics or tasks is told the shortest interval of heartbeats.

Rights: READ on the group, DESCRIBE on all topics of the topology; CREATE on the cluster or on the
internal topics, or they are not created.

Left out: static members, topics by pattern, warm-up tasks and offsets of changelogs, as in Apache
Kafka 4.3 (INVALID_REQUEST). Racks and tags of clients are kept and described; no assignment looks
at them, as there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import (
    check_group,
    check_topic,
    may_cluster,
    may_topic,
)
from appliance.api.handlers.call import Call, Later
from appliance.broker.broker import Broker
from appliance.data_dir.partition_names import TopicNameInvalid
from appliance.errors import Refused
from appliance.groups.consumer_member import AWAY, JOINING
from appliance.groups.streams import topology
from appliance.groups.streams.member import Beat, Beaten, Endpoint, Places, Tags
from appliance.groups.streams.task import Role, Task, Tasks, rows, tasks_of
from appliance.groups.streams.topics_of_topology import NewTopic, StatusCode
from appliance.groups.streams.topology import Topology
from appliance.protocol import ErrorCode
from appliance.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from appliance.topics.topic import INTERNAL, check_name

KEY = 88
VERSIONS = (0, 0)

SHOWN_MAX = 10  # topics that an error names

Request = StreamsGroupHeartbeatRequest
Answer = StreamsGroupHeartbeatResponse


def handle(broker: Broker, request: Request, call: Call) -> Later:
    later = Later()
    check_group(call, Operation.READ, request.group_id)
    _check(request)
    _check_count(request, broker.config.streams_groups.max_tasks)
    said = None if request.topology is None else topology.of_rows(request.topology)
    if said is not None:
        _check_topics(said, call)
    broker.groups.streams.heartbeat(
        request.group_id,
        _asked(request, said, call),
        call.received_ms,
        lambda beaten: later.give(_answer(beaten, _maker(broker, call))),
    )
    return later


# What is refused, in Kafka's words


def _check(request: Request) -> None:
    epoch = request.member_epoch
    faults = {
        "Static membership is not yet supported.": request.instance_id is not None,
        "TaskOffsets are not supported yet.": request.task_offsets is not None,
        "TaskEndOffsets are not supported yet.": request.task_end_offsets is not None,
        "WarmupTasks are not supported yet.": bool(request.warmup_tasks),
        "Regular expressions for source topics are not supported yet.": (
            request.topology is not None
            and any(each.source_topic_regex for each in request.topology.subtopologies)
        ),
        "MemberId can't be empty.": not request.member_id,
        "GroupId can't be empty.": not request.group_id,
        "RackId can't be empty.": request.rack_id == "",
        **(_faults_of_join(request) if epoch == JOINING else {}),
        f"MemberEpoch is {epoch}, but must be greater than or equal to {AWAY}.": epoch < AWAY,
        "InstanceId can't be null.": epoch == AWAY,
        "If one task-type is non-null, all must be non-null.": _is_half(request),
        "Topology can only be provided when (re-)joining.": (
            epoch != JOINING and request.topology is not None
        ),
    }
    found = next((text for text, is_so in faults.items() if is_so), None)
    if found is not None:
        raise Refused(ErrorCode.INVALID_REQUEST, found)


def _faults_of_join(request: Request) -> dict[str, bool]:
    return {
        "RebalanceTimeoutMs must be provided in first request.": request.rebalance_timeout_ms < 0,
        "ActiveTasks must be empty when (re-)joining.": request.active_tasks != [],
        "StandbyTasks must be empty when (re-)joining.": request.standby_tasks != [],
        "WarmupTasks must be empty when (re-)joining.": request.warmup_tasks != [],
        "Topology must be non-null when (re-)joining.": request.topology is None,
    }


def _is_half(request: Request) -> bool:
    given = [each is None for each in _tasks_by_role(request)]
    return any(given) and not all(given)


def _check_count(request: Request, most: int) -> None:
    """Before they are anything but numbers."""
    count = sum(len(row.partitions) for of in _tasks_by_role(request) for row in of or ())
    if count > most:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"got {count} tasks, wanted at most {most} (group.streams.max.tasks)",
        )


def _check_topics(said: Topology, call: Call) -> None:
    names = sorted(said.topics)
    internal = [each for each in names if each in INTERNAL]
    if internal:
        raise topology.invalid(
            f"Use of Kafka internal topics {_shown(internal)} in a Kafka Streams topology is "
            "prohibited."
        )
    wrong = [each for each in names if not _is_name(each)]
    if wrong:
        raise topology.invalid(f"Topic names {_shown(wrong)} are not valid topic names.")
    for each in names:
        check_topic(call, Operation.DESCRIBE, each)


def _is_name(name: str) -> bool:
    try:
        check_name(name)
    except TopicNameInvalid:
        return False
    return True


def _shown(names: Sequence[str]) -> str:
    return ",".join(names[:SHOWN_MAX]) + ",..." * (len(names) > SHOWN_MAX)


# What is asked


def _asked(request: Request, said: Topology | None, call: Call) -> Beat:
    tags = request.client_tags
    at = request.user_endpoint
    return Beat(
        member_id=request.member_id,
        epoch=request.member_epoch,
        endpoint_epoch=request.endpoint_information_epoch,
        client_id=call.client_id,
        client_host=f"/{call.peer}",  # as Java writes an address without a name
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topology=said,
        owned=_owned(request),
        process_id=request.process_id,
        endpoint=None if at is None else Endpoint(at.host, at.port),
        tags=None if tags is None else _sorted({each.key: each.value for each in tags}),
        shuts_down=request.shutdown_application,
    )


def _sorted(tags: dict[str, str]) -> Tags:
    return tuple(sorted(tags.items()))


def _tasks_by_role(request: Request) -> list[list[Request.TaskIds] | None]:
    return [request.active_tasks, request.standby_tasks, request.warmup_tasks]


def _owned(request: Request) -> Tasks | None:
    given = list(zip(Role, _tasks_by_role(request), strict=True))
    if any(each is None for _, each in given):
        return None
    return frozenset[Task]().union(*(tasks_of(role, each or ()) for role, each in given))


# The answer

Maker = Callable[[Sequence[NewTopic]], str]


def _maker(broker: Broker, call: Call) -> Maker:
    """Makes topics, if who asks may; tells what is to be added to the status that they miss."""
    def make(missing: Sequence[NewTopic]) -> str:
        names = [each.topic.name for each in missing]
        if not may_cluster(call, Operation.CREATE):
            denied = [each for each in names if not may_topic(call, Operation.CREATE, each)]
            if denied:
                return f"; Unauthorized to CREATE on topics {_shown(denied)}."
        topics = broker.streams_topics
        faults = topics.faults(missing)
        topics.make(missing)
        return f"; Creation failed: {'; '.join(faults[:SHOWN_MAX])}." if faults else ""

    return make


def _answer(beaten: Beaten, make: Maker) -> Answer:
    more = make(beaten.missing) if beaten.missing else ""
    answer = Answer(
        error_code=beaten.error,
        error_message=beaten.message,
        member_id=beaten.member_id,
        member_epoch=beaten.epoch,
        heartbeat_interval_ms=beaten.heartbeat_interval_ms,
        status=[
            Answer.Status(
                each.code,
                each.text + more * (each.code is StatusCode.MISSING_INTERNAL_TOPICS),
            )
            for each in beaten.statuses
        ],
        endpoint_information_epoch=beaten.endpoint_epoch,
    )
    if beaten.assigned is not None:
        of_roles = [rows(beaten.assigned, role, Answer.TaskIds) for role in Role]
        answer.active_tasks, answer.standby_tasks, answer.warmup_tasks = of_roles
    if beaten.endpoints is not None:
        answer.partitions_by_user_endpoint = [_endpoint(each) for each in beaten.endpoints]
    return answer


def _endpoint(places: Places) -> Any:
    return Answer.EndpointToPartitions(
        Answer.Endpoint(*places.endpoint),
        [Answer.TopicPartition(*each) for each in places.active.items()],
        [Answer.TopicPartition(*each) for each in places.standby.items()],
    )
