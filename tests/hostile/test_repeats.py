"""Small requests with large responses: the same name, again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from appliance.api.handlers.describe_configs import OTHERS_MAX
from appliance.protocol import API
from appliance.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from appliance.protocol.messages.describe_configs import DescribeConfigsRequest as Configs
from appliance.protocol.messages.describe_groups import DescribeGroupsRequest
from appliance.protocol.messages.describe_producers import DescribeProducersRequest as Producers
from appliance.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest as Shares,
)
from appliance.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest as Partitions,
)
from appliance.protocol.messages.describe_transactions import DescribeTransactionsRequest
from appliance.protocol.messages.metadata import MetadataRequest as Metadata
from appliance.protocol.messages.offset_commit import OffsetCommitRequest as Commit
from appliance.protocol.messages.offset_fetch import OffsetFetchRequest as Offsets
from appliance.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from tests.support.serving import Serving
from tests.support.wire_client import WireClient, frame_of

TOPIC, GROUP = "repeated", "repeats"
PARTITIONS, TIMES = 50, 2000
INVALID_REQUEST, TOPIC_TYPE, BROKER_TYPE, GROUP_TYPE = 42, 2, 4, 32


def configs(kind: int, name: str) -> Any:
    asked = [Configs.DescribeConfigsResource(kind, name, None)] * TIMES
    return 32, 4, Configs(asked, True, True)


def offsets(*rows: Any) -> Any:
    return 9, 9, Offsets(groups=[*rows])


def of_share(*rows: Any) -> Any:
    return 90, 0, Shares([*rows])


ASKED: dict[str, Callable[[], Any]] = {
    "topics": lambda: (3, 9, Metadata([Metadata.MetadataRequestTopic(name=TOPIC)] * TIMES)),
    "pages of topics": lambda: (
        75, 0, Partitions([Partitions.TopicRequest(TOPIC)] * TIMES, 2000, None)),
    "configs of a topic": lambda: configs(TOPIC_TYPE, TOPIC),
    "configs of the broker": lambda: configs(BROKER_TYPE, "1"),
    "offsets of a group": lambda: offsets(
        *[Offsets.OffsetFetchRequestGroup(GROUP, topics=None)] * TIMES),
    "offsets of a topic": lambda: offsets(Offsets.OffsetFetchRequestGroup(
        GROUP, topics=[Offsets.OffsetFetchRequestTopics(TOPIC, [0])] * TIMES)),
    "offsets of a partition": lambda: offsets(Offsets.OffsetFetchRequestGroup(
        GROUP, topics=[Offsets.OffsetFetchRequestTopics(TOPIC, [0] * TIMES)])),
    "offsets of a partition, of old": lambda: (
        9, 5, Offsets(GROUP, [Offsets.OffsetFetchRequestTopic(TOPIC, [0] * TIMES)])),
    "groups": lambda: (15, 5, DescribeGroupsRequest([GROUP] * TIMES, True)),
    "groups of the newer protocol": lambda: (
        69, 1, ConsumerGroupDescribeRequest([GROUP] * TIMES, True)),
    "share groups": lambda: (77, 1, ShareGroupDescribeRequest([GROUP] * TIMES, True)),
    "offsets of share groups": lambda: of_share(
        *[Shares.DescribeShareGroupOffsetsRequestGroup(GROUP, None)] * TIMES),
    "transactions": lambda: (65, 0, DescribeTransactionsRequest([GROUP] * TIMES)),
    "producers": lambda: (61, 0, Producers([Producers.TopicRequest(TOPIC, [0] * TIMES)])),
}  # fmt: skip


@pytest.fixture
def client(broker: Serving, client: WireClient) -> WireClient:
    """There is a topic, and a group with many committed offsets."""
    if f"topic created topic={TOPIC} " not in broker.log:
        client.create_topic(TOPIC, PARTITIONS)
        parts = [
            Commit.OffsetCommitRequestPartition(each, 5, committed_metadata="m" * 1000)
            for each in range(PARTITIONS)
        ]
        rows = [Commit.OffsetCommitRequestTopic(TOPIC, partitions=parts)]
        asked = Commit(GROUP, topics=rows, generation_id_or_member_epoch=-1)
        client.send(frame_of(asked, 8, 8))
        client.receive()
    return client


@pytest.mark.parametrize("what", ASKED)
def test_the_same_thing_again_and_again(client: WireClient, what: str) -> None:
    key, version, asked = ASKED[what]()
    client.send(frame_of(asked, key, version))
    assert len(client.receive()) < 100_000


def test_configs_of_more_groups_than_anybody_has(client: WireClient) -> None:
    rows = [Configs.DescribeConfigsResource(GROUP_TYPE, f"g{i}", None) for i in range(3000)]
    rows.append(Configs.DescribeConfigsResource(TOPIC_TYPE, TOPIC, None))
    client.send(frame_of(Configs(rows), 32, 4))
    codes = [each.error_code for each in client.answer(API[32].response, 32, 4).results]
    assert codes == [0] * OTHERS_MAX + [INVALID_REQUEST] * (3000 - OTHERS_MAX) + [0]
