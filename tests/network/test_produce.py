"""Produce requests as the data plane answers them, those of clients and those of a mirror."""

from __future__ import annotations

from typing import Any

import pytest

from appliance._log import Log
from appliance.config import LogConfig
from appliance.protocol.messages.fetch import FetchResponse
from appliance.record._mirror_batches import gap
from tests.support.data_plane import Plane, batch, client, make, plane, values
from tests.support.wire_client import TOPIC_ID, WireClient, produce_frame

__all__ = ["client", "make", "plane"]


@pytest.mark.parametrize("version", range(3, 14))
def test_every_produce_version(client: WireClient, plane: Plane, version: int) -> None:
    for acks, offset in ((1, 0), (-1, 2)):
        (part,) = client.produce(batch(count=2), acks=acks, version=version)
        assert (part.error_code, part.base_offset, part.index) == (0, offset, 0)
    assert plane.logs[0].durable_offset == 4


def test_acks_all_is_durable_when_it_is_answered(client: WireClient, plane: Plane) -> None:
    for _ in range(20):
        (part,) = client.produce(batch(), acks=-1)
        assert plane.logs[0].durable_offset > part.base_offset


def test_acks_0_has_no_answer_and_an_error_ends_it(client: WireClient, plane: Plane) -> None:
    client.send_produce(batch(), acks=0)
    assert client.produce(batch(), acks=1)[0].base_offset == 1
    client.send_produce(batch(), acks=0, topic="unknown")
    with pytest.raises(EOFError):
        client.receive()


def test_each_partition_gets_its_own_result(client: WireClient) -> None:
    found = client.produce(batch(), batch(b"x") + b"more", b"", batch(), acks=-1)
    assert [part.error_code for part in found] == [0, 87, 87, 3]
    assert [part.base_offset for part in found] == [0, -1, -1, -1]


@pytest.mark.parametrize(
    ("facts", "version", "error"),
    [({"topic": "nope"}, 9, 3), ({"acks": 5}, 9, 21), ({"partition": 9}, 9, 3),
     ({"partition": 9}, 13, 3), ({"partition": -1}, 9, 3)],
)
def test_what_is_refused(client: WireClient, facts: Any, version: int, error: int) -> None:
    (part,) = client.produce(batch(), version=version, **facts)
    assert (part.error_code, part.base_offset) == (error, -1)
    assert client.produce(batch())[0].error_code == 0


def test_a_damaged_batch_is_refused_with_a_reason(client: WireClient, plane: Plane) -> None:
    damaged = bytearray(batch())
    damaged[-1] ^= 1
    (part,) = client.produce(bytes(damaged), version=8)
    assert (part.error_code, part.error_message) == (
        2, "the record batch does not match its checksum or structure")
    assert plane.logs[0].log_end_offset == 0


def test_a_repeated_batch_has_its_first_offset(client: WireClient) -> None:
    sent = batch(producer_id=7, producer_epoch=0, base_sequence=0)
    assert [client.produce(sent, acks=-1)[0].base_offset for _ in range(2)] == [0, 0]
    gap = batch(producer_id=7, producer_epoch=0, base_sequence=5)
    assert client.produce(gap)[0].error_code == 45


@pytest.mark.parametrize(("is_deleted", "error"), [(True, 3), (False, 6)])
def test_a_closed_log_answers_who_waits(
    client: WireClient, plane: Plane, is_deleted: bool, error: int
) -> None:
    client.send_fetch(0, wait_ms=10_000)
    plane.wait_for("fetch_partitions", 1)
    if is_deleted:
        plane.data_plane.remove_topic("t")
        plane.log_dir.delete("t", 0)
    else:
        plane.log_dir.reopen("t", 0, LogConfig())
    (topic,) = client.answer(FetchResponse,
                             1, 12).responses
    assert topic.partitions[0].error_code == error


# Mirrors

MIRROR = "cluster/topic"


@pytest.fixture(params=["delete", "compact"])
def mirrored(make: Any, request: pytest.FixtureRequest) -> Plane:
    plane: Plane = make(cleanup_policy=request.param, mirror_source=MIRROR)
    logs = list[Log | None](plane.logs)
    plane.data_plane.put_topic("t", TOPIC_ID.bytes, logs, mirror_source=MIRROR)
    return plane


@pytest.mark.parametrize("version", range(9, 14))
def test_a_mirror_is_answered_and_its_batches_keep_their_offsets(
    mirrored: Plane, version: int
) -> None:
    data = gap(0, 3) + batch(b"a", base_offset=3, codec="lz4") + batch(b"b", 2, base_offset=4)
    again = batch(b"b", 2, base_offset=4) + batch(b"c", base_offset=6)
    with mirrored.client() as client:
        for octets, acks, first, end in ((data, 1, 0, 6), (data, -1, 0, 6), (again, -1, 4, 7)):
            (part,) = client.produce(octets, acks=acks, version=version, mirror_source=MIRROR)
            assert (part.error_code, part.base_offset) == (0, first)
            assert mirrored.logs[0].log_end_offset == end
        assert mirrored.logs[0].durable_offset == 7
        assert values(client.fetch_one()) == [b"a", b"b", b"b", b"c"]
    assert mirrored.data_plane.counters()["punted_requests"] == 0


def test_what_a_mirror_brings_in_the_wrong_place_is_refused_and_the_rest_stays(
    mirrored: Plane
) -> None:
    torn = batch(b"c", base_offset=2)
    for data, code, end in ((batch(b"a", base_offset=0) + batch(b"b", base_offset=5), 1, 1),
                            (batch(b"b", base_offset=1) + torn[:-1], 2, 2),
                            (torn[:20], 2, 2), (b"", 2, 2),
                            (batch(base_offset=2, producer_id=7, producer_epoch=0,
                                   base_sequence=0), 87, 2)):
        with mirrored.client() as client:
            (part,) = client.produce(data, acks=-1, mirror_source=MIRROR)
            assert (part.error_code, part.base_offset) == (code, -1)
            assert mirrored.logs[0].log_end_offset == end
    assert mirrored.data_plane.counters()["punted_requests"] == 0


@pytest.mark.parametrize("source", ["", "cluster/other", MIRROR + "x"])
def test_others_than_its_mirror_are_left_to_the_control_plane(
    mirrored: Plane, source: str
) -> None:
    with mirrored.client() as client:
        client.send_produce(batch(base_offset=0), mirror_source=source)
        mirrored.wait_for("punted_requests", 1)
    assert mirrored.logs[0].log_end_offset == 0


def test_a_mirror_of_a_topic_that_is_none_is_left_to_the_control_plane(plane: Plane) -> None:
    with plane.client() as client:
        client.send_produce(batch(base_offset=0), mirror_source=MIRROR)
        plane.wait_for("punted_requests", 1)
        # the data plane hears of the config a moment before, or behind, the log
        logs = list[Log | None](plane.logs)
    plane.data_plane.put_topic("t", TOPIC_ID.bytes, logs, mirror_source=MIRROR)
    with plane.client() as client:
        client.send_produce(batch(base_offset=0), mirror_source=MIRROR)
        plane.wait_for("punted_requests", 2)
    assert plane.logs[0].log_end_offset == 0


def test_a_mirrors_name_that_is_cut_off_closes_the_connection(mirrored: Plane) -> None:
    whole = produce_frame(batch(base_offset=0), mirror_source=MIRROR)
    at = whole.index(MIRROR.encode()) - 1
    for length in (0xFF, len(MIRROR), len(MIRROR) + 2):
        with mirrored.client() as client:
            client.socket.sendall(whole[:at] + bytes([length]) + whole[at + 1 :])
            with pytest.raises(EOFError):
                client.receive()
    assert mirrored.logs[0].log_end_offset == 0


def test_internal_topics_are_read_but_not_written(make: Any) -> None:
    plane = make()
    logs = list[Log | None](plane.logs)
    plane.logs[0].append_durable(batch())
    plane.data_plane.put_topic("t", TOPIC_ID.bytes, logs, is_internal=True)
    with plane.client() as client:
        for version in (3, 8, 9, 13):
            for acks in (1, -1):
                (part,) = client.produce(batch(), version=version, acks=acks)
                assert (part.error_code, part.base_offset) == (17, -1)
        assert client.fetch_one().high_watermark == 1
        client.send_produce(batch(), acks=0)
        with pytest.raises(EOFError):
            client.receive()
    assert plane.logs[0].log_end_offset == 1
