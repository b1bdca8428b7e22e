"""Streams: each record once in the batches, even if the driver is killed between two of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from appliance_spark.options import Given
from appliance_spark.planning import DataLost
from appliance_spark.stream_read import StreamReader, may_bound_batches
from tests.support.release import gate_has
from tests.support.spark_data import DEADLINE_S, Topics, bounded

pytestmark = pytest.mark.first

KILLS = int(os.environ.get("STREAM_KILLS", "1"))
ROOT = Path(__file__).parents[2]


def stream(topics: Topics, topic: str, **options: Any) -> DataFrame:
    reader = topics.spark.readStream.format("appliance").options(**topics.options, subscribe=topic)
    return reader.options(**{"startingOffsets": "earliest", **options}).load()


def run(rows: DataFrame, into: Path) -> list[int]:
    """Writes all unread records to Parquet; returns the rows of each batch."""
    writer = rows.writeStream.format("parquet").option("checkpointLocation", f"{into}-checkpoint")
    query = writer.trigger(availableNow=True).start(str(into))
    try:
        assert query.awaitTermination(DEADLINE_S), query.status
        return [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]]
    finally:
        query.stop()


def behind(rows: DataFrame, into: Path) -> list[tuple[float, ...]]:
    """The least, the most and the mean lag of each batch, as its progress has it."""
    names = [f"{each}OffsetsBehindLatest" for each in ("min", "max", "avg")]
    writer = rows.writeStream.format("noop").option("checkpointLocation", f"{into}-checkpoint")
    query = writer.trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(DEADLINE_S), query.status
        found = [each["sources"][0] for each in query.recentProgress if each["numInputRows"]]
        assert {each["description"] for each in found} == {"appliance"}
        return [tuple(float(each["metrics"][name]) for name in names) for each in found]
    finally:
        query.stop()


def values(topics: Topics, into: Path) -> Counter[bytes]:
    rows = topics.spark.read.parquet(str(into)).select("value").collect()
    return Counter(bytes(each.value) for each in rows)


def numbers(first: int, end: int) -> list[bytes | None]:
    return [b"%d" % each for each in range(first, end)]


def test_a_stream_goes_on_where_it_was(topics: Topics, tmp_path: Path) -> None:
    topic = topics.create("goes-on", 2)
    topics.send(topic, numbers(0, 600), 0)
    topics.send(topic, numbers(600, 900), 1)
    rows = stream(topics, topic, **bounded(300))
    assert run(rows, tmp_path / "out") == ([300, 300, 300] if may_bound_batches() else [900])
    assert run(rows, tmp_path / "out") == []
    topics.send(topic, numbers(900, 950), 1)
    assert run(rows, tmp_path / "out") == [50]
    assert values(topics, tmp_path / "out") == Counter(dict.fromkeys(numbers(0, 950), 1))


def test_progress_has_the_lag_as_the_kafka_connector_has_it(
    topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create("lags", 2)
    topics.send(topic, numbers(0, 100), 0)
    topics.send(topic, numbers(0, 20), 1)
    found = behind(stream(topics, topic, **bounded(60)), tmp_path / "out")
    assert found == ([(10, 50, 30), (0, 0, 0)] if may_bound_batches() else [(0, 0, 0)])


def test_a_stream_begins_at_the_end_by_default(topics: Topics, tmp_path: Path) -> None:
    topic = topics.create("at-the-end")
    topics.send(topic, numbers(0, 10))
    rows = stream(topics, topic, startingOffsets="latest")
    assert run(rows, tmp_path / "out") == []
    topics.send(topic, numbers(10, 15))
    assert run(rows, tmp_path / "out") == [5]


def test_partitions_that_come_later_are_read_from_their_first_record(
    topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create("grows")
    topics.send(topic, numbers(0, 10))
    assert run(stream(topics, topic), tmp_path / "out") == [10]
    from confluent_kafka.admin import AdminClient, NewPartitions

    admin = AdminClient({"bootstrap.servers": topics.broker.kafka})
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(DEADLINE_S)
    topics.send(topic, numbers(10, 30), 1)
    assert run(stream(topics, topic), tmp_path / "out") == [20]


def test_what_retention_took_from_a_stream_is_said(topics: Topics, tmp_path: Path) -> None:
    topic = topics.create("stream-lost")
    topics.send(topic, numbers(0, 10))
    run(stream(topics, topic), tmp_path / "out")
    topics.send(topic, numbers(10, 50))
    topics.delete_before(topic, 30)
    with pytest.raises(Exception, match="stream-lost-0: 20 offsets from 10 on were deleted"):
        run(stream(topics, topic), tmp_path / "out")
    assert run(stream(topics, topic, failOnDataLoss=False), tmp_path / "out") == [20]


def test_a_run_with_an_end_does_not_wait_for_enough(topics: Topics, tmp_path: Path) -> None:
    topic = topics.create("enough")
    topics.send(topic, numbers(0, 10))
    rows = stream(topics, topic, minOffsetsPerTrigger=1000)
    if may_bound_batches():
        assert run(rows, tmp_path / "out") == [10]
    else:
        with pytest.raises(Exception, match="minOffsetsPerTrigger: needs PySpark"):
            run(rows, tmp_path / "out")


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)  # each check reads a topic while a JVM starts


def test_a_driver_that_is_killed_loses_nothing(topics: Topics, tmp_path: Path) -> None:
    """Spark repeats the interrupted batch as a whole, so its rows may be written again."""
    for name in ("kill-in", "kill-out"):
        topics.create(name, 2)
    target = "kill-out"
    end = 0
    for _ in range(KILLS):
        topics.send("kill-in", numbers(end, end + 2000), 0)
        topics.send("kill-in", numbers(end, end + 1000), 1)
        end += 2000
        before = sum(topics.log_of(target).values())
        with copying(topics, tmp_path) as driver:
            wait_for(lambda: sum(topics.log_of(target).values()) > before)  # noqa: B023
            os.killpg(driver.pid, signal.SIGKILL)
    wanted = {(b"%d:%d" % (place[0], place[1]), place[4]) for place in topics.log_of("kill-in")}
    with copying(topics, tmp_path):
        wait_for(lambda: copied(topics, target) >= wanted)
    assert copied(topics, target) == wanted
    batches = [json.loads(path.read_text().splitlines()[-1])
               for path in sorted((tmp_path / "offsets").glob("[0-9]*"), key=by_number)]
    assert batches[-1] == {
        "kill-in": {"0": end, "1": end // 2, "id": topics.topic_id("kill-in")}}


def by_number(path: Path) -> int:
    return int(path.name)


def copied(topics: Topics, target: str) -> set[tuple[bytes | None, bytes | None]]:
    return {(place[3], place[4]) for place in topics.log_of(target)}


class copying:
    def __init__(self, topics: Topics, checkpoint: Path) -> None:
        self.arguments = [topics.options["url"], "kill-in", "kill-out", str(checkpoint)]

    def __enter__(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.support.spark_copy", *self.arguments]
        self.driver = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        return self.driver

    def __exit__(self, *_: object) -> None:
        if self.driver.poll() is None:
            os.killpg(self.driver.pid, signal.SIGKILL)
        self.driver.wait(DEADLINE_S)
        assert self.driver.stdin
        self.driver.stdin.close()


# Topics that are created again

def made_anew(topics: Topics, topic: str, records: int, partitions: int = 1) -> tuple[str, str]:
    """The old and the new id of the topic."""
    was = topics.topic_id(topic)
    topics.delete(topic)
    topics.create(topic, partitions)
    topics.send(topic, numbers(1000, 1000 + records))
    return was, topics.topic_id(topic)


@pytest.mark.parametrize(
    ("is_strict", "records"),
    gate_has([(True, 10), (False, 60)], "more of both", product((True, False), (5, 10, 60))),
)
def test_a_topic_created_again_is_refused_with_both_ids(
    topics: Topics, tmp_path: Path, records: int, is_strict: bool
) -> None:
    """With fewer, as many, or more records than were read; only the id differs in the last case."""
    topic = topics.create(f"anew-{records}-{is_strict}")
    topics.send(topic, numbers(0, 10))
    into = tmp_path / "out"
    assert run(stream(topics, topic), into) == [10]
    was, now = made_anew(topics, topic, records)
    for _ in range(2):  # Spark has planned the batch, and requests it again
        with pytest.raises(Exception, match=f"has read the one with id {was}.* has id {now} now"):
            run(stream(topics, topic, failOnDataLoss=is_strict), into)
    assert values(topics, into) == Counter(numbers(0, 10))
    rows = stream(topics, topic, topicMadeAnew="readFromStart", **bounded(20))
    assert sum(run(rows, into)) == records
    assert run(rows, into) == []
    wanted = Counter([*numbers(0, 10), *numbers(1000, 1000 + records)])
    assert values(topics, into) == wanted


def test_a_batch_that_was_planned_of_a_topic_that_is_gone_is_refused_too(
    topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create("planned")
    into = tmp_path / "out"
    for batch in range(2):
        topics.send(topic, numbers(batch * 5, batch * 5 + 5))
        assert run(stream(topics, topic), into) == [5]
    for path in (f"{into}-checkpoint/commits", f"{into}/_spark_metadata"):
        (Path(path) / "1").unlink()  # as a driver that died before leaves it
        (Path(path) / ".1.crc").unlink(missing_ok=True)
    was, now = made_anew(topics, topic, 30)
    with pytest.raises(Exception, match=f"topic planned has id {now}, got {was}.*new checkpoint"):
        run(stream(topics, topic), into)
    rows = stream(topics, topic, topicMadeAnew="readFromStart")
    assert run(rows, into) == [30]
    assert values(topics, into) == Counter([*numbers(0, 5), *numbers(1000, 1030)])


def test_a_topic_created_again_with_fewer_partitions_is_refused_and_can_be_accepted(
    topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create("narrower", 3)
    for number in range(3):
        topics.send(topic, numbers(number * 10, number * 10 + 10), number)
    into = tmp_path / "out"
    assert run(stream(topics, topic), into) == [30]
    was, now = made_anew(topics, topic, 40)
    with pytest.raises(Exception, match=f"{was}.* has id {now} now.*'2': 10"):
        run(stream(topics, topic), into)
    assert run(stream(topics, topic, topicMadeAnew="readFromStart"), into) == [40]


def test_a_topic_created_again_between_two_batches_stops_the_running_stream(
    topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create("running")
    topics.send(topic, numbers(0, 10))
    into = tmp_path / "out"
    writer = stream(topics, topic).writeStream.format("parquet")
    query = writer.option("checkpointLocation", f"{into}-checkpoint").start(str(into))
    try:
        query.processAllAvailable()
        was, now = made_anew(topics, topic, 50)
        # it may run between deletion and creation
        with pytest.raises(Exception, match=f"{was}.* has id {now} now|there is no topic"):
            query.awaitTermination(DEADLINE_S)
    finally:
        query.stop()
    with pytest.raises(Exception, match=f"{was}.* has id {now} now"):
        run(stream(topics, topic), into)
    assert values(topics, into) == Counter(numbers(0, 10))


def offsets_in(into: Path, number: int) -> Path:
    return Path(f"{into}-checkpoint/offsets/{number}")


def without_ids(into: Path) -> None:
    """A checkpoint as an older version wrote it."""
    for path in Path(f"{into}-checkpoint/offsets").glob("[0-9]*"):
        *head, text = path.read_text().splitlines()
        plain = {topic: {n: at for n, at in of.items() if n != "id"}
                 for topic, of in json.loads(text).items()}
        path.write_text("\n".join([*head, json.dumps(plain)]))
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def test_a_checkpoint_without_ids_goes_on_and_has_them_from_then_on(
    topics: Topics, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic = topics.create("older")
    topics.send(topic, numbers(0, 10))
    into = tmp_path / "out"
    assert run(stream(topics, topic), into) == [10]
    without_ids(into)
    topics.send(topic, numbers(10, 30))
    assert run(stream(topics, topic), into) == [20]
    topic_id = topics.topic_id(topic)
    assert json.loads(offsets_in(into, 1).read_text().splitlines()[-1]) == {
        topic: {"0": 30, "id": topic_id}}
    reader = StreamReader(Given({**topics.options, "subscribe": topic}), StructType([]))
    assert reader.partitions({topic: {"0": 30}}, reader.reach()) == []
    assert f"from this batch on it is the one with id {topic_id}" in caplog.text
    was, now = made_anew(topics, topic, 50)
    with pytest.raises(Exception, match=f"{was}.* has id {now} now"):
        run(stream(topics, topic), into)
    assert values(topics, into) == Counter(numbers(0, 30))


def test_a_log_that_ends_before_the_checkpoint_is_refused(topics: Topics, tmp_path: Path) -> None:
    """The topic has the same id: an older data directory was restored, or the log was cut."""
    topic = topics.create("cut")
    topics.send(topic, numbers(0, 10))
    into = tmp_path / "out"
    assert run(stream(topics, topic), into) == [10]
    path = offsets_in(into, 0)
    path.write_text(path.read_text().replace('"0": 10', '"0": 500').replace('"0":10', '"0":500'))
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    with pytest.raises(Exception, match="cut-0: was read to offset 500, and now ends at 10"):
        run(stream(topics, topic), into)
    run(stream(topics, topic, failOnDataLoss=False), into)
    topics.send(topic, numbers(10, 15))
    assert run(stream(topics, topic, failOnDataLoss=False), into) == [5]


def test_a_batch_read_with_offsets_that_were_kept_reads_no_other_topic(topics: Topics) -> None:
    topic = topics.create("kept-offsets")
    topics.send(topic, numbers(0, 10))
    kept = json.dumps({topic: {"0": 10, "id": topics.topic_id(topic)}})
    assert topics.read(topic, endingOffsets=kept).count() == 10
    was, now = made_anew(topics, topic, 60)
    for bound in ("startingOffsets", "endingOffsets"):
        with pytest.raises(Exception, match=f"option {bound}: .* {was}; .* has id {now} now"):
            topics.read(topic, **{bound: kept}).count()


def test_a_stream_that_cannot_begin_at_the_offset_it_was_given_says_so(topics: Topics) -> None:
    topic = topics.create("begins-behind")
    topics.send(topic, numbers(0, 10))
    given = {**topics.options, "subscribe": topic,
             "startingOffsets": json.dumps({topic: {"0": 11}})}
    with pytest.raises(DataLost, match="startingOffsets: got offset 11 of begins-behind-0, which"):
        StreamReader(Given(given), StructType([])).initialOffset()
    reader = StreamReader(Given({**given, "failOnDataLoss": "false"}), StructType([]))
    assert reader.initialOffset()[topic]["0"] == 10


def test_a_batch_read_that_cannot_reach_the_offset_it_was_given_says_so(topics: Topics) -> None:
    topic = topics.create("short-of-it")
    topics.send(topic, numbers(0, 10))
    for bound in ("startingOffsets", "endingOffsets"):
        given = {bound: json.dumps({topic: {"0": 11}})}
        with pytest.raises(Exception, match=f"{bound}: got offset 11 of short-of-it-0, which can"):
            topics.read(topic, **given).count()
        topics.read(topic, failOnDataLoss=False, **given).count()
