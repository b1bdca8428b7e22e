"""One split over a bad connection: every record once and in order, or an error with the reason."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from appliance.errors import ApplianceError
from appliance_spark import fetching
from appliance_spark.columns import Column
from appliance_spark.endpoint import Busy, Endpoint, Refused, check_safe
from appliance_spark.fetching import Fetching, Source, StreamDamaged
from appliance_spark.planning import DataLost, Split
from tests.support.warm_broker import WarmBroker as Broker

RECORDS = 5000
DEADLINE_S = 30.0
NAMES = ("offset", "value", "topic", "partition", "timestamp", "timestampType", "key")
WANTED = tuple(Column(name, True) for name in NAMES)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("fetching") / "data") as made:
        address = {"bootstrap.servers": made.kafka}
        topics = [NewTopic(name, 1, 1) for name in ("plain", "transactional")]
        admin = AdminClient(address)
        for done in admin.create_topics(topics).values():
            done.result(DEADLINE_S)
        small = {**address, "batch.size": 20_000, "log_level": 0}
        plain = ck.Producer(small)
        send(plain, "plain", RECORDS)
        sure = ck.Producer({**small, "transactional.id": "fetching"})
        sure.init_transactions(DEADLINE_S)
        for end in (sure.commit_transaction, sure.abort_transaction) * 2:
            sure.begin_transaction()
            send(sure, "transactional", RECORDS // 4)
            end(DEADLINE_S)
        yield made


def send(producer: ck.Producer, topic: str, count: int) -> None:
    for number in range(count):
        producer.produce(topic, b"%d" % number * 30)
    assert producer.flush(DEADLINE_S) == 0


class BadLine:
    """A proxy between a reader and the broker: it ends its first connections after a number of
    bytes, or changes one byte there."""

    def __init__(self, export: str, limits: list[int], damages: bool = False) -> None:
        host, _, port = export.rpartition(":")
        self.target, self.limits, self.damages = (host, int(port)), limits, damages
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.connections = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self.listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                limit = self.limits.pop(0) if self.limits else None
                self.connections += 1
                threading.Thread(target=self._pass, args=(client, limit), daemon=True).start()

    def _pass(self, client: socket.socket, limit: int | None) -> None:
        with client, socket.create_connection(self.target) as broker, suppress(OSError):
            broker.sendall(client.recv(65536))
            sent = 0
            while data := bytearray(broker.recv(65536)):
                if limit is not None and sent + len(data) > limit:
                    if not self.damages:
                        client.sendall(data[: limit - sent])
                        return
                    data[limit - sent] ^= 1
                    limit = None
                client.sendall(data)
                sent += len(data)


def reading(url: str, topic: str, end: int, retries: int = 4) -> Fetching:
    source = Source(Endpoint(url, "", retries), "read_committed", True, WANTED)
    return Fetching(source, Split(topic, 0, 0, end))


def offsets(found: Fetching) -> list[int]:
    return [offset for batch in found.batches() for offset in batch.column("offset").to_pylist()]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("appliance_spark.endpoint.BACKOFF_S", 0.01)


@pytest.mark.parametrize("topic", ["plain", "transactional"])
@pytest.mark.parametrize("limits", [[], [0], [100], [300_000], [300_000, 40, 0, 150_000]])
def test_a_line_that_breaks_costs_no_record(
    broker: Broker, topic: str, limits: list[int]
) -> None:
    end = RECORDS if topic == "plain" else RECORDS + 4  # markers
    wanted = offsets(reading(f"http://{broker.admin}", topic, end))
    assert len(wanted) == (RECORDS if topic == "plain" else RECORDS // 2)
    line = BadLine(broker.export, [*limits])
    try:
        assert offsets(reading(line.url, topic, end)) == wanted
        assert line.connections == len(limits) + 1
    finally:
        line.close()


def test_a_line_that_stays_broken_ends_the_task(broker: Broker) -> None:
    line = BadLine(broker.export, [0] * 9)
    try:
        with pytest.raises(ConnectionError, match="plain-0 offsets 0 to 5000: 5 tries"):
            offsets(reading(line.url, "plain", RECORDS))
    finally:
        line.close()


@pytest.mark.parametrize("code", ["kafka_storage_error", "not_leader_or_follower"])
def test_a_disk_that_cannot_be_read_is_told_with_what_there_is_to_do(
    code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Fetching) -> Iterator[None]:
        raise Busy(f'GET http://x: 503 Service Unavailable: {{"error": {{"code": "{code}"}}}}')
        yield

    monkeypatch.setattr(Fetching, "_stream", refuse)
    with pytest.raises(ConnectionError) as told:
        list(reading("http://x", "plain", 1, retries=0).batches())
    assert ("--accept-loss of an export" in str(told.value)) == (code == "kafka_storage_error")


def test_a_byte_that_changed_on_the_way_is_found(broker: Broker) -> None:
    line = BadLine(broker.export, [200_000], damages=True)
    try:
        with pytest.raises((ApplianceError, StreamDamaged)):
            offsets(reading(line.url, "plain", RECORDS))
    finally:
        line.close()


def test_more_than_there_is_is_said(broker: Broker) -> None:
    with pytest.raises(DataLost, match="can be read to 5000 only"):
        offsets(reading(f"http://{broker.admin}", "plain", RECORDS + 7))


def test_a_frame_is_cut_between_batches(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "BATCH_BYTES", 50_000)
    monkeypatch.setattr(fetching, "PIECE_BYTES_MIN", 1)
    batches = [*reading(f"http://{broker.admin}", "plain", RECORDS).batches()]
    assert len(batches) > 10
    assert max(batch.nbytes for batch in batches) < 200_000
    assert sum(batch.num_rows for batch in batches) == RECORDS




# Locations of data


def test_a_plan_tells_where_the_data_is_and_nobody_else_is_asked(broker: Broker) -> None:
    admin = Endpoint(f"http://{broker.admin}", "", 0)
    found = admin.plan("plain", "earliest", "latest", 1, "read_committed")
    assert found["url"] == f"http://{broker.export}"
    assert admin.topics() == Endpoint(found["url"], "", 0).topics() == ["plain", "transactional"]
    source = Source(Endpoint("http://127.0.0.1:1", "", 0), "read_committed", True, WANTED)
    split = Split("plain", 0, 0, RECORDS, found["topic_id"], found["url"])
    assert offsets(Fetching(source, split)) == list(range(RECORDS))


def test_a_redirect_is_followed_where_nothing_was_planned(broker: Broker) -> None:
    assert offsets(reading(f"http://{broker.admin}", "plain", 10)) == list(range(10))


@pytest.mark.parametrize(("url", "there", "is_safe"), [
    ("https://a", "http://a:1/x?ticket=secret", False), ("https://a", "https://b:1/x", True),
    ("http://a", "http://a:1/x", True), ("http://a", "https://a:1/x", True),
])  # fmt: skip
def test_nothing_leads_from_tls_to_none(url: str, there: str, is_safe: bool) -> None:
    if is_safe:
        check_safe(url, there)
        return
    with pytest.raises(Refused, match="has no TLS") as refused:
        check_safe(url, there)
    assert "secret" not in str(refused.value)
