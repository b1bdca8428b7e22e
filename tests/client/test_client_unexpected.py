"""An error that nobody expected, on a thread of the client library: nobody waits for ever, each
record has its outcome, and what comes later works. The errors are planted where a mistake would
be."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.client.batch import Batch
from appliance.client.cluster import Cluster
from appliance.client.config import ClientConfig
from appliance.client.errors import LoginFailed
from appliance.client.fetcher import Fetcher
from appliance.client.outcome import HookFailed, Outcome, ProducerClosed, SendFailed
from appliance.client.producer import Producer
from appliance.client.sender import Sender
from appliance.client.zookeeper import Registry
from appliance.record import compression
from appliance.testing import RunningBroker, running_broker
from appliance.zookeeper.server import ZooKeeperServer
from tests.support.consumer_site import Site, take
from tests.support.producing import Heard, config, create
from tests.support.zookeeper import eventually

DEADLINE_S = 10.0
HOUR_MS = 3_600_000
PLACES: list[tuple[Any, str, int]] = [  # with the number of the call that fails
    (Cluster, "leader", 1),
    (Cluster, "connect", 1),
    (Batch, "on_the_wire", 2),
    (Sender, "_identify", 1),
    (Sender, "_next_of", 1),
    (Sender, "_take", 1),
    (Sender, "_take", 2),
    (compression, "compress", 2),
]


def plant(at: pytest.MonkeyPatch, where: Any, name: str, turn: int = 1) -> list[int]:
    """A mistake at that call, and at no other. Returns the calls so far."""
    real, calls = getattr(where, name), [0]

    def wrong(*args: Any, **given: Any) -> Any:
        calls[0] += 1
        if calls[0] == turn:
            raise KeyError("a mistake")
        return real(*args, **given)

    at.setattr(where, name, wrong)
    return calls


def ends(what: Callable[[], object]) -> None:
    thread = threading.Thread(target=what, daemon=True)
    thread.start()
    thread.join(DEADLINE_S)
    assert not thread.is_alive(), f"{what} waits"


def pairs(of: str, count: int = 40) -> list[tuple[bytes, bytes]]:
    """For all four partitions."""
    return [(b"k%d" % i, f"{of} {i}".encode()) for i in range(count)]


@pytest.fixture
def settings(appliance_broker: RunningBroker) -> Callable[..., Any]:
    create(appliance_broker, "t", 4)
    return lambda **more: config(appliance_broker, compression="gzip", **more)


@pytest.mark.parametrize(("where", "name", "turn"), PLACES)
def test_a_flush_ends_and_each_record_has_an_outcome(
    settings: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, where: Any, name: str, turn: int
) -> None:
    heard = Heard()
    with Producer(
        settings(producer_type="async", queue_time=HOUR_MS), callback_handler=heard
    ) as producer:
        calls = plant(monkeypatch, where, name, turn)
        producer.send("t", pairs("first"))
        ends(producer.flush)
        assert calls[0] >= turn, "the mistake was not made"
        told = Counter(value for each in heard.outcomes for value in each.records.values)
        assert told == Counter(dict.fromkeys((value for _, value in pairs("first")), 1))
        wrong = [each.error for each in heard.outcomes if each.error]
        assert wrong
        assert all(isinstance(each, HookFailed) and "a mistake" in str(each) for each in wrong)
        heard.outcomes.clear()
        producer.send("t", pairs("later"))
        ends(producer.flush)
        assert len(heard.values(acknowledged=True)) == 40


def test_a_synchronous_send_raises_with_all_outcomes(
    settings: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Producer(settings()) as producer:
        plant(monkeypatch, Sender, "_take", 2)
        with pytest.raises(SendFailed, match="a mistake") as caught:
            producer.send("t", pairs("first"))
        assert sum(len(each.records) for each in caught.value.outcomes) == 40
        assert any(each.may_be_written for each in caught.value.outcomes)
        assert sum(len(each.records) for each in producer.send("t", pairs("later"))) == 40


class Leaving(Heard):
    def after_send(self, outcome: Outcome) -> None:
        raise SystemExit


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_hook_that_ends_the_thread_leaves_nobody_waiting(settings: Callable[..., Any]) -> None:
    given = settings(producer_type="async", queue_time=HOUR_MS, queue_size=50)
    producer = Producer(given, callback_handler=Leaving())
    producer.send("t", pairs("first"))
    with pytest.raises(ProducerClosed):
        producer.flush()
    with pytest.raises(ProducerClosed):
        producer.send("t", pairs("later"))
    ends(producer.close)


# Consumers


def test_a_commit_that_fails_unexpectedly_does_not_end_the_rebalances(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    with site.consumer(autocommit_interval_ms=50, autooffset_reset="smallest") as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        calls = plant(monkeypatch, connector.storage, "commit")
        site.produce("t", 0, *range(3))
        assert take(stream, 3) == [0, 1, 2]
        eventually(lambda: calls[0] >= 2)
        eventually(lambda: site.node("offsets/t/1-0") == "2")
        rounds = connector.rounds
        site.create("u", 1)  # the rebalance goes on
        eventually(lambda: connector.rounds > rounds)


def test_streams_end_also_when_a_shutdown_fails(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    connector = site.consumer()
    (stream,) = connector.create_message_streams({"t": 1})["t"]
    plant(monkeypatch, connector.nodes, "deregister")
    reader = threading.Thread(target=lambda: list(stream), daemon=True)
    reader.start()
    with pytest.raises(KeyError, match="a mistake"):
        connector.shutdown()
    reader.join(DEADLINE_S)
    assert not reader.is_alive()
    assert not any(each.is_alive for each in connector._fetchers.values())


@pytest.mark.parametrize("error", [LoginFailed("refused"), KeyError("a mistake")])
def test_a_fetcher_outlives_any_error_of_the_look_for_leaders(
    site: Site, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(*_: object) -> None:
        raise error

    with site.consumer() as connector:
        connector.create_message_streams({"t": 1})
        eventually(lambda: 1 in connector._fetchers)
        fetcher: Fetcher = connector._fetchers[1]
        moved: list[str] = []
        monkeypatch.setattr(fetcher, "_on_moved", lambda: moved.append("told"))
        monkeypatch.setattr(connector.cluster, "refresh", fails)
        fetcher._ask_who_leads({"t"})
        assert moved == ["told"]  # so the connector looks for the leaders itself


def test_a_mistake_in_reading_zookeeper_is_read_again(
    server: ZooKeeperServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"{server.address}/read-again"
    settings = {"zookeeper.format": "original", "zookeeper.connect": place}
    with (
        running_broker(tmp_path, settings) as broker,
        Cluster(ClientConfig(zk_connect=place)) as cluster,
    ):
        calls = plant(monkeypatch, Registry, "_look_again_at_topics")
        create(broker, "a", 1)
        eventually(lambda: calls[0] >= 2)
        create(broker, "b", 1)
        eventually(lambda: cluster.topics() == ["a", "b"])
