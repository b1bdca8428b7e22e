"""The mirror between two brokers in this process, and what they hold."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from appliance.mirror.config import MirrorConfig
from appliance.mirror.mirror import Mirror
from appliance.mirror.site import COMMITTED, EARLIEST, LATEST, Site, TopicPartition
from appliance.testing import RunningBroker
from tests.support.mirror_load import committed

T0 = TopicPartition("t", 0)
BOTH = pytest.mark.parametrize("offsets", ["keep", "map"])


def admin(broker: RunningBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def make(broker: RunningBroker, topic: str, partitions: int = 1, **configs: str) -> None:
    dotted = {name.replace("_", "."): value for name, value in configs.items()}
    asked = admin(broker)
    asked.create_topics([NewTopic(topic, partitions, config=dotted)])[topic].result(20)


def produce(broker: RunningBroker, *values: str, topic: str = "t", partition: int = 0,
            **facts: Any) -> None:
    dotted = {name.replace("_", "."): value for name, value in facts.items()}
    producer = ck.Producer({"bootstrap.servers": broker.bootstrap, **dotted})
    for each in values:
        producer.produce(topic, each, key=each[:1], partition=partition)
    assert producer.flush(20) == 0


def aborted(broker: RunningBroker, *values: str) -> None:
    producer = ck.Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "x"})
    producer.init_transactions()
    producer.begin_transaction()
    for each in values:
        producer.produce("t", each, partition=0)
    producer.flush(20)
    producer.abort_transaction()


def delete_before(broker: RunningBroker, offset: int) -> None:
    asked = admin(broker)
    place = ck.TopicPartition("t", 0, offset)
    asked.delete_records([place])[place].result(20)


def config(source: RunningBroker, target: RunningBroker | str, **settings: Any) -> MirrorConfig:
    where = target if isinstance(target, str) else target.bootstrap
    quick = {"topics": "t|u", "commit_interval_ms": 50, "refresh_interval_ms": 100,
             "retry_backoff_ms": 20, "retry_backoff_max_ms": 200, "fetch_max_wait_ms": 50}
    return MirrorConfig(source=source.bootstrap, target=where, **{**quick, **settings})


def once(source: RunningBroker, target: RunningBroker, **settings: Any) -> Mirror:
    made = Mirror(config(source, target, **settings))
    made.run(once=True)
    return made


@contextmanager
def running(settings: MirrorConfig) -> Iterator[Mirror]:
    mirror = Mirror(settings)
    thread = threading.Thread(target=mirror.run)
    thread.start()
    try:
        yield mirror
    finally:
        mirror.stop()
        thread.join(20)
        assert not thread.is_alive()


def until(condition: Callable[[], Any], what: str) -> Any:
    """Its first true value."""
    end = time.monotonic() + 20
    while not (value := condition()):
        assert time.monotonic() < end, what
        time.sleep(0.01)
    return value


@contextmanager
def site(broker: RunningBroker) -> Iterator[Site]:
    with closing(Site(config(broker, broker).source_client)) as made:
        made.refresh()
        yield made


def read(broker: RunningBroker, place: TopicPartition = T0) -> list[tuple[int, str]]:
    with site(broker) as found:
        return [(each.offset, each.value.decode()) for each in committed(found, place)]


def bounds(broker: RunningBroker) -> tuple[int, int]:
    with site(broker) as found:
        return found.offsets([T0], EARLIEST)[T0], found.offsets([T0], LATEST, COMMITTED)[T0]


def mirror_topics(broker: RunningBroker) -> dict[str, Any]:
    return dict(admin(broker).list_topics(timeout=10).topics)


def read_values(broker: RunningBroker, place: TopicPartition) -> list[str]:
    partitions = mirror_topics(broker)[place.topic].partitions
    return [value for _, value in read(broker, place)] if place.partition in partitions else []
