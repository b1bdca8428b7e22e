"""A leader that has just been elected does not know up to where its records count. Nobody is told
an end then that others have seen passed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from appliance._log import Log
from appliance.admin import history_values, message_filter, message_scan, topics
from appliance.admin.live_messages import end_of, news
from appliance.admin.message_ranges import Range
from appliance.admin.offset_reset import bounds_here
from appliance.api.handlers import (
    delete_records,
    describe_share_group_offsets,
    list_offsets,
)
from appliance.api.handlers.list_offsets import EARLIEST, LARGEST, LATEST, Asked
from appliance.broker.partition_leaders import PartitionLeaders
from appliance.bulk_http.leader_range import LeaderRange
from appliance.bulk_http.range_read import log_of
from appliance.config import GroupsConfig
from appliance.errors import NotLeader, Refused
from appliance.groups.lag import GroupProgress, Lag
from appliance.groups.records import Partition
from appliance.protocol import ErrorCode
from appliance.share.reading import reset_offset
from appliance.topics.known_end import is_watermark_stale, knows_end
from appliance.topics.topic import Topic
from tests.support.logs import NOW, batch, one_log

EPOCH, ME, OTHER, COUNT = 3, 1, 2, 4
LATE_S = 30.0


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """Elected, and its follower has said nothing yet."""
    with one_log(tmp_path) as log:
        log.append_durable(batch(*"abcd"))
        log.lead(EPOCH, ME, [OTHER], [ME, OTHER], 1)
        assert not knows_end(log)
        yield log


def gets_known(log: Log) -> None:
    log.set_in_sync(EPOCH, [ME], [], 1)
    assert log.high_watermark == COUNT


def answer(log: Log, timestamp: int, version: int = 7) -> tuple[int, int]:
    found = list_offsets._partition(Asked(0, -1, timestamp), log, "stable", version)
    return found.error_code, found.offset


@pytest.mark.parametrize("timestamp", [LATEST, NOW], ids=["latest", "a time"])
def test_an_end_that_gets_known_meanwhile_is_not_told_as_it_was_before(
    log: Log, timestamp: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = list_offsets._by_time if timestamp == NOW else list_offsets._special

    def slow(*given: Any) -> Any:
        found = looked(*given)
        gets_known(log)
        return found

    monkeypatch.setattr(list_offsets, looked.__name__, slow)
    assert answer(log, timestamp) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
    monkeypatch.undo()
    assert answer(log, timestamp) == (0, COUNT if timestamp == LATEST else 0)


def test_an_end_is_not_told_by_who_is_deposed_meanwhile(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it waits for its disk, up to a second."""
    committed = list_offsets._commit

    def deposed(*given: Any) -> None:
        committed(*given)
        log.follow(EPOCH + 1, OTHER)

    monkeypatch.setattr(list_offsets, "_commit", deposed)
    call: Any = SimpleNamespace(version=7)
    told = list_offsets._answer([("t", [(Asked(0, -1, LATEST), log)])], "stable", call)
    (found,) = told.topics[0].partitions
    assert (found.error_code, found.offset) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    for ask in (lambda: reset_offset(log, "latest", 0, NOW), lambda: bounds_here(log, None)):
        with pytest.raises(NotLeader, match="not led here any more; ask again"):
            ask()


def test_the_start_is_known_and_older_clients_are_told_in_their_words(log: Log) -> None:
    assert answer(log, EARLIEST) == (0, 0)
    assert answer(log, LATEST, 4) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)


def test_groups_do_not_begin_at_such_an_end(log: Log) -> None:
    assert reset_offset(log, "earliest", 0, NOW) == 0
    for ask in (lambda: reset_offset(log, "latest", 0, NOW), lambda: bounds_here(log, None)):
        with pytest.raises(Refused, match="have not said yet what they have; ask again") as refused:
            ask()
        assert refused.value.kafka_code == ErrorCode.OFFSET_NOT_AVAILABLE
    gets_known(log)
    assert reset_offset(log, "latest", 0, NOW) == COUNT
    assert bounds_here(log, None).end == COUNT


def test_nothing_is_deleted_up_to_such_an_end(log: Log) -> None:
    for offset in (delete_records.HIGH_WATERMARK, COUNT):
        with pytest.raises(Refused) as refused:
            delete_records._delete(log, offset, 1)
        assert refused.value.kafka_code == ErrorCode.LEADER_NOT_AVAILABLE
    with pytest.raises(Refused, match="ask again"):
        topics.empty([log])
    gets_known(log)
    delete_records._delete(log, 2, 1)
    topics.empty([log])
    assert log.log_start_offset == COUNT


@pytest.mark.parametrize("offset", [delete_records.HIGH_WATERMARK, 2, COUNT + 1, None])
def test_who_is_deposed_meanwhile_does_not_say_what_it_deleted(
    log: Log, offset: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its leader has it still, and knows whether there is more."""
    gets_known(log)
    for of, name in (
        (delete_records, "knows_end"), (delete_records, "_target"), (topics, "check_end_is_known"),
    ):  # fmt: skip
        monkeypatch.setattr(of, name, then_deposed(getattr(of, name), log))
    delete: Any = topics.empty if offset is None else delete_records._delete
    given = ([log],) if offset is None else (log, offset, 1)
    with pytest.raises(NotLeader, match="not led here any more; ask again"):
        delete(*given)


def then_deposed(ask: Callable[..., Any], log: Log) -> Callable[..., Any]:
    def asked(*given: Any) -> Any:
        found = ask(*given)
        log.follow(EPOCH + 1, OTHER)
        return found

    return asked


def test_the_largest_time_is_not_told_as_it_was_before(log: Log) -> None:
    gets_known(log)
    assert answer(log, LARGEST) == (0, 0)  # of those with that time the first
    log.lead(EPOCH + 1, ME, [OTHER], [ME, OTHER], 1)
    log.append(batch("e"))
    log.lead(EPOCH + 2, ME, [OTHER], [ME, OTHER], 1)
    assert not knows_end(log)
    assert answer(log, LARGEST) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
    assert answer(log, NOW) == (0, 0)  # nothing that comes is before it


def test_the_lag_of_a_share_group_is_not_told(log: Log) -> None:
    nothing: Any = None
    places = SimpleNamespace(is_there=lambda _: False)
    members = SimpleNamespace(placement=lambda *_: SimpleNamespace(leader_epoch=EPOCH))
    broker: Any = SimpleNamespace(lag=SimpleNamespace(elsewhere=places), members=members)
    topic = Topic("t", nothing, {}, [log])
    assert describe_share_group_offsets._epoch_and_end(broker, topic, 0) == (EPOCH, None)
    gets_known(log)
    assert describe_share_group_offsets._epoch_and_end(broker, topic, 0) == (EPOCH, COUNT)


def test_a_range_of_a_plan_is_not_read_short_by_a_leader_that_does_not_know(log: Log) -> None:
    """Of an old leader's plan Spark would take the rest for lost, or leave it out."""
    nothing: Any = None
    topic = Topic("t", nothing, {}, [log], here=frozenset({0}))
    broker = SimpleNamespace(leaders=PartitionLeaders(nothing))
    call: Any = SimpleNamespace(params={"end": COUNT}, broker=broker)

    async def asked() -> Log:
        waiting = asyncio.ensure_future(log_of(call, topic, 0, "batches"))
        await asyncio.sleep(0)
        assert not waiting.done()
        gets_known(log)
        return await waiting

    assert asyncio.run(asked()) is log
    assert log.high_watermark == COUNT


def test_a_range_is_not_read_short_at_a_leader_that_does_not_know() -> None:
    async def fetch(*_: Any) -> Any:
        return SimpleNamespace(records=None, aborted_transactions=None, high_watermark=2,
                               last_stable_offset=2)  # fmt: skip

    async def read() -> Any:
        leaders: Any = SimpleNamespace(fetch=fetch)
        topic: Any = SimpleNamespace(name="t")
        loop = asyncio.get_running_loop()
        reader = LeaderRange(leaders, loop, topic, 0, 2, COUNT, is_committed=False)
        return await asyncio.to_thread(reader.read, 1 << 20)

    with pytest.raises(NotLeader, match="t-0: its leader knows what counts up to 2, wanted 4"):
        asyncio.run(read())


def test_a_page_says_what_a_leader_does_not_know(log: Log) -> None:
    """The next one of a cursor: its end was known where it began."""
    bounds = message_scan.Bounds(COUNT, 1 << 20, LATE_S)

    def page() -> message_scan.Look:
        every = message_filter.parse("")
        return message_scan.look(lambda _: log, [Range(0, 0, COUNT)], every, bounds)

    assert [each.offset for each in page().problems] == [0]
    gets_known(log)
    found = page()
    assert (len(found.found), found.problems) == (COUNT, [])


def test_who_follows_live_gets_what_came_when_it_is_known(log: Log) -> None:
    topic: Any = SimpleNamespace(logs=[log])
    ends = {0: 2}
    assert news(topic, ends) == []
    gets_known(log)
    assert [(each.first, each.end) for each in news(topic, ends)] == [(2, COUNT)]
    assert ends == {0: COUNT}


def test_a_replica_that_was_just_opened_shows_no_old_messages_as_new(log: Log) -> None:
    """Its watermark goes from the start to what counts when its leader speaks."""
    log.follow(EPOCH + 1, OTHER)
    topic: Any = SimpleNamespace(logs=[log])
    ends = {0: end_of(log)}
    assert news(topic, ends) == []
    log.tell_replicated(EPOCH + 1, 2)
    assert news(topic, ends) == []
    log.tell_replicated(EPOCH + 1, COUNT)
    assert [(each.first, each.end) for each in news(topic, ends)] == [(2, COUNT)]


# Lag of groups


@pytest.mark.parametrize("role", ["leader", "follower", "nobody"])
def test_the_lag_of_a_group_is_not_told_by_a_watermark_of_before(
    log: Log, role: str
) -> None:
    """It would be none."""
    if role == "follower":
        log.follow(EPOCH + 1, OTHER)
    elif role == "nobody":
        log.follow(EPOCH + 1, -1)
    assert is_watermark_stale(log)
    world = World(log)
    (unknown,) = asyncio.run(world.lag.of_group("g")).partitions
    assert (unknown.committed, unknown.end, unknown.records, unknown.seconds) == (1, None, 0, None)
    assert world.lag.records_of("g", {"t"}).unknown_partitions == 1
    if role == "leader":
        gets_known(log)
    else:
        log.follow(EPOCH + 2, OTHER)
        log.tell_replicated(EPOCH + 2, COUNT)
    (known,) = asyncio.run(world.lag.of_group("g")).partitions
    assert (known.end, known.records) == (COUNT, COUNT - 1)


def test_the_past_of_a_lag_has_no_sample_of_what_is_unknown(log: Log) -> None:
    world = World(log)
    gets_known(log)
    asyncio.run(world.lag.round())
    log.append(batch("e"))
    log.lead(EPOCH + 1, ME, [OTHER], [ME, OTHER], 1)
    asyncio.run(world.lag.round())
    broker: Any = SimpleNamespace(lag=world.lag)
    assert history_values.of_groups(broker) == {}
    (samples,) = world.lag.history("g").topics.values()
    assert [each.records for each in samples] == [COUNT - 1]
    log.set_in_sync(EPOCH + 1, [ME], [], 1)
    log.flush(LATE_S)
    asyncio.run(world.lag.round())
    (samples,) = world.lag.history("g").topics.values()
    assert [each.records for each in samples] == [COUNT - 1, COUNT]
    assert history_values.of_groups(broker)["group/g/lag_records"] == COUNT


class World:
    """A group that has read one record of the log."""

    def __init__(self, log: Log) -> None:
        progress = GroupProgress("classic", {Partition("t", 0): 1})
        source: Any = SimpleNamespace(
            groups_that_read=lambda: ["g"], progress=lambda group: progress
        )
        loaded: Any = None
        self.lag = Lag(GroupsConfig(), lambda *_: log, [source], loaded, lambda: NOW)
