"""A broker with small segments, and records of which bulk reads are told apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import Producer

from appliance.testing import RunningBroker

DEADLINE_S = 20.0
BEGIN_MS = 1_700_000_000_000
COUNT = 3000
SEGMENT_BYTES = 20_000


@pytest.fixture(scope="session")
def appliance_settings() -> Mapping[str, str]:
    return {"log.segment.bytes": str(SEGMENT_BYTES), "log.index.interval.bytes": "1000",
            "log.retention.check.interval.ms": "50", "log.retention.ms": "-1",
            "checkpoint.interval.ms": "50", "log.cleaner.backoff.ms": "50"}


def producer(broker: RunningBroker, **settings: Any) -> Producer:
    return Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0,
                     "batch.num.messages": 20, **settings})


def produce(broker: RunningBroker, count: int = COUNT, topic: str = "t", **settings: Any) -> None:
    made = producer(broker, **settings)
    for number in range(count):
        made.produce(topic, b"value %d" % number * 4, b"k%d" % number, partition=0,
                     timestamp=BEGIN_MS + number)
    assert made.flush(DEADLINE_S) == 0
