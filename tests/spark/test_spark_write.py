"""Writes: a foreign client reads the rows as records."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from kafka.partitioner import default as kafka_python
from pyspark.sql import DataFrame

from tests.support.mirror_load import CODECS
from tests.support.release import gate_has
from tests.support.spark_data import Topics

HEADERS = (
    "array(struct('n' as key, cast('h' as binary) as value), "
    "struct('e' as key, cast(null as binary) as value))"
)


def rows(topics: Topics, count: int, *columns: str) -> DataFrame:
    return topics.spark.range(count).selectExpr(*columns)


def write(frame: DataFrame, topics: Topics, **options: Any) -> None:
    writer = frame.write.format("appliance").options(**topics.options).options(**options)
    writer.mode("append").save()


@pytest.mark.parametrize(
    "codec", gate_has(["none", "zstd"], "record/test_compression.py has every codec", CODECS)
)
def test_what_is_written_is_read(topics: Topics, codec: str) -> None:
    topic = topics.create(f"written-{codec}", 3)
    frame = rows(topics, 2000, "cast(id as string) key", "concat('value ', id) value")
    write(frame, topics, topic=topic, **{"kafka.compression.type": codec})
    found = Counter((place[3], place[4]) for place in topics.log_of(topic))
    assert found == Counter((b"%d" % n, b"value %d" % n) for n in range(2000))


def test_a_key_goes_where_other_producers_send_it(topics: Topics) -> None:
    topic = topics.create("by-key", 5)
    write(rows(topics, 200, "cast(id as string) key", "'v' value"), topics, topic=topic)
    for partition, _, _, key, _, _ in topics.log_of(topic):
        assert key is not None
        assert partition == (kafka_python.murmur2(key) & 0x7FFFFFFF) % 5


def test_headers_topics_and_partitions_may_stand_in_the_rows(topics: Topics) -> None:
    for name in ("even", "odd"):
        topics.create(name, 2)
    columns = ("if(id % 2 = 0, 'even', 'odd') topic", "1 as partition",
               "cast(cast(id as string) as binary) value",
               f"if(id < 2, {HEADERS}, null) headers", "cast(null as binary) key")  # fmt: skip
    write(rows(topics, 10, *columns), topics)
    for topic in ("even", "odd"):
        found = topics.log_of(topic)
        assert {place[0] for place in found} == {1}
        assert len(found) == 5
        headers = Counter(place[5] for place in found)
        assert headers == {(("n", b"h"), ("e", None)): 1, (): 4}


def test_a_copy_with_all_columns_is_the_same(topics: Topics) -> None:
    source, target = topics.create("copied-from", 2), topics.create("copied-to", 2)
    topics.send(source, [b"a", None, b""], 1, key=b"k", headers=[("x", b"y")])
    frame = topics.read(source, includeHeaders=True)
    write(frame.select("key", "value", "headers", "partition"), topics, topic=target)
    told = [Counter((p[0], *p[3:]) for p in topics.log_of(each).elements())
            for each in (source, target)]  # fmt: skip
    assert told[0] == told[1]


@pytest.mark.parametrize(
    ("columns", "options", "told"),
    [
        (("id as value",), {"topic": "t"}, "column value: got bigint, wanted binary or string"),
        (("'k' key",), {"topic": "t"}, "value is missing"),
        (("'v' value",), {}, "neither an option topic nor a column"),
        (("'v' value", "'x' other"), {"topic": "t"}, "column other: got string"),
        (("'v' value", "9 as partition"), {"topic": "nine"}, "got 9, topic nine has 0 to 0"),
        (("'v' value", "cast(null as string) topic"), {}, "column topic: got null"),
        (("'v' value",), {"topic": "t", "kafka.acks": "0"}, "kafka.acks: got '0'"),
        (("'v' value",), {"topic": "t", "url": ""}, "option url is needed"),
    ],
)
def test_what_is_wrong_is_said(
    topics: Topics, columns: tuple[str, ...], options: dict[str, str], told: str
) -> None:
    with pytest.raises(Exception, match=told):
        write(rows(topics, 1, *columns), topics, **options)


def test_a_log_is_not_overwritten(topics: Topics) -> None:
    writer = rows(topics, 1, "'v' value").write.format("appliance").options(**topics.options)
    with pytest.raises(Exception, match="a log is appended to"):
        writer.option("topic", "t").mode("overwrite").save()
