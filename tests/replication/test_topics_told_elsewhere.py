"""A topic that was made, extended or deleted at another broker a moment ago: a broker that has not
heard of it asks ZooKeeper before it refuses somebody for what it knows itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest
import requests

from appliance.cluster.cluster import Cluster
from appliance.cluster.view import View
from appliance.protocol import ErrorCode
from appliance.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from appliance.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from appliance.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from appliance.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from appliance.protocol.messages.metadata import MetadataRequest, MetadataResponse
from appliance.zookeeper.server import ZooKeeperServer
from tests.support.embedded_cluster import (
    DEADLINE_S,
    EmbeddedCluster,
    embedded_cluster,
    eventually,
)

TOLD, LATE = 1, 2  # the first one is the controller, too
TOPIC = 2  # the kind of a resource with configs
TIMEOUT_MS = 30_000


class Notices:
    """Those of broker LATE come only after it has asked."""

    def __init__(self) -> None:
        self.asked = 0
        self._may_come = threading.Event()
        self.let_in()

    def hold(self) -> None:
        self._may_come.clear()

    def let_in(self) -> None:
        self._may_come.set()

    async def wait(self) -> None:
        await asyncio.to_thread(self._may_come.wait)


@pytest.fixture(scope="module")
def two(
    server: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedCluster]:
    with embedded_cluster(server, "/told", tmp_path_factory.mktemp("told")) as found:
        found.start(TOLD)
        found.start(LATE)
        yield found


@pytest.fixture
def notices(monkeypatch: pytest.MonkeyPatch) -> Iterator[Notices]:
    found = Notices()
    read, ask = View._read_notices, Cluster.hear_of

    async def late(view: View) -> None:
        if view._listener.broker.node_id == LATE:  # type: ignore[attr-defined]
            await found.wait()
        await read(view)

    async def asking(cluster: Cluster, name: str) -> bytes:
        told = await ask(cluster, name)
        found.asked += 1
        found.let_in()
        return told

    monkeypatch.setattr(View, "_read_notices", late)
    monkeypatch.setattr(Cluster, "hear_of", asking)
    yield found
    found.let_in()


# By the wire: a client's library would ask the controller.


def make(two: EmbeddedCluster, node: int, topic: str, count: int = 1) -> int:
    wanted = CreateTopicsRequest.CreatableTopic(topic, count, 1)
    request = CreateTopicsRequest([wanted], TIMEOUT_MS)
    (found,) = two.ask(node, request, CreateTopicsResponse, 19, 7).topics
    return int(found.error_code)


def delete(two: EmbeddedCluster, node: int, topic: str) -> int:
    request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=TIMEOUT_MS)
    (found,) = two.ask(node, request, DeleteTopicsResponse, 20, 5).responses
    return int(found.error_code)


def delete_by_id(two: EmbeddedCluster, node: int, topic: str) -> int:
    asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)])
    (known,) = two.ask(TOLD, asked, MetadataResponse, 3, 12).topics
    wanted = DeleteTopicsRequest.DeleteTopicState(None, known.topic_id)
    request = DeleteTopicsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS)
    (found,) = two.ask(node, request, DeleteTopicsResponse, 20, 6).responses
    return int(found.error_code)


def extend(two: EmbeddedCluster, node: int, topic: str, total: int) -> int:
    wanted = CreatePartitionsRequest.CreatePartitionsTopic(topic, total, None)
    request = CreatePartitionsRequest([wanted], TIMEOUT_MS)
    (found,) = two.ask(node, request, CreatePartitionsResponse, 37, 3).results
    return int(found.error_code)


def configure(two: EmbeddedCluster, node: int, topic: str) -> int:
    change = IncrementalAlterConfigsRequest.AlterableConfig("retention.ms", 0, "7000")
    wanted = IncrementalAlterConfigsRequest.AlterConfigsResource(TOPIC, topic, [change])
    request = IncrementalAlterConfigsRequest([wanted])
    (found,) = two.ask(node, request, IncrementalAlterConfigsResponse, 44, 1).responses
    return int(found.error_code)


def partitions(two: EmbeddedCluster, node: int, topic: str) -> int:
    """0: there is no such topic."""
    found = two.admin(node).list_topics(timeout=DEADLINE_S).topics.get(topic)
    return 0 if found is None else len(found.partitions)


def test_a_topic_that_was_deleted_elsewhere_is_made_again(
    two: EmbeddedCluster, notices: Notices
) -> None:
    assert make(two, LATE, "again") == 0
    notices.hold()
    assert delete(two, TOLD, "again") == 0
    assert make(two, LATE, "again") == 0
    assert notices.asked == 1
    eventually(lambda: partitions(two, TOLD, "again") == 1)


def test_a_name_like_one_that_was_deleted_elsewhere_is_free(
    two: EmbeddedCluster, notices: Notices
) -> None:
    assert make(two, LATE, "a.like") == 0
    notices.hold()
    assert delete(two, TOLD, "a.like") == 0
    assert make(two, LATE, "a_like") == 0
    assert make(two, LATE, "a.like") == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_topic_that_is_there_is_refused(two: EmbeddedCluster, notices: Notices) -> None:
    assert make(two, LATE, "stays") == 0
    assert notices.asked == 0, "what succeeds asks no more than before"
    assert make(two, LATE, "stays") == ErrorCode.TOPIC_ALREADY_EXISTS
    assert notices.asked == 1


@pytest.mark.parametrize("act", [configure, delete, delete_by_id,
                                 lambda *where: extend(*where, 3)],
                         ids=["configure", "delete", "delete by id", "extend"])  # fmt: skip
def test_a_topic_that_was_made_elsewhere_is_changed(
    two: EmbeddedCluster, notices: Notices, act: Callable[[EmbeddedCluster, int, str], int]
) -> None:
    notices.hold()
    assert make(two, TOLD, "made") == 0
    assert act(two, LATE, "made") == 0
    assert notices.asked == 1
    delete(two, TOLD, "made")


def test_one_that_is_unknown_everywhere_is_refused(two: EmbeddedCluster, notices: Notices) -> None:
    for act in (delete, configure, lambda *where: extend(*where, 3)):
        assert act(two, LATE, "nowhere") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete(two, LATE, "no/where") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_partitions_that_were_added_elsewhere_are_counted(
    two: EmbeddedCluster, notices: Notices
) -> None:
    assert make(two, LATE, "grown") == 0
    notices.hold()
    assert extend(two, TOLD, "grown", 2) == 0
    threading.Timer(0.5, notices.let_in).start()
    assert extend(two, LATE, "grown", 3) == 0
    eventually(lambda: partitions(two, TOLD, "grown") == 3)
    assert extend(two, LATE, "grown", 3) == ErrorCode.INVALID_PARTITIONS


def test_one_that_was_made_anew_with_fewer_partitions_is_extended(
    two: EmbeddedCluster, notices: Notices
) -> None:
    assert make(two, LATE, "fewer", 4) == 0
    notices.hold()
    assert delete(two, TOLD, "fewer") == 0
    assert make(two, TOLD, "fewer") == 0
    assert extend(two, LATE, "fewer", 3) == 0
    eventually(lambda: partitions(two, TOLD, "fewer") == 3)


def test_the_deletion_of_one_that_was_made_anew_is_waited_for(
    two: EmbeddedCluster, notices: Notices
) -> None:
    assert make(two, LATE, "anew") == 0
    notices.hold()
    assert delete(two, TOLD, "anew") == 0
    assert make(two, TOLD, "anew") == 0
    assert delete(two, LATE, "anew") == 0
    assert [partitions(two, each, "anew") for each in (TOLD, LATE)] == [0, 0]


def test_over_rest_as_well(two: EmbeddedCluster, notices: Notices) -> None:
    assert make(two, LATE, "rest") == 0
    notices.hold()
    assert delete(two, TOLD, "rest") == 0
    url = f"http://{two.running[LATE].admin}/api/v1/topics"
    made = requests.post(url, json={"name": "rest"}, timeout=DEADLINE_S)
    assert made.ok, made.text
    notices.hold()
    assert make(two, TOLD, "rest-made") == 0
    changed = requests.patch(f"{url}/rest-made", json={"partitions": 2}, timeout=DEADLINE_S)
    assert changed.ok, changed.text
    assert notices.asked == 2
