"""A topic that was made, extended or deleted at another broker a moment ago: a broker that has not
heard of it asks ZooKeeper before it refuses somebody for what it knows itself."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss

from appliance.cluster.cluster import Cluster
from appliance.cluster.controller import Controller
from appliance.cluster.session import Change
from appliance.cluster.view import View
from appliance.data_dir.log_dirs import LogDirs
from appliance.errors import ApplianceError, StorageIoFailed
from appliance.protocol import ErrorCode
from appliance.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from appliance.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from appliance.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from appliance.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from appliance.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from appliance.protocol.messages.metadata import MetadataRequest, MetadataResponse
from appliance.topics import topic_directories
from appliance.zookeeper.server import ZooKeeperServer
from tests.support.embedded_cluster import (
    DEADLINE_S,
    LOGIN,
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
        if cluster.member.node_id == LATE:  # the other one may not have heard of it yet, too
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


def id_of(two: EmbeddedCluster, topic: str) -> uuid.UUID:
    asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)])
    (known,) = two.ask(TOLD, asked, MetadataResponse, 3, 12).topics
    assert isinstance(known.topic_id, uuid.UUID)
    return known.topic_id


def delete_by_id(two: EmbeddedCluster, node: int, topic: str) -> int:
    return delete_id(two, node, id_of(two, topic))


def delete_id(two: EmbeddedCluster, node: int, topic_id: uuid.UUID) -> int:
    wanted = DeleteTopicsRequest.DeleteTopicState(None, topic_id)
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


def coordinator(two: EmbeddedCluster, node: int, name: str) -> int:
    """Of a transaction; the code of who does not know it."""
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=[name])
    (found,) = two.ask(node, request, FindCoordinatorResponse, 10, 4).coordinators
    return int(found.error_code)


def page_of(two: EmbeddedCluster, node: int, topic: str) -> str:
    url = f"http://{two.running[node].admin}/api/v1/topics/{topic}"
    return requests.get(url, timeout=DEADLINE_S).text


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
    for node in (TOLD, LATE):  # the next one of that name is another
        eventually(lambda node=node: partitions(two, node, "made") == 0)  # type: ignore[misc]


def test_one_that_is_unknown_everywhere_is_refused(two: EmbeddedCluster, notices: Notices) -> None:
    for act in (delete, configure, lambda *where: extend(*where, 3)):
        assert act(two, LATE, "nowhere") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete(two, LATE, "no/where") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_internal_topic_that_was_made_elsewhere_is_as_good(
    two: EmbeddedCluster, notices: Notices
) -> None:
    notices.hold()
    eventually(lambda: coordinator(two, TOLD, "mover") == 0)
    assert notices.asked == 0
    eventually(lambda: coordinator(two, LATE, "mover") == 0)
    assert notices.asked == 1, "nothing else lets the notices in"


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
    assert partitions(two, LATE, "anew") == 0
    eventually(lambda: partitions(two, TOLD, "anew") == 0)


def test_one_that_was_made_anew_is_not_deleted_by_the_id_of_the_former(
    two: EmbeddedCluster, notices: Notices
) -> None:
    """The broker that is asked has heard of the former one only."""
    assert make(two, LATE, "former") == 0
    eventually(lambda: partitions(two, TOLD, "former") == 1)
    former = id_of(two, "former")
    notices.hold()
    assert delete(two, TOLD, "former") == 0
    assert delete_id(two, LATE, former) == ErrorCode.UNKNOWN_TOPIC_ID
    notices.let_in()
    assert make(two, LATE, "former") == 0
    eventually(lambda: partitions(two, TOLD, "former") == 1)
    former = id_of(two, "former")
    notices.hold()
    assert delete(two, TOLD, "former") == 0
    assert make(two, TOLD, "former") == 0
    assert delete_id(two, LATE, former) == ErrorCode.UNKNOWN_TOPIC_ID
    assert partitions(two, TOLD, "former") == 1
    assert delete_by_id(two, LATE, "former") == 0
    assert partitions(two, LATE, "former") == 0
    eventually(lambda: partitions(two, TOLD, "former") == 0)


def test_one_that_was_made_anew_is_deleted_before_the_files_of_the_former_are(
    two: EmbeddedCluster, notices: Notices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a broker that is still at these files: the cluster has another one by then."""
    right, late = topic_directories.delete_files, str(two.folder / str(LATE))

    def delete_files(log_dir: LogDirs, names: Collection[str]) -> dict[str, ApplianceError]:
        if str(log_dir.directories[0].path).startswith(late):
            return {name: StorageIoFailed("EIO") for name in names}
        return right(log_dir, names)

    assert make(two, LATE, "left", 2) == 0
    eventually(lambda: partitions(two, TOLD, "left") == 2)
    monkeypatch.setattr(topic_directories, "delete_files", delete_files)
    assert delete(two, LATE, "left") == 0
    assert delete(two, LATE, "left") == ErrorCode.KAFKA_STORAGE_ERROR, "the files are there yet"
    notices.hold()
    assert make(two, TOLD, "left", 2) == 0
    assert delete(two, LATE, "left") == 0
    assert partitions(two, LATE, "left") == 0
    eventually(lambda: partitions(two, TOLD, "left") == 0)
    notices.let_in()
    assert make(two, LATE, "left", 2) == 0, "the name is free, whatever is left here"


@pytest.mark.parametrize("factor", [1, 2])
def test_who_is_being_stopped_gets_replicas_only_where_others_are_too_few(
    two: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch, factor: int
) -> None:
    monkeypatch.setattr(View, "leaving_now", frozenset({LATE}))
    two.until_known()
    topic = f"placed-{factor}"
    wanted = CreateTopicsRequest.CreatableTopic(topic, 4, factor)
    request = CreateTopicsRequest([wanted], TIMEOUT_MS)
    (made,) = two.ask(TOLD, request, CreateTopicsResponse, 19, 7).topics
    assert (made.error_code, extend(two, TOLD, topic, 8)) == (0, 0)
    (found,) = two.admin(TOLD).list_topics(topic, DEADLINE_S).topics.values()
    placed = [{*each.replicas} for each in found.partitions.values()]
    assert placed == 8 * [{TOLD} if factor == 1 else {TOLD, LATE}]


def test_settings_that_cannot_be_read_are_neither_overwritten_nor_forgotten(
    two: EmbeddedCluster, server: ZooKeeperServer
) -> None:
    """A newer broker has written them."""
    newer = b'{"version":2,"config":{"retention.ms":"-1"}}'
    assert make(two, TOLD, "newer", 2) == 0
    assert configure(two, TOLD, "newer") == 0
    eventually(lambda: "7000" in page_of(two, LATE, "newer"))
    client = KazooClient(f"{server.address}/told", auth_data=[("digest", LOGIN)])
    client.start()
    try:
        client.set("/config/topics/newer", newer)
        two.stop(LATE)
        two.start(LATE)
        assert configure(two, LATE, "newer") == ErrorCode.UNKNOWN_SERVER_ERROR
        assert client.get("/config/topics/newer")[0] == newer
    finally:
        client.stop()
        client.close()
    eventually(lambda: "7000" in page_of(two, LATE, "newer"))


def test_one_that_the_controller_has_heard_of_before_its_round_is_told(
    two: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody asked it for a change of the topic."""
    may_learn, learn = threading.Event(), Controller._learn

    async def late(controller: Controller, *given: Any) -> None:
        await asyncio.to_thread(may_learn.wait, DEADLINE_S)
        await learn(controller, *given)

    monkeypatch.setattr(Controller, "_learn", late)
    with ThreadPoolExecutor(1) as pool:
        making = pool.submit(make, two, LATE, "early", 2)
        eventually(lambda: configure(two, TOLD, "early") == 0)
        may_learn.set()
        assert making.result(DEADLINE_S) == 0
    eventually(lambda: partitions(two, LATE, "early") == 2)
    assert two.produce(LATE, "early", ["a", "b", "c"]) == []


def test_one_whose_deletion_was_not_answered_to_the_controller_is_deleted_everywhere(
    two: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which reads everything before it comes to its own notice."""
    commit, lost, may_come = Change.commit, threading.Event(), threading.Event()
    read, read_everything = View._read_notices, View.read_everything
    may_come.set()

    def is_controller(view: View) -> bool:
        return bool(view._listener.broker.node_id == TOLD)  # type: ignore[attr-defined]

    async def late(view: View) -> None:
        if is_controller(view):
            await asyncio.to_thread(may_come.wait, DEADLINE_S)
        await read(view)

    async def reading(view: View) -> None:
        await read_everything(view)
        if lost.is_set() and is_controller(view):
            may_come.set()

    async def losing(change: Change) -> list[Any]:
        results = await commit(change)
        deleted = [each.path for each in change._request.operations
                   if type(each).__name__ == "Delete"]  # fmt: skip
        if not lost.is_set() and any("/delete_topics/lost" in each for each in deleted):
            may_come.clear()
            lost.set()
            raise ConnectionLoss
        return results

    assert make(two, LATE, "not-lost") == 0, "a ZooKeeper without any topic is not believed"
    assert make(two, LATE, "lost", 2) == 0
    eventually(lambda: partitions(two, TOLD, "lost") == 2)
    eventually(lambda: len([*two.folder.glob("*/lost-*")]) == 2)
    monkeypatch.setattr(View, "_read_notices", late)
    monkeypatch.setattr(View, "read_everything", reading)
    monkeypatch.setattr(Change, "commit", losing)
    assert delete(two, LATE, "lost") == 0
    assert lost.is_set()
    eventually(lambda: not [*two.folder.glob("*/lost-*")])
    assert [*two.folder.glob("*/orphans/lost-*")] == []


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
