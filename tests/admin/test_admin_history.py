"""The history over REST: what real clients did is in it, also after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from appliance.admin import history
from appliance.testing import RunningBroker, running_broker
from tests.support.logs import until
from tests.support.rest import Rest

DEADLINE_S = 30.0


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each measurement is one of topics, groups, and a write, too."""
    monkeypatch.setattr(history, "EVERY_S", 0.05)
    monkeypatch.setattr(history, "NAMES_EVERY", 1)


@pytest.fixture
def broker(often: None, tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "data") as running:
        yield running


def produce(broker: RunningBroker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for _ in range(20):
        producer.produce("orders", b"x" * 1000)
    assert producer.flush(DEADLINE_S) == 0


def largest(rest: Rest, path: str, series: str) -> float:
    answer: dict[str, Any] = rest.get(path, series=series)
    assert [*answer["series"]] == [series]
    return max(answer["series"][series]["max"], default=0.0)


def is_measured(rest: Rest, path: str, series: str) -> bool:
    return largest(rest, path, series) > 0


def test_what_clients_did_is_there_and_after_a_restart(often: None, tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as broker:
        rest = Rest(broker.admin)
        produce(broker)
        with_group(broker)
        wanted = [
            ("/history", "in_bytes_per_s"), ("/history", "produce_p99_ms"),
            ("/history", "commit_p50_ms"), ("/history", "logs_bytes"),
            ("/history", "memory_bytes"), ("/history", "processors"),
            ("/topics/orders/history", "size_bytes"),
        ]  # fmt: skip
        for path, series in wanted:
            until(partial(is_measured, rest, path, series), DEADLINE_S)
        # what is measured first may be a part of it
        size = partial(largest, rest, "/topics/orders/history", "size_bytes")
        until(lambda: size() > 20_000, DEADLINE_S)
    with running_broker(tmp_path / "data") as broker:
        assert largest(Rest(broker.admin), "/history", "in_bytes_per_s") > 0


def with_group(broker: RunningBroker) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "billing"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 5)], asynchronous=False)
    consumer.close()


def test_a_groups_lag_is_there(broker: RunningBroker) -> None:
    rest = Rest(broker.admin)
    produce(broker)
    with_group(broker)
    until(lambda: largest(rest, "/groups/billing/history", "lag_records") == 15, DEADLINE_S)
    until(lambda: largest(rest, "/history", "lag_records") == 15, DEADLINE_S)


@pytest.mark.parametrize(
    ("query", "told"),
    [({"series": "size_bytes"}, "series: got 'size_bytes', wanted some of in_bytes_per_s"),
     ({"from_s": 20, "to_s": 10}, "from_s is 20 and to_s 10: wanted the earlier one first"),
     ({"from_s": -1}, "from_s: got '-1', wanted a whole number"),
     ({"to_s": 10**20}, "to_s: got '100000000000000000000', wanted a whole number")],
)  # fmt: skip
def test_a_bad_question_is_refused(
    query: dict[str, Any], told: str, broker: RunningBroker
) -> None:
    answer = Rest(broker.admin).ask("GET", "/history", **query)
    assert answer.status == 400
    assert told in answer.body["error"]["message"]


def test_what_was_never_there_has_an_empty_history(broker: RunningBroker) -> None:
    found = Rest(broker.admin).get("/topics/nobody/history")
    assert (found["step_s"], found["kept_days"], found["left_out"]) == (60, 30, 0)
    assert found["series"]["size_bytes"] == {"at_s": [], "mean": [], "max": []}
