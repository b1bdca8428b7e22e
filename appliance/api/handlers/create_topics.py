"""CreateTopics 2-7: creates topics, durably, and from version 5 on returns their configs.

-1 partitions and replication factor -1 mean the broker's defaults. A manual assignment is accepted
if it places every partition on brokers that there are: on this one, if it is none of a cluster. A
topic that occurs twice is refused, the others are created, up to `max.topics.per.request`; the rest
gets POLICY_VIOLATION. Only the broker creates internal topics: INVALID_TOPIC_EXCEPTION. One that is
there is TOPIC_ALREADY_EXISTS, whatever else is wrong, as in Kafka: a broker of a cluster asks
ZooKeeper first, for another one may have deleted it just now.

Rights: CREATE on the topic or on the cluster; DESCRIBE_CONFIGS on the topic to be told its configs.

Left out: the timeout, because the response follows the creation. A broker that is none of a cluster
has no replication factor above 1 (INVALID_REPLICATION_FACTOR).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_topic, may_cluster, may_topic
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.config.topic_config import Configs
from appliance.errors import ApplianceError, Refused
from appliance.protocol import ErrorCode
from appliance.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from appliance.topics.topics import NewTopic

KEY = 19
VERSIONS = (2, 7)

DEFAULT = UNTOLD = -1

Asked = CreateTopicsRequest.CreatableTopic
Answer = CreateTopicsResponse.CreatableTopicResult
Config = CreateTopicsResponse.CreatableTopicConfigs


class Telling:
    """What a client is told of new topics. Most of a request have the same configs."""

    def __init__(self, broker: Broker, call: Call) -> None:
        self.broker = broker
        self._call = call
        self._in_force = broker.configs.in_force
        self._found: dict[frozenset[tuple[str, str]], list[Config]] = {}

    def tell(self, answer: Answer, kept: Configs) -> None:
        if not may_topic(self._call, Operation.DESCRIBE_CONFIGS, answer.name):
            answer.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            answer.num_partitions, answer.configs = UNTOLD, None
            return
        answer.replication_factor = self.broker.members.factor_of(answer.name)
        answer.configs = self._of(kept)

    def _of(self, kept: Configs) -> list[Config]:
        if self._in_force is not self.broker.configs.in_force:  # changed between two topics
            self._in_force, self._found = self.broker.configs.in_force, {}
        key = frozenset(kept.items())
        if key not in self._found:
            self._found[key] = [
                Config(each.name, each.value, each.read_only, each.source)
                for each in self._in_force.topic_entries(kept)
            ]
        return self._found[key]


async def handle(broker: Broker, request: CreateTopicsRequest, call: Call) -> CreateTopicsResponse:
    times = Counter(each.name for each in request.topics)
    asked = [*{each.name: each for each in request.topics}.values()]
    most = broker.config.topics.per_request_max
    answers = [Answer(name=each.name, error_message=None) for each in asked]
    wanted: list[tuple[Answer, NewTopic]] = []
    for place, (each, answer) in enumerate(zip(asked, answers, strict=True)):
        try:
            if place >= most:
                raise _beyond(len(asked), most)
            if times[each.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, f"{each.name} is named twice")
            wanted.append((answer, await _checked(broker, each, call)))
        except ApplianceError as error:
            _refuse(answer, error)
    if request.validate_only:
        _validate(Telling(broker, call), wanted)
    else:
        await _create(Telling(broker, call), wanted)
    return CreateTopicsResponse(topics=answers)


def _beyond(count: int, most: int) -> Refused:
    text = f"got {count} topics in one request, wanted at most {most} (max.topics.per.request)"
    return Refused(ErrorCode.POLICY_VIOLATION, text)


def _refuse(answer: Answer, error: ApplianceError) -> None:
    answer.error_code, answer.error_message = error.kafka_code, str(error)


async def _checked(broker: Broker, asked: Asked, call: Call) -> NewTopic:
    if not may_cluster(call, Operation.CREATE):
        check_topic(call, Operation.CREATE, asked.name)
    await broker.topics.check_new(asked.name)
    partitions = _partitions(broker, asked)
    holders = sorted(asked.assignments, key=lambda each: each.partition_index)
    return NewTopic(
        asked.name, partitions, _configs(asked), asked.replication_factor,
        [each.broker_ids for each in holders],
    )  # fmt: skip


def _validate(telling: Telling, wanted: Sequence[tuple[Answer, NewTopic]]) -> None:
    for answer, each in wanted:
        try:
            found = telling.broker.topics.validate(each.name, each.partitions, each.configs)
            answer.num_partitions, (kept, _) = found
        except ApplianceError as error:
            _refuse(answer, error)
            continue
        telling.tell(answer, kept)


async def _create(telling: Telling, wanted: Sequence[tuple[Answer, NewTopic]]) -> None:
    made = await telling.broker.topics.create_all([each for _, each in wanted])
    for (answer, _), topic in zip(wanted, made, strict=True):
        if isinstance(topic, ApplianceError):
            _refuse(answer, topic)
            continue
        answer.topic_id, answer.num_partitions = topic.id, len(topic.logs)
        telling.tell(answer, topic.configs)


def _partitions(broker: Broker, asked: Asked) -> int:
    """The number of partitions asked for, as a number or as a list of who holds them."""
    if asked.assignments:
        return _assigned(broker, asked)
    if asked.num_partitions < 1 and asked.num_partitions != DEFAULT:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"{asked.name}: got {asked.num_partitions} partitions, wanted at least 1, or -1 for "
            "the broker's default",
        )
    broker.members.check_factor(asked.name, asked.replication_factor)
    return asked.num_partitions


def _assigned(broker: Broker, asked: Asked) -> int:
    if asked.num_partitions != DEFAULT or asked.replication_factor != DEFAULT:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"{asked.name}: with an assignment, partitions and replication factor must be -1",
        )
    indexes = sorted(each.partition_index for each in asked.assignments)
    if indexes != list(range(len(indexes))):
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{asked.name}: partitions are numbered from 0 without gaps, got {indexes[:10]}",
        )
    for each in asked.assignments:
        broker.members.check_replicas(asked.name, each.partition_index, each.broker_ids)
    return len(indexes)


def _configs(asked: Asked) -> dict[str, str]:
    configs = {}
    for each in asked.configs:
        if each.value is None:
            raise Refused(
                ErrorCode.INVALID_CONFIG, f"{asked.name}: {each.name} has no value (null)"
            )
        configs[each.name] = each.value
    return configs
