"""Batch reads: Spark reads the same records as a consumer, with every selection by options."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pytest
from pyspark.sql import DataFrame, SparkSession

from appliance_spark import register, registration, why
from tests.support.mirror_load import CODECS
from tests.support.release import gate_has
from tests.support.spark_data import DEADLINE_S, Topics, rows_of

T0 = 1_700_000_000_000  # ms
OFFERS_FILTERS = find_spec("pyspark.sql.worker.data_source_pushdown_filters") is not None
EXCLUDED = "spark.sql.optimizer.excludedRules"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def offsets(frame: DataFrame) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for row in frame.select("partition", "offset").collect():
        found.setdefault(row.partition, []).append(row.offset)
    return {number: sorted(of) for number, of in sorted(found.items())}


@pytest.fixture(scope="module")
def clicks(topics: Topics) -> str:
    """Three partitions of 100 records, a second between two records."""
    topic = topics.create("clicks", 3, retention_ms="-1")  # the timestamps are old
    for partition in range(3):
        for index in range(100):
            topics.send_later(topic, partition, T0 + index * 1000, b"%d" % index)
    topics.flush()
    return topic


def test_all_columns_are_those_of_a_consumer(topics: Topics) -> None:
    topic = topics.create("columns", 2)
    topics.send(topic, [b"v", b"", None], 0, key=b"k", headers=[("a", b"x"), ("a", None)])
    topics.send(topic, [b"w"], 1)
    frame = topics.read(topic, includeHeaders=True)
    assert rows_of(frame) == topics.log_of(topic)
    row = frame.where("partition = 1").collect()[0]
    assert (row.topic, row.timestampType, row.key, row.headers) == (topic, 0, None, None)
    assert topics.read(topic).columns == [name for name in frame.columns if name != "headers"]


@pytest.mark.parametrize(
    "codec", gate_has(["none", "zstd"], "record/test_compression.py has every codec", CODECS)
)
def test_every_codec_is_read(topics: Topics, codec: str) -> None:
    topic = topics.create(f"codec-{codec}", 2)
    for partition in range(2):
        values: list[bytes | None] = [b"%d of %d " % (n, partition) * 30 for n in range(3000)]
        topics.send(topic, values, partition, codec)
    assert rows_of(topics.read(topic)) == topics.log_of(topic)


def test_log_time_is_reported(topics: Topics) -> None:
    topic = topics.create("log-time", message_timestamp_type="LogAppendTime")
    topics.send(topic, [b"v"], timestamp=5)
    frame = topics.read(topic)
    assert rows_of(frame) == topics.log_of(topic)
    assert frame.collect()[0].timestampType == 1


def test_transactions_that_were_aborted_are_not_read(topics: Topics) -> None:
    topic = topics.create("transactions")
    producer = ck.Producer(
        {"bootstrap.servers": topics.broker.kafka, "transactional.id": "to spark", "log_level": 0}
    )
    producer.init_transactions(DEADLINE_S)
    for index in range(6):
        topics.send(topic, [b"plain"])
        producer.begin_transaction()
        for _ in range(10):
            producer.produce(topic, b"%d" % index)
        assert producer.flush(DEADLINE_S) == 0  # otherwise aborted records are never sent
        end = producer.abort_transaction if index % 2 else producer.commit_transaction
        end(DEADLINE_S)
    rows = rows_of(topics.read(topic, minPartitions=4))
    assert rows == topics.log_of(topic)
    assert len(rows) == 36
    dirty = topics.read(topic, **{"kafka.isolation.level": "read_uncommitted"})
    assert dirty.count() == 66


def test_holes_of_compaction_are_passed(topics: Topics) -> None:
    topic = topics.create("compacted", cleanup_policy="compact", segment_bytes="16384")
    deadline = time.monotonic() + DEADLINE_S
    rounds = 0
    while not rounds or len(topics.log_of(topic)) >= rounds * 200:
        assert time.monotonic() < deadline
        for index in range(200):
            topics.send_later(topic, 0, T0 + index, b"%d" % rounds, key=b"%d" % (index % 50))
        topics.flush()
        rounds += 1
    assert set(rows_of(topics.read(topic, splitBytes=4000))) >= set(topics.log_of(topic))


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, (0, 100)),
        ({"startingOffsets": "latest"}, (100, 100)),
        ({"startingOffsets": '{"clicks": {"0": 7, "1": 7, "2": 7}}'}, (7, 100)),
        ({"startingOffsets": '{"clicks": {"0": -2, "1": -2, "2": -2}}',
          "endingOffsets": '{"clicks": {"0": 9, "1": 9, "2": 9}}'}, (0, 9)),
        ({"startingOffsets": '{"clicks": {"0": 5, "1": 5, "2": 5}}',
          "endingOffsets": '{"clicks": {"0": -1, "1": -1, "2": -1}}'}, (5, 100)),
        ({"startingTimestamp": T0 + 4500, "startingOffsets": "latest"}, (5, 100)),
        ({"endingTimestamp": T0 + 4500}, (0, 5)),
        ({"startingOffsetsByTimestamp": json.dumps({"clicks": dict.fromkeys("012", T0 + 98000)}),
          "endingOffsetsByTimestamp": json.dumps({"clicks": dict.fromkeys("012", T0 + 99000)})},
         (98, 99)),
        ({"startingTimestamp": T0 + 10**9, "startingOffsetsByTimestampStrategy": "latest"},
         (100, 100)),
        ({"minPartitions": 20}, (0, 100)),
        ({"splitBytes": 500}, (0, 100)),
        ({"kafka.bootstrap.servers": "nobody:1", "groupIdPrefix": "x"}, (0, 100)),
    ],
    ids=lambda each: ",".join(each) or "all" if isinstance(each, dict) else None,
)  # fmt: skip
def test_options_choose_offsets(
    topics: Topics, clicks: str, options: dict[str, Any], wanted: tuple[int, int]
) -> None:
    expected = {number: list(range(*wanted)) for number in range(3) if wanted[0] < wanted[1]}
    assert offsets(topics.read(clicks, **options)) == expected


def test_partitions_are_assigned(topics: Topics, clicks: str) -> None:
    assert set(offsets(topics.reader(assign='{"clicks": [0, 2]}'))) == {0, 2}
    both = {"startingOffsets": '{"clicks": {"1": 98}}', "endingOffsets": '{"clicks": {"1": 100}}'}
    assert offsets(topics.read(clicks, **both)) == {1: [98, 99]}


def test_topics_match_a_pattern(topics: Topics, clicks: str) -> None:
    for name in ("pattern-a", "pattern-b", "not-pattern-a"):
        topics.send(topics.create(name), [name.encode()])
    found = topics.reader(subscribePattern="pattern-[a-z]").select("topic").collect()
    assert Counter(row.topic for row in found) == {"pattern-a": 1, "pattern-b": 1}
    two = topics.read("pattern-a, pattern-b").select("topic").collect()
    assert Counter(row.topic for row in two) == {"pattern-a": 1, "pattern-b": 1}
    assert topics.reader(subscribePattern="nobody.*").count() == 0


def test_more_tasks_than_partitions_read_each_record_once(topics: Topics) -> None:
    topic = topics.create("splits", 2)
    topics.send(topic, [bytes(200) for _ in range(20_000)])
    frame = topics.read(topic, minPartitions=6)
    assert frame.rdd.getNumPartitions() >= 4
    assert offsets(frame) == {0: list(range(20_000))}


def test_no_task_reads_more_records_than_it_may(topics: Topics) -> None:
    topic = topics.create("records-per-task", 2)
    topics.send(topic, [b"%d" % number for number in range(1000)])
    frame = topics.read(topic, maxRecordsPerPartition=300)
    sizes = frame.rdd.mapPartitions(lambda rows: [sum(1 for _ in rows)]).collect()
    assert sorted(sizes) == [250] * 4
    assert offsets(frame) == {0: list(range(1000))}


def test_only_what_a_record_may_lack_is_nullable(topics: Topics, clicks: str) -> None:
    """For any other nullable column Spark would check every row for null."""
    fields = topics.read(clicks, includeHeaders=True).schema
    assert [field.name for field in fields if field.nullable] == ["key", "value", "headers"]


def test_fewer_columns_are_read_when_the_schema_names_them(topics: Topics, clicks: str) -> None:
    reader = topics.spark.read.format("appliance").options(**topics.options, subscribe=clicks)
    frame = reader.schema("offset bigint, value binary").load()
    assert frame.columns == ["offset", "value"]
    assert frame.selectExpr("sum(offset)", "sum(cast(cast(value as string) as int))").collect() == [
        (3 * 4950, 3 * 4950)
    ]
    with pytest.raises(Exception, match="got offset string, wanted bigint"):
        reader.schema("offset string").load().collect()


@pytest.mark.parametrize(
    ("term", "wanted"),
    [
        ("partition = 1", {1: (0, 100)}),
        ("partition in (0, 2) and offset >= 98", {0: (98, 100), 2: (98, 100)}),
        ("offset > 5 and offset <= 7 and topic = 'clicks'", dict.fromkeys(range(3), (6, 8))),
        ("offset = 3 and partition < 1", {0: (3, 4)}),
        ("topic = 'others'", {}),
        ("timestamp > timestamp_millis(1700000097000)", dict.fromkeys(range(3), (98, 100))),
        ("timestamp >= timestamp_millis(1700000098000) and partition = 2", {2: (98, 100)}),
        ("timestamp < timestamp_millis(1700000002000)", dict.fromkeys(range(3), (0, 2))),
    ],
)
@pytest.mark.parametrize("is_on", [False, True], ids=["by Spark", "pushed down"])
def test_filters_leave_the_same_rows(
    topics: Topics, clicks: str, is_on: bool, term: str, wanted: dict[int, tuple[int, int]]
) -> None:
    topics.spark.conf.set(PUSHDOWN, str(is_on).lower())
    try:
        found = offsets(topics.read(clicks).where(term))
    finally:
        topics.spark.conf.set(PUSHDOWN, "true")
    assert found == {number: list(range(*bounds)) for number, bounds in wanted.items()}


def test_filters_are_pushed_down_and_make_fewer_tasks(topics: Topics, clicks: str) -> None:
    frame = topics.read(clicks)
    for term, tasks in (("partition = 1", 1), ("partition < 2", 2)):
        assert frame.where(term).rdd.getNumPartitions() == (tasks if OFFERS_FILTERS else 3)


def test_who_wants_no_filters_pushed_down_keeps_that(topics: Topics) -> None:
    assert topics.spark.conf.get(PUSHDOWN) == "true"
    topics.spark.conf.set(PUSHDOWN, "false")
    try:
        register(topics.spark)
        assert topics.spark.conf.get(PUSHDOWN) == "false"
    finally:
        topics.spark.conf.set(PUSHDOWN, "true")


def read_by(frame: DataFrame) -> list[list[str]]:
    """The columns of each scan of its plan."""
    plan = frame._jdf.queryExecution().optimizedPlan().toString()
    return [re.findall(r"(\w+)#", found) for found in re.findall(r"RelationV2\[(.*?)\]", plan)]


@pytest.mark.parametrize(
    ("query", "columns", "told"),
    [
        ("select sum(cast(cast(value as string) as int)) from {clicks}", ["value"], 3 * 4950),
        ("select count(*) from {clicks}", ["partition"], 300),
        ("select max(offset) from {clicks} where timestamp < timestamp_millis(1700000002000)",
         ["offset", "timestamp"], 1),
        ("select count(headers) from {clicks} where key is null", ["key", "headers"], 0),
        ("select count(*) from (select distinct * from {clicks})",
         ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType",
          "headers"], 300),
    ],
)  # fmt: skip
def test_a_scan_reads_the_columns_that_its_query_uses(
    topics: Topics, clicks: str, query: str, columns: list[str], told: int
) -> None:
    frame = topics.spark.sql(query, clicks=topics.read(clicks, includeHeaders=True))
    assert read_by(frame) == [columns]
    assert frame.collect()[0][0] == told


def test_scans_of_one_query_read_different_columns(topics: Topics, clicks: str) -> None:
    frame = topics.read(clicks)
    few = frame.where("partition = 1 and offset < 3").select("offset")
    both = few.join(frame.where("partition = 2").select("offset", "value"), "offset")
    assert read_by(both) == [["partition", "offset"], ["value", "partition", "offset"]]
    assert sorted((row.offset, bytes(row.value)) for row in both.collect()) == [
        (n, b"%d" % n) for n in range(3)
    ]


def test_each_action_reads_to_the_end_of_its_time(topics: Topics) -> None:
    """Spark itself keeps the first plan of a data frame for all that is asked of it."""
    topic = topics.create("grows-between")
    frame = topics.read(topic)
    topics.send(topic, [b"a"])
    assert (frame.count(), frame.where("offset = 0").count()) == (1, 1)
    topics.send(topic, [b"b"])
    assert (frame.count(), frame.select("*").toArrow().num_rows) == (2, 2)
    assert len(frame.collect()) == 2
    topics.send(topic, [b"c"])
    assert (len(frame.collect()), frame.count()) == (2, 3)  # is the same query


def test_a_table_keeps_its_options(topics: Topics, clicks: str, tmp_path: Path) -> None:
    sql = topics.spark.sql
    options = f"url '{topics.options['url']}', subscribe 'clicks'"
    sql(f"create table web using appliance options ({options}) location '{tmp_path}'")
    try:
        assert sql("select count(*) from web").collect()[0][0] == 300
        found = sql("select sum(offset) from web where partition = 1 and offset >= 98")
        assert (found.collect()[0][0], read_by(found)) == (197, [["partition", "offset"]])
        to = json.dumps({clicks: dict.fromkeys("012", 7)})
        some = sql(f"select count(*) from web with ('endingOffsets' = '{to}')")
        assert some.collect()[0][0] == 21
        topics.spark.conf.set(EXCLUDED, "appliance_spark.BatchRule")
        with pytest.raises(Exception, match=r"no options: .*appliance_spark\.register\(spark\)"):
            sql("select count(*) from web").collect()
    finally:
        topics.spark.conf.unset(EXCLUDED)
        sql("drop table web")


def test_sessions_that_share_their_rules_have_them_once(topics: Topics, clicks: str) -> None:
    """As the batches of foreachBatch, each of which has a session."""
    before = SparkSession.getActiveSession()
    other = topics.spark.newSession()
    for each in (other, other, topics.spark):
        register(each)
    session = other._jsparkSession
    assert session.extensions().buildOptimizerRules(session).size() == 1
    assert SparkSession.getActiveSession() is before
    frame = other.read.format("appliance").options(**topics.options, subscribe=clicks).load()
    assert frame.where("partition = 1").count() == 100


def test_who_registers_late_is_told_what_is_missing(
    topics: Topics, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    session = topics.spark._jsparkSession
    registration.check_streams(session)
    assert not caplog.text
    monkeypatch.setattr(registration, "STREAM_RULE", "of a later time")
    registration.check_streams(session)
    assert "after the session's first query" in caplog.text


def test_a_spark_that_does_not_take_our_rules_is_told_and_goes_on(
    topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    broken = tmp_path / "broken.java"
    broken.write_text("class ScanRules { Nothing known; }")
    monkeypatch.setattr(registration, "RULES", broken)
    monkeypatch.setattr(registration, "has_rules", lambda session: False)
    registration.add_rules(topics.spark)
    assert "scans read all columns" in caplog.text
    assert "Nothing" in caplog.text


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"url": ""}, "option url is needed"),
        ({"url": "", "kafka.bootstrap.servers": "h:9092"}, "h:9092.{1,2}, the address of its"),
        ({"subscribe": ""}, "got none, wanted exactly one"),
        ({"assign": '{"clicks": [0]}'}, "got subscribe and assign"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss: got 'maybe', wanted true or false"),
        ({"minPartitions": "0"}, "minPartitions: got '0'"),
        ({"endingOffsets": "earliest"}, "an end cannot be the earliest"),
        ({"startingOffsets": '{"clicks": {"0": 1}}'}, r"names partitions \[0\] of topic clicks"),
        ({"startingTimestamp": T0 + 10**9}, "no record of clicks-0 is as late"),
        ({"subscribe": "nobody"}, "404"),
    ],
    ids=lambda each: ",".join(each) if isinstance(each, dict) else None,
)
def test_what_is_wrong_is_said(
    topics: Topics, clicks: str, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(Exception, match=told):
        topics.reader(**{"subscribe": clicks, **options}).count()


def test_lost_offsets_fail_a_read_unless_that_is_wanted(topics: Topics) -> None:
    topic = topics.create("lost")
    topics.send(topic, [b"%d" % n for n in range(100)])
    topics.delete_before(topic, 30)
    given = {"startingOffsets": '{"lost": {"0": 10}}'}
    with pytest.raises(Exception, match="lost-0: 20 offsets from 10 on were deleted"):
        topics.read(topic, **given).count()
    assert offsets(topics.read(topic, failOnDataLoss=False, **given)) == {0: list(range(30, 100))}


def test_who_reaches_nothing_but_bulk_data_reads_it(topics: Topics) -> None:
    topic = topics.create("no-admin", 2)
    topics.send(topic, [b"a", b"b"], 0)
    topics.send(topic, [b"c"], 1)
    url = f"http://{topics.broker.export}"
    assert rows_of(topics.read(topic, url=url)) == topics.log_of(topic)


# Failures in one line


def test_a_worker_that_is_killed_is_explained(topics: Topics, clicks: str) -> None:
    def dies(rows: Iterable[Any]) -> Iterator[Any]:
        os.kill(os.getpid(), signal.SIGKILL)
        yield from rows

    with pytest.raises(Exception, match="crashed") as failed:
        topics.read(clicks).select("offset").rdd.mapPartitions(dies).count()
    assert why(failed.value).startswith("a Python worker died without a word")


def test_what_we_refuse_is_the_reason(topics: Topics) -> None:
    with pytest.raises(Exception, match="404") as failed:
        topics.read("nobody").count()
    assert re.match("Refused: GET .*/nobody/plan: 404 Not Found: ", why(failed.value))


TASK = "Job aborted due to stage failure: Lost task 0.3 in stage 1.0 (TID 7) (10.0.0.2 executor 1)"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{TASK}: Traceback\n  File x\nModuleNotFoundError: No module named 'appliance_spark'\n"
         "\n\tat org.apache.spark.X(Y.scala:1)", r"no package appliance_spark: .*ship\(spark\)"),
        ("ModuleNotFoundError: No module named 'pyarrow.lib'", "package pyarrow: PYSPARK_PYTHON"),
        (f'{TASK}: java.io.IOException: Cannot run program "python9": error=2', "no python9 on a"),
        (f"{TASK}: ExecutorLostFailure (executor 1 exited caused by one of the running tasks) "
         "Reason: Command exited with code 137\nDriver stacktrace:",
         "executor 1 was lost: Command exited with code 137$"),
        ("[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.11 than that in "
         "driver: 3.10.\n\tat x", r"3.11 than that in driver: 3.10. Set PYSPARK_PYTHON"),
        ("Traceback\nappliance_spark.endpoint.Refused: 410\n\nThe above exception was the direct "
         "cause\n\nappliance_spark.planning.DataLost: t-0: gone\n\tat org.x",
         "^DataLost: t-0: gone$"),
        ("Traceback\n  File x\nZeroDivisionError: division by zero\n\tat org.apache.spark.X: y",
         "^ZeroDivisionError: division by zero$"),
        ("something else\nand more", "^something else$"),
    ],
)  # fmt: skip
def test_what_spark_tells_is_one_line(text: str, told: str) -> None:
    found = why(RuntimeError(text))
    assert re.search(told, found)
    assert "\n" not in found
