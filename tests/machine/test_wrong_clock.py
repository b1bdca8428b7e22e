"""A broker that is killed and starts again on a machine whose clock is wrong: nothing is deleted,
nobody is refused, and it says so."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.rest import Rest
from tests.support.serving import DEADLINE_S, Serving
from tests.support.shifted_clock import ShiftedClock

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
WEEK, BY_SIZE, GROUP = "week", "by-size", "readers"
SEGMENT_BYTES = 1 << 20  # the smallest there is
RECORDS = 40
VALUE = bytes(100_000)

OFTEN = {
    "log.retention.check.interval.ms": 100,
    "offsets.retention.check.interval.ms": 100,
    "offsets.retention.minutes": 7 * 24 * 60,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 100,
}


class Box:
    """A machine that loses power, and what clients see of its broker."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.clock = ShiftedClock(folder)
        self._folder = folder
        self.serving = self._started()

    def _started(self) -> Serving:
        return Serving(self._folder, environment=self.clock.environment, **OFTEN)

    def kill(self) -> None:
        self.serving.stop(signal.SIGKILL)

    def start(self, shift_ms: int, *, is_kept_right: bool = False) -> None:
        self.clock.set(shift_ms, is_kept_right=is_kept_right)
        self.serving = self._started()

    @property
    def servers(self) -> str:
        return "{}:{}".format(*self.serving.kafka)

    @property
    def rest(self) -> Rest:
        return Rest(self.serving.admin)

    def make(self, topic: str, **configs: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.servers})
        for made in admin.create_topics([NewTopic(topic, 1, config=configs)]).values():
            made.result(DEADLINE_S)

    def produce(self, topic: str, count: int = RECORDS, **settings: Any) -> list[KafkaError]:
        """With the timestamps of a client whose clock is right; what was refused."""
        refused: list[KafkaError] = []
        producer = Producer({"bootstrap.servers": self.servers, **settings})
        for _ in range(count):
            producer.produce(
                topic, VALUE, on_delivery=lambda error, _: error and refused.append(error)
            )
        assert producer.flush(DEADLINE_S) == 0
        return refused

    def consumer(self) -> Consumer:
        return Consumer({
            "bootstrap.servers": self.servers, "group.id": GROUP, "enable.auto.commit": False,
        })  # fmt: skip

    def commit(self) -> None:
        consumer = self.consumer()
        (told,) = consumer.commit(offsets=[TopicPartition(WEEK, 0, 7)], asynchronous=False)
        consumer.close()
        assert told.error is None

    @property
    def committed(self) -> int:
        consumer = self.consumer()
        (found,) = consumer.committed([TopicPartition(WEEK, 0)], DEADLINE_S)
        consumer.close()
        assert found.error is None
        return int(found.offset)

    def span(self, topic: str) -> tuple[int, int]:
        consumer = self.consumer()
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), DEADLINE_S)
        consumer.close()
        return low, high

    def wait(self, what: Callable[[], bool]) -> None:
        end = time.monotonic() + DEADLINE_S
        while not what():
            assert time.monotonic() < end, self.serving.log[-3000:]
            time.sleep(0.02)

    def wait_for_retention(self) -> None:
        """A topic that is bounded by size is shortened whatever the time is. The second round that
        does so began after the first was through with all topics."""
        for _ in range(2):
            high = self.span(BY_SIZE)[1]
            self.produce(BY_SIZE)
            self.wait(lambda least=high: self.span(BY_SIZE)[0] > least)


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    box = Box(tmp_path / "box")
    box.make(WEEK, **{"retention.ms": str(7 * DAY_MS), "segment.bytes": str(SEGMENT_BYTES)})
    box.make(BY_SIZE, **{"retention.bytes": "1", "segment.bytes": str(SEGMENT_BYTES)})
    assert box.produce(WEEK) == []
    box.commit()
    box.kill()
    yield box
    box.serving.stop(signal.SIGKILL)


SHIFTS = {
    "an hour ahead": HOUR_MS,
    "8 days ahead": 8 * DAY_MS,
    "10 years ahead": 3650 * DAY_MS,
    "an hour back": -HOUR_MS,
    "10 years back": -3650 * DAY_MS,
}
IN_THE_GATE = {"8 days ahead", "10 years back"}
OTHERS = pytest.mark.release("the gate has one ahead and one back")


@pytest.mark.parametrize(
    "shift", [each if name in IN_THE_GATE else pytest.param(each, marks=OTHERS)
              for name, each in SHIFTS.items()], ids=SHIFTS)  # fmt: skip
def test_a_start_with_a_wrong_clock_deletes_nothing_and_refuses_nobody(
    box: Box, shift: int
) -> None:
    box.start(shift)
    box.wait_for_retention()
    assert box.span(WEEK) == (0, RECORDS)
    assert box.committed == 7
    assert box.produce(WEEK, 1) == []
    found = box.rest.get("/clock")
    assert found["doubt"] == ("ahead" if shift > 0 else "behind")
    assert abs(found["wall_ms"] - found["believed_ms"] - shift) < 60_000
    # nor does the next start forget what was believed
    box.kill()
    box.start(shift)
    box.wait_for_retention()
    assert box.span(WEEK) == (0, RECORDS + 1)


def test_a_person_confirms_and_time_goes_on(box: Box) -> None:
    box.start(8 * DAY_MS)
    box.wait_for_retention()
    assert box.span(WEEK) == (0, RECORDS)
    assert box.rest.post("/clock/confirm", {})["doubt"] is None
    box.wait(lambda: box.span(WEEK)[0] > 0)
    assert box.rest.get("/audit")["entries"][0]["action"].endswith("/clock/confirm")
    # what was confirmed is what the next start believes
    box.kill()
    box.start(8 * DAY_MS)
    assert box.rest.get("/clock")["doubt"] is None


def test_a_clock_that_is_put_right_ends_the_doubt(box: Box) -> None:
    box.start(-3650 * DAY_MS)
    assert box.rest.get("/clock")["doubt"] == "behind"
    box.clock.set(0)
    assert box.rest.get("/clock")["doubt"] is None
