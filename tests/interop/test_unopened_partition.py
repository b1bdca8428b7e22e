"""Partitions that cannot be opened delay only their own clients: unmodified clients at a real
broker whose disk returns EIO for two directories, one of their topic and one of
`__consumer_offsets`."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import confluent_kafka as ck
import kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from appliance.topics.internal_topic import partition_of
from tests.support.failing_open import FailingOpens
from tests.support.rest import Rest
from tests.support.serving import Serving

# kafka-python's clients leave the sockets of brokers that died to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

DEADLINE_S = 30.0
OFFSETS = 2  # partitions of `__consumer_offsets`
GROUPS = {partition_of(name, OFFSETS): name for name in "abcdef"}  # one of each
AWAY = "__consumer_offsets-0"


class Box:
    """One data directory and its current broker."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.opens = FailingOpens(folder)
        self.start()

    def start(self) -> None:
        self.serving = Serving(
            self._folder, environment=self.opens.environment,
            **{"offsets.topic.num.partitions": OFFSETS},
        )  # fmt: skip
        self.address = "{}:{}".format(*self.serving.kafka)
        self.rest = Rest(self.serving.admin.removeprefix("http://"))

    def again(self, *names: str) -> None:
        """Kills the broker and starts it on a disk that cannot open these directories."""
        self.serving.stop(signal.SIGKILL)
        self.opens.set(*names)
        self.start()

    def producer(self) -> ck.Producer:
        return ck.Producer({"bootstrap.servers": self.address, "message.timeout.ms": 2000})

    def consumer(self, group: str) -> ck.Consumer:
        return ck.Consumer({
            "bootstrap.servers": self.address, "group.id": group, "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        })  # fmt: skip

    def health(self) -> tuple[int, list[str]]:
        answer = self.rest.raw("GET", "/healthz")
        return answer.status, answer.body["reasons"]


def told(producer: ck.Producer, value: str, partition: int) -> ck.KafkaError | None:
    """The result for one record."""
    found: list[ck.KafkaError | None] = []
    producer.produce("t", value, partition=partition, on_delivery=lambda e, _: found.append(e))
    producer.flush(DEADLINE_S)
    return found[0]


def values(consumer: ck.Consumer, partition: int, count: int) -> list[str]:
    consumer.assign([ck.TopicPartition("t", partition, 0)])
    end = time.monotonic() + DEADLINE_S
    found: list[str] = []
    while len(found) < count and time.monotonic() < end:
        for each in consumer.consume(count, 0.2):
            assert not each.error(), each.error()
            found.append(each.value().decode())
    return found


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    box = Box(tmp_path_factory.mktemp("unopened"))
    admin = AdminClient({"bootstrap.servers": box.address})
    admin.create_topics([NewTopic("t", 2, 1)])["t"].result()
    for partition in (0, 1):
        assert told(box.producer(), f"first {partition}", partition) is None
    for group in GROUPS.values():
        with closing(box.consumer(group)) as consumer:
            places = [ck.TopicPartition("t", each, 1) for each in (0, 1)]
            consumer.commit(offsets=places, asynchronous=False)
    box.again("t-1", AWAY)
    yield box
    box.serving.stop(signal.SIGKILL)


def test_metadata_says_which_partition_has_no_leader(box: Box) -> None:
    partitions = AdminClient({"bootstrap.servers": box.address}).list_topics("t").topics["t"]
    assert partitions.error is None
    found = {each.id: each for each in partitions.partitions.values()}
    assert (found[0].leader, found[0].error) == (1, None)
    assert found[1].leader == -1
    assert found[1].error.code() == ck.KafkaError.LEADER_NOT_AVAILABLE


def test_the_other_partition_is_written_and_read(box: Box) -> None:
    assert told(box.producer(), "second 0", 0) is None
    with closing(box.consumer("reader")) as consumer:
        assert values(consumer, 0, 2) == ["first 0", "second 0"]


def test_who_writes_to_the_one_that_is_away_is_told_to_try_again(box: Box) -> None:
    error = told(box.producer(), "never", 1)
    assert error is not None
    assert error.code() == ck.KafkaError._MSG_TIMED_OUT  # librdkafka tried until then


def test_who_asks_for_its_offsets_is_told_to_try_again(box: Box) -> None:
    with closing(box.consumer("looker")) as consumer:
        found = consumer.get_watermark_offsets(ck.TopicPartition("t", 0), DEADLINE_S)
        assert found[0] == 0
        with pytest.raises(ck.KafkaException) as refused:
            consumer.get_watermark_offsets(ck.TopicPartition("t", 1), 1.5)
    assert refused.value.args[0].code() in (
        ck.KafkaError._TIMED_OUT, ck.KafkaError._UNKNOWN_PARTITION  # it has no leader
    )  # fmt: skip


def test_an_assigned_reader_of_both_gets_what_is_served(box: Box) -> None:
    """kafka-python reads all partitions of a broker with one request."""
    reader = kafka.KafkaConsumer(
        bootstrap_servers=box.address, auto_offset_reset="earliest", enable_auto_commit=False
    )
    with closing(reader):
        reader.assign([kafka.TopicPartition("t", each) for each in (0, 1)])
        found: list[bytes] = []
        end = time.monotonic() + DEADLINE_S
        while not found and time.monotonic() < end:
            for records in reader.poll(200).values():
                found += [each.value for each in records]
    assert found[0] == b"first 0"


def test_groups_of_the_other_partition_of_the_offsets_commit_and_read_on(box: Box) -> None:
    with closing(box.consumer(GROUPS[1])) as consumer:
        (place,) = consumer.committed([ck.TopicPartition("t", 0)], DEADLINE_S)
        assert place.offset == 1
        consumer.commit(offsets=[ck.TopicPartition("t", 0, 2)], asynchronous=False)
        (place,) = consumer.committed([ck.TopicPartition("t", 0)], DEADLINE_S)
        assert place.offset == 2


def test_groups_of_the_one_that_is_away_have_neither_no_offset_nor_another(box: Box) -> None:
    with closing(box.consumer(GROUPS[0])) as consumer, pytest.raises(ck.KafkaException) as found:
        consumer.committed([ck.TopicPartition("t", 0)], 1.5)
    assert found.value.args[0].code() in (
        ck.KafkaError._TIMED_OUT, ck.KafkaError._WAIT_COORD, ck.KafkaError.COORDINATOR_NOT_AVAILABLE
    )  # fmt: skip


def test_health_names_what_is_not_served_and_no_more(box: Box) -> None:
    status, reasons = box.health()
    assert status == 503
    text = "\n".join(reasons)
    assert "t-1: the log cannot be opened" in text
    assert f"{AWAY}: the log cannot be opened" in text
    assert "no group is served" not in text
    assert "t-0" not in text


def test_the_list_of_topics_has_it_and_says_which_partition_is_away(box: Box) -> None:
    (row,) = (each for each in box.rest.ask("GET", "/topics").body["topics"] if each["name"] == "t")
    assert row["partitions"] == 2
    assert [*row["unserved"]] == ["1"]
    assert "EIO" in row["unserved"]["1"]


def test_all_is_served_again_once_it_can_be_opened(box: Box) -> None:
    box.opens.set()
    until(lambda: box.health()[0] == 200)
    assert told(box.producer(), "second 1", 1) is None
    with closing(box.consumer(GROUPS[0])) as consumer:
        assert values(consumer, 1, 2) == ["first 1", "second 1"]
        places = [ck.TopicPartition("t", each) for each in (0, 1)]
        assert [each.offset for each in consumer.committed(places, DEADLINE_S)] == [1, 1]
    assert box.health() == (200, [])
