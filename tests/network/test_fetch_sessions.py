"""Sessions of fetches: what is told once, again, and of partitions that come and go."""

from __future__ import annotations

from typing import Any

import pytest

from appliance._log import Log
from appliance.config import LogConfig
from tests.support.data_plane import Plane, batch, client, make, plane, values
from tests.support.logs import until
from tests.support.open_files import open_files
from tests.support.wire_client import TOPIC_ID, WireClient

__all__ = ["client", "make", "plane"]


def test_a_session_tells_only_what_is_new(client: WireClient) -> None:
    client.produce(batch(b"a"), batch(b"b"), acks=-1)
    first = client.fetch(1, partitions=(0, 1, 2), session=(0, 0))
    assert first.session_id > 0
    assert [part.partition_index for part in first.responses[0].partitions] == [0, 1, 2]
    quiet = client.fetch(partitions=(), session=(first.session_id, 1))
    assert [part.error_code for topic in quiet.responses for part in topic.partitions] == [1]
    client.fetch(0, partitions=(2,), session=(first.session_id, 2))
    client.produce(batch(b"c"), acks=-1, partition=1)
    news = client.fetch(partitions=(), session=(first.session_id, 3))
    assert [part.partition_index for part in news.responses[0].partitions] == [1]


def test_a_session_waits_for_news(client: WireClient, plane: Plane) -> None:
    session = client.fetch(0, partitions=(0, 1), session=(0, 0)).session_id
    client.send_fetch(partitions=(), session=(session, 1), wait_ms=15_000)
    with plane.client() as writer:
        writer.produce(batch(b"news"), acks=1, partition=1)
    assert b"news" in client.receive()


@pytest.mark.parametrize("waits", [False, True], ids=["silent", "waiting"])
def test_a_session_keeps_no_deleted_partition(make: Any, waits: bool) -> None:
    plane = make()
    log_dir = plane.log_dir
    with plane.client() as client:
        session = client.fetch(0, partitions=(0, 1), session=(0, 0)).session_id
        client.send_fetch(partitions=(), session=(session, 1), wait_ms=15_000 if waits else 0)
        if not waits:
            client.receive()
        directory = str(log_dir.path / "deleted" / "t-1")
        plane.data_plane.put_topic("t", TOPIC_ID.bytes, [plane.logs[0], None, plane.logs[2]])
        del plane.logs[1]
        log_dir.delete("t", 1)
        if not waits:
            client.send_fetch(partitions=(), session=(session, 2))
        client.receive()
        until(lambda: not any(each.startswith(directory) for each in open_files()))


NOT_LEADER, UNKNOWN_TOPIC, UNKNOWN_ID, STORAGE_ERROR = 6, 3, 100, 56
BY_NAME_AND_BY_ID = pytest.mark.parametrize(
    ("version", "unknown"), [(12, UNKNOWN_TOPIC), (13, UNKNOWN_ID)], ids=["by name", "by id"]
)


def told(answer: Any) -> list[tuple[int, int, list[bytes | None]]]:
    return [
        (part.partition_index, part.error_code, values(part) if part.records else [])
        for topic in answer.responses
        for part in topic.partitions
    ]


@BY_NAME_AND_BY_ID
def test_a_session_reads_on_from_a_log_that_was_opened_again(
    client: WireClient, plane: Plane, version: int, unknown: int
) -> None:
    client.produce(batch(b"a"), acks=-1, partition=1)

    def again(epoch: int) -> Any:
        return told(client.fetch(partitions=(), session=(session, epoch), version=version))

    session = client.fetch(1, partitions=(0, 1), session=(0, 0), version=version).session_id
    new = plane.log_dir.reopen("t", 1, LogConfig())
    # Meanwhile, and after an attempt that failed, it is no partition that the client might forget.
    assert again(1) == [(0, 1, []), (1, NOT_LEADER, [])]
    assert (1, NOT_LEADER, []) in again(2)
    plane.logs[1] = new
    plane.data_plane.put_topic("t", TOPIC_ID.bytes, list[Log | None](plane.logs))
    new.append_durable(batch(b"news"))
    assert (1, NOT_LEADER, []) in again(3)
    assert (1, 0, [b"news"]) in again(4)


@BY_NAME_AND_BY_ID
@pytest.mark.parametrize("was_known", [True, False], ids=["partition", "topic"])
def test_a_session_reads_what_could_not_be_served_when_it_began(
    client: WireClient, plane: Plane, version: int, unknown: int, was_known: bool
) -> None:
    plane.logs[1].append_durable(batch(b"a"))
    if was_known:
        without: list[Log | None] = [plane.logs[0], None, plane.logs[2]]
        plane.data_plane.put_topic("t", TOPIC_ID.bytes, without)
    else:
        plane.data_plane.remove_topic("t")
    first = client.fetch(0, partitions=(1,), session=(0, 0), version=version)
    assert told(first) == [(1, STORAGE_ERROR if was_known else unknown, [])]
    if was_known:
        assert client.produce(batch(), partition=1)[0].error_code == STORAGE_ERROR
    plane.data_plane.put_topic("t", TOPIC_ID.bytes, list[Log | None](plane.logs))
    seen = [
        told(client.fetch(partitions=(), session=(first.session_id, epoch), version=version))
        for epoch in (1, 2)
    ]
    assert seen[-1] == [(1, 0, [b"a"])]


def test_wrong_sessions_are_refused(client: WireClient) -> None:
    assert client.fetch(partitions=(), session=(12345, 1)).error_code == 70
    session = client.fetch(0, session=(0, 0)).session_id
    assert client.fetch(partitions=(), session=(session, 7)).error_code == 71
    assert client.fetch(partitions=(), session=(session, 1)).error_code == 0
    client.fetch(partitions=(), session=(session, -1))
    assert client.fetch(partitions=(), session=(session, 2)).error_code == 70
