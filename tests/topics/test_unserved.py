"""What cannot be opened is neither gone nor empty: whoever needs it waits, and nobody else does."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance._log import Log
from appliance.catalog import kafka_uuid
from appliance.config import GroupsConfig
from appliance.data_dir.log_dir import LogDir
from appliance.errors import LogFailed, StorageFull
from appliance.groups import offsets_topic_loading as groups_loading
from appliance.protocol.messages.list_groups import ListGroupsRequest
from appliance.protocol.messages.metadata import MetadataRequest
from appliance.share import partitions as share_partitions
from appliance.storage._log_description import ProducerInfo
from appliance.topics import internal_topic_loading, topic_directories
from appliance.topics.internal_topic import partition_of
from appliance.topics.topic import OFFSETS, SHARE_STATE, TRANSACTIONS, Topic, TopicUnavailable
from appliance.txn import adoption, timeouts
from appliance.txn.adoption import now_ms
from appliance.txn.markers import open_transactions
from tests.support.control import Control
from tests.support.group_client import GroupClient, committed
from tests.support.share_client import ShareClient
from tests.support.share_client import write as write_plainly
from tests.support.txn_client import TxnClient, committed_values, settled
from tests.support.unserved import serve, unopened

GROUPS = GroupsConfig(initial_rebalance_delay_ms=0, offsets_partitions=4)
AWAY, BEING_READ, STORAGE, NO_LEADER, CONCURRENT = 15, 14, 56, 5, 51
TV = pytest.mark.parametrize("is_v2", [False, True], ids=["TV1", "TV2"])
COMES_BACK = pytest.mark.parametrize("how", ["at a restart", "while it runs"])


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (groups_loading, internal_topic_loading, share_partitions):
        monkeypatch.setattr(module, "HELD_UP_S", 0.01)


class Lives:
    """One data directory, and the broker that is on it just now."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.now = Control(path, groups=GROUPS)

    def again(self, *partitions: int, spoiled: str = "") -> Control:
        """Killed, and started where one topic cannot be opened, or some partitions of it."""
        self.now.kill()
        with unopened(self._path / "data", spoiled, *partitions):
            self.now = Control(self._path, groups=GROUPS)
        assert {topic for topic, _ in self.now.broker.topics.not_open()} == ({spoiled} - {""})
        return self.now

    def whole(self, how: str, topic: str) -> Control:
        """The topic is served again."""
        if how == "at a restart":
            return self.again()
        self.now.run(serving(self.now, topic))
        return self.now


async def serving(control: Control, topic: str) -> None:
    broker = control.broker
    await serve(broker, topic)
    await eventually(lambda: not broker.groups.availability.fault)
    await broker.groups.loading.loaded()
    for each in (broker.transactions.loading, broker.share_partitions.loading):
        await eventually(lambda each=each: not each.fault)  # type: ignore[misc]
        await each.loaded()


async def eventually(is_so: Callable[[], bool]) -> None:
    for _ in range(2000):
        if is_so():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("not so after 20 s")


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Lives]:
    made = Lives(tmp_path)
    made.now.create("t", 1)
    made.now.create("u", 1)
    yield made
    made.now.close()


def begun(control: Control, is_v2: bool, name: str = "tx") -> TxnClient:
    """It wrote to both topics."""
    one = TxnClient(control, name, is_v2=is_v2)
    assert one.init() == 0
    if not is_v2:
        assert one.add(("t", 0), ("u", 0)) == [0, 0]
    assert [one.write(topic, topic=topic) for topic in "tu"] == [0, 0]
    return one


def decided(control: Control, one: TxnClient, patch: pytest.MonkeyPatch) -> None:
    """Its commit is on disk, and no marker is."""

    async def fail(*given: Any) -> list[LogFailed]:
        return [LogFailed("dead")]

    with patch.context() as held:
        held.setattr(control.broker.transactions.markers, "write", fail)
        ended = control.answer(one.send_end())
    assert ended.error_code == 0
    one._is(ended.producer_id, ended.producer_epoch)


def tick(control: Control, times: int = 1) -> None:
    async def ticks() -> None:
        for _ in range(times):
            timeouts.tick(control.broker.transactions, now_ms())
            await settled(control)

    control.run(ticks())


# Transactions


@COMES_BACK
@TV
def test_a_decided_commit_is_not_complete_without_the_partition_that_cannot_be_opened(
    is_v2: bool, how: str, lives: Lives, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = begun(lives.now, is_v2)
    decided(lives.now, one, monkeypatch)
    one.control = lives.again(spoiled="u")
    tick(one.control)
    assert (one.state(), committed_values(one.control)) == ("PrepareCommit", ["t"])
    one.control = lives.whole(how, "u")
    tick(one.control)
    assert one.state() == "CompleteCommit"
    assert [committed_values(one.control, topic) for topic in "tu"] == [["t"], ["u"]]
    one.control = lives.again()
    assert [committed_values(one.control, topic) for topic in "tu"] == [["t"], ["u"]]


def test_partitions_that_are_served_have_their_marker_once_however_long_another_is_not(
    lives: Lives, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = begun(lives.now, is_v2=True)
    decided(lives.now, one, monkeypatch)
    one.control = lives.again(spoiled="u")
    tick(one.control, 5)
    log = one.control.broker.topics["t"].logs[0]
    assert log.log_end_offset == 2  # a record, a marker


def test_a_topic_that_was_deleted_holds_up_no_transaction_though_its_files_stay(
    lives: Lives, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = begun(lives.now, is_v2=True)
    decided(lives.now, one, monkeypatch)
    control = one.control = lives.again(spoiled="u")

    def fails(*given: Any) -> None:
        raise LogFailed("no disk")

    monkeypatch.setattr(topic_directories, "delete_files", fails)
    control.run(control.broker.topics.delete("u"))
    assert "no disk" in control.broker.topics.undeleted["u"]
    tick(control)
    assert one.state() == "CompleteCommit"
    assert control.broker.transaction_places.find_log("u", 0) is None


@COMES_BACK
@TV
def test_an_open_transaction_is_committed_whole_or_not_yet(
    is_v2: bool, how: str, lives: Lives
) -> None:
    """What TV2 wrote is told by the partition alone, here by one that nobody can look into."""
    one = begun(lives.now, is_v2)
    one.control = lives.again(spoiled="u")
    if is_v2:
        assert one.end() == CONCURRENT
        assert one.state() == "Ongoing"
        one.control = lives.whole(how, "u")
        tick(one.control)
        assert one.end() == 0
    else:
        assert one.end() == 0  # decided: its partitions are on disk
        assert one.state() == "PrepareCommit"
        one.control = lives.whole(how, "u")
        tick(one.control)
    assert one.state() == "CompleteCommit"
    assert [committed_values(one.control, topic) for topic in "tu"] == [["t"], ["u"]]


@COMES_BACK
def test_a_transaction_that_wrote_only_where_nobody_can_look_is_not_ended_as_empty(
    how: str, lives: Lives
) -> None:
    one = TxnClient(lives.now)
    assert [one.init(), one.write("a", topic="u")] == [0, 0]
    one.control = lives.again(spoiled="u")
    assert one.end() == CONCURRENT
    one.control = lives.whole(how, "u")
    tick(one.control)
    assert [one.end(), committed_values(one.control, "u")] == [0, ["a"]]


@COMES_BACK
def test_what_was_aborted_meanwhile_is_not_committed_with_the_next(how: str, lives: Lives) -> None:
    one = begun(lives.now, is_v2=True)
    one.control = lives.again(spoiled="u")
    assert one.end(is_commit=False) == 0
    lives.whole(how, "u")
    one.control, one.sequences = lives.now, {}
    tick(one.control, 2)  # the abort may still be writing its last record at the first
    assert one.write("new", topic="u") == 0
    assert one.end() == 0
    assert committed_values(one.control, "u") == ["new"]


def test_nobody_writes_to_a_log_that_is_opened_anew_before_it_is_read(
    lives: Lives, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, one = lives.now.broker, TxnClient(lives.now, is_v2=True)
    assert one.init() == 0
    old, is_read = broker.topics["u"].logs[0], threading.Event()

    def read_late(log: Log) -> list[ProducerInfo]:
        assert is_read.wait(20)
        return open_transactions(log)

    monkeypatch.setattr(adoption, "open_transactions", read_late)

    async def opened_anew() -> asyncio.Task[None]:
        task = asyncio.create_task(broker.reopening.reopen("u", 0))
        await eventually(lambda: broker.topics["u"].logs[0] is not old)
        return task

    async def done(task: asyncio.Task[None]) -> None:
        await task

    task = lives.now.run(opened_anew())
    try:
        assert one.write("early", topic="u") == 19  # it may try again
    finally:
        is_read.set()
        lives.now.run(done(task))
    one.sequences = {}
    assert (one.write("new", topic="u"), one.end()) == (0, 0)
    assert committed_values(lives.now, "u") == ["new"]


def test_a_thread_that_looks_while_a_log_is_put_in_its_place_is_told_so() -> None:
    topic = Topic("t", uuid.uuid4(), logs=[None])  # the reason is gone before the log is seen
    with pytest.raises(TopicUnavailable, match="t-0 is not served: it is being opened"):
        topic.log(0)


@COMES_BACK
def test_no_transaction_is_taken_for_nobodys_while_their_topic_cannot_be_opened(
    how: str, lives: Lives
) -> None:
    one = begun(lives.now, is_v2=True)
    one.control = lives.again(spoiled=TRANSACTIONS)
    assert TRANSACTIONS in one.control.broker.transactions.loading.fault
    # it looks again and again, and in that moment it says that it reads
    assert {one.init(), one.end()} <= {AWAY, BEING_READ}
    one.control = lives.whole(how, TRANSACTIONS)
    assert one.control.broker.transactions.loading.fault == ""
    assert one.end() == 0
    assert [committed_values(one.control, topic) for topic in "tu"] == [["t"], ["u"]]


# Groups


@COMES_BACK
def test_offsets_that_cannot_be_read_are_not_none(
    how: str, lives: Lives, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The drill: exactly-once, a decided commit, and a disk on which offsets cannot be opened."""
    assert GroupClient(lives.now).commit(7) == [0]
    one = TxnClient(lives.now)
    assert [one.init(), one.write("out"), one.add_group(), one.commit_offset(9)] == [0] * 4
    decided(lives.now, one, monkeypatch)
    control = one.control = lives.again(spoiled=OFFSETS)
    assert OFFSETS in control.broker.groups.availability.fault
    assert GroupClient(control).commit(1) == [AWAY]
    assert one.init() == CONCURRENT  # what it committed has no marker there yet
    assert control.broker.topics[OFFSETS].open_logs == []
    control = one.control = lives.whole(how, OFFSETS)
    assert control.broker.groups.availability.fault == ""
    tick(control)
    assert committed(control) == {("t", 0): 9}
    assert committed_values(control) == ["out"]
    assert one.state() == "CompleteCommit"


def test_offsets_are_taken_for_a_topic_that_is_not_served(lives: Lives) -> None:
    """They say what was read, and are read with it. A transaction may write there later."""
    old = TxnClient(lives.now, is_v2=False)
    assert (old.init(), old.add_group()) == (0, 0)
    control = old.control = lives.again(spoiled="t")
    assert GroupClient(control, "reader").commit(7) == [0]
    assert old.commit_offset(9) == 0
    assert old.add(("t", 0)) == [CONCURRENT]
    assert old.end() == 0
    assert committed(control, "reader") == {("t", 0): 7}
    assert committed(control) == {("t", 0): 9}


def test_a_transaction_is_told_to_ask_again_where_its_offsets_have_no_place_yet(
    lives: Lives, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise StorageFull("no topic can be made")

    old, new = (TxnClient(lives.now, each, is_v2=each == "new") for each in ("old", "new"))
    assert (old.init(), new.init()) == (0, 0)
    with monkeypatch.context() as held:
        held.setattr(LogDir, "create_new", full)
        assert (old.add_group(), new.commit_offset(9)) == (AWAY, AWAY)
    assert (old.add_group(), new.commit_offset(9)) == (0, 0)


def test_offsets_of_a_topic_that_was_deleted_meanwhile_are_forgotten(lives: Lives) -> None:
    client = GroupClient(lives.now)
    assert [client.commit(7), client.commit(8, topic="u")] == [[0], [0]]
    control = lives.again(spoiled=OFFSETS)
    control.run(control.broker.topics.delete("t"))
    lives.whole("while it runs", OFFSETS)
    offsets = control.broker.groups.offsets
    control.run(eventually(lambda: [each.topic for each in offsets.of_group("g")] == ["u"]))


def names(control: Control) -> dict[int, str]:
    """A group of each partition of `__consumer_offsets`."""
    count = len(control.broker.topics[OFFSETS].logs)
    return {partition_of(name, count): name for name in map(str, range(100))}


@COMES_BACK
def test_only_groups_of_the_partition_that_cannot_be_opened_wait(how: str, lives: Lives) -> None:
    assert GroupClient(lives.now, "first").commit(0) == [0]
    group = names(lives.now)
    for name in group.values():
        assert GroupClient(lives.now, name).commit(7) == [0]
    control = lives.again(1, spoiled=OFFSETS)
    away = GroupClient(control, group[1])
    assert f"{OFFSETS}-1" in control.broker.groups.availability.fault
    answer = control.ask(ListGroupsRequest(), 5)  # after an error clients ask on and on
    found = {each.group_id for each in answer.groups}
    assert (answer.error_code, found) == (0, {*group.values(), "first"} - {group[1]})
    assert [away.commit(8), away.heartbeat(), away.join().error_code] == [[AWAY], AWAY, AWAY]
    assert {GroupClient(control, group[each]).commit(8)[0] for each in group if each != 1} == {0}
    control = lives.whole(how, OFFSETS)
    found = {name: committed(control, name)["t", 0] for name in group.values()}
    assert found == {name: 7 if name == group[1] else 8 for name in group.values()}
    assert GroupClient(control, group[1]).commit(9) == [0]


@COMES_BACK
def test_the_name_of_a_deleted_topic_is_not_free_before_all_that_groups_committed_is_known(
    how: str, lives: Lives
) -> None:
    """What they committed to the next topic of that name stays."""
    assert GroupClient(lives.now, "first").commit(0) == [0]
    group = names(lives.now)
    assert GroupClient(lives.now, group[1]).commit(7) == [0]
    control = lives.again(1, spoiled=OFFSETS)
    control.run(control.broker.topics.delete("t"))
    with pytest.raises(TopicUnavailable, match=f"is not known yet: {OFFSETS}-1 is not read"):
        control.create("t", 1)
    control = lives.whole(how, OFFSETS)
    control.run(control.broker.reopening.retry())
    assert control.broker.topics.undeleted == {}
    control.create("t", 1)
    assert GroupClient(control, group[0]).commit(3) == [0]
    control = lives.again()
    assert committed(control, group[0]) == {("t", 0): 3}
    assert committed(control, group[1]) == {}


def test_a_partition_that_could_not_be_read_once_is_read_again(
    lives: Lives, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its groups would wait for a restart, and so would the name of each deleted topic."""
    assert GroupClient(lives.now, "first").commit(0) == [0]
    group = names(lives.now)[1]
    assert GroupClient(lives.now, group).commit(7) == [0]
    control = lives.again(1, spoiled=OFFSETS)
    right, refused = groups_loading.replay, threading.Event()

    def replay(logs: list[Log]) -> Any:
        if not refused.is_set():
            refused.set()
            raise LogFailed("EIO")
        return right(logs)

    monkeypatch.setattr(groups_loading, "replay", replay)
    control.run(serving(control, OFFSETS))
    assert refused.is_set()
    assert committed(control, group) == {("t", 0): 7}


def test_a_stop_does_not_wait_for_what_is_not_served(lives: Lives) -> None:
    assert GroupClient(lives.now).commit(7) == [0]
    lives.again(spoiled=OFFSETS)  # the fixture closes it, within a deadline


# Share groups


@COMES_BACK
def test_share_groups_do_not_begin_anew_where_their_state_cannot_be_read(
    how: str, lives: Lives
) -> None:
    write_plainly(lives.now, "a", "b", "c")
    client = ShareClient(lives.now)
    client.initialize(0, start=2)
    control = lives.again(spoiled=SHARE_STATE)
    own, topic = control.broker.share_partitions, control.broker.topics["t"].id
    assert SHARE_STATE in own.loading.fault
    with pytest.raises(Exception, match=SHARE_STATE):
        own.states.start_offset("g", topic, 0)
    control = lives.whole(how, SHARE_STATE)
    assert control.broker.share_partitions.states.start_offset("g", topic, 0) == 2


@COMES_BACK
def test_share_groups_keep_the_state_of_a_topic_that_is_not_served(how: str, lives: Lives) -> None:
    write_plainly(lives.now, "a", "b", "c")
    ShareClient(lives.now).initialize(0, start=2)
    topic = lives.now.broker.topics["t"].id
    control = lives.again(spoiled="t")
    assert control.broker.share_partitions.states.start_offset("g", topic, 0) == 2
    with pytest.raises(TopicUnavailable):
        control.run(control.broker.share_partitions.states.set_start_offset("g", topic, 0, 1, 0))
    control = lives.whole(how, "t")
    assert control.broker.share_partitions.states.start_offset("g", topic, 0) == 2


# What clients are told


def metadata(control: Control, topics: list[Any] | None) -> list[Any]:
    answer = control.ask(MetadataRequest(topics=topics), 12)
    return sorted(answer.topics, key=lambda each: str(each.name))


Asked = MetadataRequest.MetadataRequestTopic


@pytest.mark.parametrize(
    "asked",
    [
        lambda topic_id: None,
        lambda topic_id: [Asked(name="t")],
        lambda topic_id: [Asked(topic_id=topic_id, name=None)],
    ],
    ids=["all", "by name", "by id"],
)
def test_a_topic_that_is_not_served_is_listed_without_a_leader(
    asked: Callable[[Any], list[Any] | None], lives: Lives
) -> None:
    topic_id = lives.now.broker.topics["t"].id
    control = lives.again(spoiled="t")
    row = metadata(control, asked(topic_id))[0]
    assert (row.name, row.topic_id, row.error_code) == ("t", topic_id, 0)
    (partition,) = row.partitions
    assert (partition.error_code, partition.leader_id) == (NO_LEADER, -1)
    assert partition.offline_replicas == [control.broker.node_id]


def test_a_topic_that_is_not_served_has_its_id_and_its_readers_keep_it(lives: Lives) -> None:
    topic_id = lives.now.broker.topics["t"].id
    broker = lives.again(spoiled="t").broker
    assert broker.topics.name_of(topic_id) == "t"
    assert broker.group_places.topic_facts("t") == (topic_id, 1)
    assert "t" in broker.group_places.topic_names()
    assert broker.group_places.may_know_topic(topic_id)
    assert not broker.group_places.may_know_topic(kafka_uuid.new())


def test_lag_is_measured_beside_what_is_not_served(lives: Lives) -> None:
    client = GroupClient(lives.now)
    assert [client.commit(0), client.commit(0, topic="u")] == [[0], [0]]
    write_plainly(lives.now, "a", topic="u")
    control = lives.again(spoiled="t")
    lag = control.run(control.broker.lag.of_group("g"))
    assert [(each.topic, each.records) for each in lag.partitions] == [("u", 1)]
