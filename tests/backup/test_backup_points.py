"""Points in time: all logs together are one state, and compaction leaves it as it is."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from queue import Queue
from types import SimpleNamespace
from typing import Any

import pytest

from appliance._log import Log
from appliance.broker import backup_points
from appliance.catalog import kafka_uuid
from appliance.config import LogConfig
from appliance.data_dir.log_dir import LogDir
from appliance.errors import NotLeader, Refused
from appliance.record import _batch
from appliance.testing import RunningBroker, running_broker
from appliance.topics.topic import OFFSETS, SHARE_STATE, TRANSACTIONS, Topic
from appliance.txn.decided_ends import EndsUnderWay
from tests.support.backups import (
    DEADLINE_S,
    commit,
    make_topic,
    produce,
    transactional,
)
from tests.support.broker import with_broker
from tests.support.logs import batch, everything, log_config, one_log, opened
from tests.support.rest import Rest

POINTS = 60


def ends_of(point: Any) -> dict[str, int]:
    return {f"{each['topic']}-{each['partition']}": each["end_offset"] for each in point["logs"]}


def markers(data: Path, topic: str) -> list[tuple[int, int]]:
    """Offset and producer of each."""
    with opened(data) as log_dir:
        infos = [_batch.headers(each)[0] for each in everything(log_dir.log(topic, 0))]
    return [(each.base_offset, each.producer_id) for each in infos if each.is_control]


def test_a_point_has_all_of_a_transaction_or_nothing(tmp_path: Path) -> None:
    is_over = threading.Event()
    committed: Queue[None] = Queue()

    def move(name: str) -> None:
        producer = transactional(broker.bootstrap, name)
        while not is_over.is_set():
            producer.begin_transaction()
            for topic in ("from", "to"):
                producer.produce(topic, "x", partition=0)
            producer.commit_transaction(DEADLINE_S)
            committed.put(None)

    with running_broker(tmp_path / "data") as broker:
        for topic in ("from", "to"):
            make_topic(broker, topic)
        threads = [threading.Thread(target=move, args=(f"mover-{n}",)) for n in range(3)]
        for each in threads:
            each.start()
        rest = Rest(broker.admin)
        points = []
        for _ in range(POINTS):
            committed.get(timeout=DEADLINE_S)  # so some end between any two points
            points.append(ends_of(rest.post("/backup/points")))
        is_over.set()
        for each in threads:
            each.join()
    ended = {topic: markers(tmp_path / "data", topic) for topic in ("from", "to")}
    assert len(ended["from"]) >= POINTS
    for point in points:
        found = {
            topic: Counter(producer for offset, producer in rows if offset < point[f"{topic}-0"])
            for topic, rows in ended.items()
        }
        assert found["from"] == found["to"], point


class OtherCoordinator:
    """What it has decided goes on while ends are taken, so many times."""

    own: Sequence[Log] = ()  # what is led here

    def __init__(self, times: int) -> None:
        self.decided, self.takes, self._times = 5, 0, times

    def led_elsewhere(self, topic: Topic, partitions: range) -> dict[int, int]:
        return dict.fromkeys(partitions[len(self.own):], 2)

    async def readable(self, topic: Topic, partitions: list[int]) -> list[Log]:
        return [self.own[each] for each in partitions]

    async def offsets(self, topic: Topic, wanted: dict[int, int]) -> dict[int, int]:
        return dict.fromkeys(wanted, self.decided)

    async def shown(self, topics: list[Topic]) -> tuple[list[Any], dict[Any, str]]:
        self.takes += 1
        self.decided += self.takes <= self._times
        return [], {}


def ends_beside(other: OtherCoordinator) -> dict[int, int]:
    us: Any = SimpleNamespace(leaders=other)
    nothing: Any = None
    points = backup_points.BackupPoints(nothing, nothing, nothing, us, nothing, nothing)
    decisions = Topic(TRANSACTIONS, kafka_uuid.new(), {}, [*other.own] or [None])
    return asyncio.run(points._ends_of_data([], [decisions]))[2]


def test_ends_are_taken_between_two_transactions_of_other_coordinators() -> None:
    other = OtherCoordinator(2)
    assert (ends_beside(other), other.takes) == ({0: 7}, 3)
    other = OtherCoordinator(backup_points.TAKES_MAX)
    with pytest.raises(backup_points.TransactionsGoOn, match=f"all {backup_points.TAKES_MAX} t"):
        ends_beside(other)
    assert other.takes == backup_points.TAKES_MAX


def test_what_is_decided_here_is_not_counted_by_a_leader_that_does_not_know(
    tmp_path: Path,
) -> None:
    """A new one has perhaps not heard yet of what was counted, and one that is deposed will not."""
    other = OtherCoordinator(0)
    with one_log(tmp_path) as log:
        other.own = [log]
        log.append_durable(batch("a", "b"))
        log.lead(3, 1, [2], [1, 2], 1)
        with pytest.raises(Refused, match="have not said yet what they have"):
            ends_beside(other)
        log.set_in_sync(3, [1], [], 1)
        assert ends_beside(other) == {0: 2}
        log.follow(4, 2)
        with pytest.raises(NotLeader, match="not led here any more"):
            ends_beside(other)


def test_what_tells_of_data_ends_before_it_and_what_decides_about_it_behind() -> None:
    names = ["z", TRANSACTIONS, "a", OFFSETS, SHARE_STATE]
    topics = [Topic(name, kafka_uuid.new()) for name in names]
    found = [each.name for each in backup_points.in_order(topics)]
    assert found == [OFFSETS, SHARE_STATE, "z", "a", TRANSACTIONS]


def test_the_last_acknowledged_record_is_below_the_end_and_on_disk(
    appliance_broker: RunningBroker,
) -> None:
    make_topic(appliance_broker, "clicks")
    rest = Rest(appliance_broker.admin)
    for number in range(1, 6):
        produce(appliance_broker, "clicks", [str(number)])
        commit(appliance_broker, "readers", "clicks", number)
        point = rest.post("/backup/points")
        assert ends_of(point)["clicks-0"] == number
        (log,) = [each for each in rest.get("/logs")["logs"] if each["topic"] == "clicks"]
        assert log["durable_offset"] == number


def test_ends_of_transactions_wait_for_a_point_and_a_point_for_them(tmp_path: Path) -> None:
    async def use(broker: Any) -> None:
        ends = broker.transactions.decided_ends
        under_way: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ends._deciding.add(under_way)
        with pytest.raises(EndsUnderWay, match="1 transactions have been ending"):
            async with ends.held(0.01):
                pass
        taking = asyncio.create_task(broker.backup_points.take())
        await asyncio.sleep(0.01)
        assert not taking.done()
        waits = asyncio.create_task(ends._may_go_on())
        await asyncio.sleep(0)
        assert not waits.done()
        ends._deciding.clear()
        under_way.set_result(None)
        await taking
        await waits

    with_broker(tmp_path, use)


def test_compaction_rests_while_a_point_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would remove the record at 0 for the sake of one behind the point."""
    compacted = LogConfig(**{**vars(log_config()), "cleanup_policy": "compact",
                             "min_cleanable_dirty_ratio": 0.0})  # fmt: skip

    async def use(broker: Any) -> None:
        topic = await broker.topics.create("t", 1, {"cleanup.policy": "compact"})
        log_dir: LogDir = broker.log_dir
        (log,) = topic.logs
        log.configure(compacted)
        log.append_durable(batch("first"))
        point = await broker.backup_points.take()
        for value in ("second", "third"):
            log.append_durable(batch(value))
            log.roll()
        log_dir.checkpoint()
        assert log_dir.compact() == 0
        broker.backup_points.renew(point.point)
        broker.backup_points.end(point.point)
        assert log_dir.compact() == 1
        assert log.read(0, 1000, "end")[:8] != bytes(8)
        await broker.backup_points.take()
        monkeypatch.setattr(log_dir, "compacts_from", 0.0)  # as if the time were over
        log.append_durable(batch("fourth"))
        log.roll()
        log_dir.checkpoint()
        assert log_dir.compact() == 1

    with_broker(tmp_path, use)


def test_a_point_that_is_not_held_is_told_so(
    appliance_broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = Rest(appliance_broker.admin)
    point = rest.post("/backup/points")["point"]
    other = rest.post("/backup/points")["point"]
    path = f"/backup/points/{point}"
    assert rest.ask("PUT", path).status == 204
    assert rest.ask("DELETE", path).status == 204
    assert rest.refused("PUT", path) == (404, "resource_not_found")
    assert rest.ask("PUT", f"/backup/points/{other}").status == 204
    monkeypatch.setattr(backup_points, "HOLD_S", 0.0)
    late = rest.post("/backup/points")["point"]
    assert rest.refused("DELETE", f"/backup/points/{late}") == (404, "resource_not_found")
