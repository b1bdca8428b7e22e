"""Streams: each record once into each batch, also when the driver is killed in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from appliance_spark.stream_read import may_bound_batches
from tests.support.spark_data import DEADLINE_S, Topics, bounded

KILLS = 2
ROOT = Path(__file__).parents[2]


def stream(topics: Topics, topic: str, **options: Any) -> DataFrame:
    reader = topics.spark.readStream.format("appliance").options(**topics.options, subscribe=topic)
    return reader.options(**{"startingOffsets": "earliest", **options}).load()


def run(rows: DataFrame, into: Path) -> list[int]:
    """Whatever is there now and was not taken before, into Parquet; rows of each batch."""
    writer = rows.writeStream.format("parquet").option("checkpointLocation", f"{into}-checkpoint")
    query = writer.trigger(availableNow=True).start(str(into))
    try:
        assert query.awaitTermination(DEADLINE_S), query.status
        return [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]]
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


def test_a_stream_begins_at_the_end_unless_told(topics: Topics, tmp_path: Path) -> None:
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


def test_a_driver_that_is_killed_loses_nothing(topics: Topics, tmp_path: Path) -> None:
    """Its rows may be written again: the batch that was on its way is done once more, whole."""
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
    assert batches[-1] == {"kill-in": {"0": end, "1": end // 2}}


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
