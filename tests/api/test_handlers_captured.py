"""What Kafka 4.3 answered to its own tools, and what this broker answers to the same bytes.

The captured requests are sent as they are; only topic ids are replaced by ours. An answer must be
equal field by field, but for what names the place: ids, addresses, and the differences listed here.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from appliance.api.handlers import SERVED
from appliance.config import LogConfig
from appliance.groups.records import GroupMetadataValue
from appliance.groups.states import State
from appliance.protocol.codec import decode
from tests.support.control import Control
from tests.support.logs import batch
from tests.support.wire_frames import Frame, frames

TOPIC = "corpus-a"

# Ours on purpose: how much a power cut may take from acks=1, and who may see it.
OURS_ALONE = {"mirror.source", "visibility"}
OWN_CONFIGS = {"flush.messages", "flush.ms"} | OURS_ALONE
# A default that Kafka's tools had set for all brokers in the capture.
SET_IN_CAPTURE = {"min.insync.replicas"}

NAMES_OF_PLACES = {"topic_id", "host", "port", "cluster_id"}


def captured(direction: str) -> dict[int, Frame]:
    return {
        each.key: each
        for each in frames("captured.tsv")
        if each.direction == direction and each.key in SERVED
    }


def place(value: Any, topic_id: uuid.UUID) -> Any:
    """A request with our topic's id wherever it has one."""
    for name in getattr(value, "__dataclass_fields__", ()):
        found = getattr(value, name)
        if isinstance(found, uuid.UUID) and found.int:
            setattr(value, name, topic_id)
        for each in found if isinstance(found, list) else [found]:
            place(each, topic_id)
    return value


def facts(value: Any) -> Any:
    """What must be equal, whoever answers."""
    if isinstance(value, dict):
        return {key: facts(each) for key, each in value.items() if key not in NAMES_OF_PLACES}
    return [facts(each) for each in value] if isinstance(value, list) else value


def with_five_partitions(control: Control) -> None:
    control.create(TOPIC, 5)


def with_three_partitions(control: Control) -> None:
    control.create(TOPIC, 3)


def with_an_internal_topic(control: Control) -> None:
    control.run(control.broker.group_places.make_offsets_topic())
    control.create(TOPIC, 3)


def with_nothing(control: Control) -> None:
    assert not control.broker.topics


def with_groups(control: Control) -> None:
    """As they stood when each of these was captured."""
    control.create(TOPIC, 5)
    control.run(control.broker.groups.loading.loaded())
    for name, member_id in (
        ("console-consumer-91537", "console-consumer-e1723e5d-2b65-48fd-b2a8-d7c0d4389eef"),
        ("cg1", "console-consumer-6c8e751e-3ca5-4ae9-aaef-3bb3e1ad20d1"),
    ):
        group = control.broker.groups.table.make(name)
        member = GroupMetadataValue.MemberMetadata(member_id=member_id, session_timeout=45_000)
        group.restore(GroupMetadataValue("consumer", 1, "range", member_id, members=[member]), 0)


def with_a_group_to_be_assigned(control: Control) -> None:
    with_groups(control)
    control.broker.groups.table.groups["console-consumer-91537"].state = State.COMPLETING_REBALANCE


def with_empty_groups(control: Control) -> None:
    control.run(control.broker.groups.loading.loaded())
    for name in ("console-consumer-91537", "cg1"):
        control.broker.groups.table.make(name).restore(GroupMetadataValue("consumer", 2), 0)


BEFORE: dict[int, Callable[[Control], None]] = {
    0: with_five_partitions,
    2: with_five_partitions,
    3: with_nothing,
    8: with_groups,
    9: with_five_partitions,
    13: with_groups,
    14: with_a_group_to_be_assigned,
    15: with_empty_groups,
    16: with_empty_groups,
    20: with_three_partitions,
    37: with_three_partitions,
    43: with_an_internal_topic,
    44: with_three_partitions,
    46: with_three_partitions,
    60: with_nothing,
    69: with_groups,
    75: with_three_partitions,
}
# Compared by tests of their own: Fetch (test_fetch_answers, of the data plane), the list of APIs
# (test_handlers_cluster), configs (below); and the one each of FindCoordinator, JoinGroup and
# InitProducerId that was captured is a broker's that had not come up yet; and DescribeAcls, where
# that Kafka had no authorizer and kept no ACLs.
APART = {1, 10, 11, 18, 19, 22, 29, 32}


@pytest.fixture
def control(tmp_path: Path) -> Iterator[Control]:
    made = Control(tmp_path, LogConfig())
    yield made
    made.close()


def ask(control: Control, key: int) -> tuple[Any, Any]:
    """Our answer and Kafka's."""
    request, response = captured("request")[key], captured("response")[key]
    asked = decode(request.message, request.body, request.version)
    topic = control.broker.topics.get(TOPIC)
    ours = control.ask(place(asked, topic.id) if topic else asked, request.version)
    return ours, decode(response.message, response.body, response.version)


def test_every_captured_request_is_compared() -> None:
    assert set(BEFORE) | APART == set(captured("request"))


@pytest.mark.parametrize("key", BEFORE)
def test_the_answer_is_that_of_kafka(control: Control, key: int) -> None:
    BEFORE[key](control)
    ours, kafkas = ask(control, key)
    assert facts(asdict(ours)) == facts(asdict(kafkas))


def configs_of(rows: Any) -> dict[str, Any]:
    without = OWN_CONFIGS | SET_IN_CAPTURE
    return {each.name: asdict(each) for each in rows if each.name not in without}


def test_a_new_topic_has_the_configs_of_kafka(control: Control) -> None:
    ours, kafkas = ask(control, 19)
    (mine,), (its,) = ours.topics, kafkas.topics
    assert configs_of(mine.configs) == configs_of(its.configs)
    mine.configs, its.configs = [], []
    assert facts(asdict(mine)) == facts(asdict(its))


def test_a_described_topic_has_the_configs_of_kafka(control: Control) -> None:
    control.create(TOPIC)
    ours, kafkas = ask(control, 32)
    (mine,), (its,) = ours.results, kafkas.results
    assert configs_of(mine.configs) == configs_of(its.configs)
    names = {each.name for each in mine.configs}
    assert names - {each.name for each in its.configs} == OURS_ALONE
    mine.configs, its.configs = [], []
    assert asdict(mine) == asdict(its)


def test_a_difference_is_found(control: Control) -> None:
    control.create(TOPIC, 5).logs[0].append_durable(batch("a"))
    control.run(control.broker.topics.delete(TOPIC))
    control.create(TOPIC, 4)
    ours, kafkas = ask(control, 2)
    assert facts(asdict(ours)) != facts(asdict(kafkas))
