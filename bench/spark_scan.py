"""Spark reads the same records through Spark's own Kafka connector and through our data source.

    python -m bench.spark_scan [--small 20000000] [--large 2000000] [--rounds 3] [--cores 2]

    kafka       the connector, from Apache Kafka
    kafka on us the connector, from the appliance
    ours        our data source, from the appliance
    ours, value the same with .schema("value binary"), for a job that writes one column

Each counts the records, sums the lengths of the values and writes all records as Parquet (zstd), in
turns, A B A B, each turn with a new driver. The figures are medians in records per second, and the
largest resident memory of the driver's JVM and its Python workers together.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

from tests.interop import kafka_jars
from tests.interop.kafka_broker import KafkaBroker
from tests.test_server import Broker

PARTITIONS = 4
SAMPLE_S = 0.05
WAYS = ("kafka", "kafka on us", "ours", "ours, value")
JOBS = ("count", "sum", "parquet")
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def fill(address: str, topic: str, count: int, size: int, codec: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    producer = ck.Producer({
        "bootstrap.servers": address, "compression.type": codec, "linger.ms": 50, "acks": 1,
        "batch.num.messages": 100_000, "queue.buffering.max.messages": 1_000_000, "log_level": 0,
    })  # fmt: skip
    # a tenth of each value differs from the next value, so that zstd has work
    pad = b"the quick brown fox jumps over the lazy dog " * (size // 44 + 1)
    for number in range(count):
        value = (b"%010d" % number + pad)[:size]
        while True:
            try:
                producer.produce(topic, value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(600) == 0


def session(cores: int, memory: str) -> SparkSession:
    jars = ",".join(str(each) for each in kafka_jars.of_spark().glob("*.jar"))
    builder = SparkSession.builder.master(f"local[{cores}]").appName("scan")
    for name, value in {
        "spark.jars": jars, "spark.driver.memory": memory, "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false", "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1", "spark.sql.parquet.compression.codec": "zstd",
    }.items():  # fmt: skip
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def rows(spark: SparkSession, way: str, turn: dict[str, Any]) -> DataFrame:
    if way.startswith("kafka"):
        address = turn["kafka"] if way == "kafka" else turn["appliance"]
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", address)
    else:
        from appliance_spark import register

        register(spark)
        reader = spark.read.format("appliance").option("url", turn["url"])
        if way == "ours, value":
            reader = reader.schema("value binary")
    return reader.option("subscribe", turn["topic"]).load()


def do(frame: DataFrame, job: str, folder: Path) -> int:
    if job == "count":
        return frame.count()
    if job == "sum":
        return int(frame.selectExpr("sum(length(value))").collect()[0][0])
    frame.write.mode("overwrite").parquet(str(folder))
    return 0


class Memory:
    """The peak of the resident memory of this process and all processes below it, by sampling."""

    def __init__(self) -> None:
        self.largest = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(SAMPLE_S):
            self.largest = max(self.largest, sum(map(resident, family(os.getpid()))))


def family(pid: int) -> Iterator[int]:
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        threads = os.listdir(f"/proc/{pid}/task")
        for thread in threads[1:]:
            children += Path(f"/proc/{pid}/task/{thread}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from family(int(child))


def resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except OSError:
        return 0


def cpu_seconds(pid: int) -> float:
    """The processor time of the process and of its ended children."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(map(int, fields[11:15])) / TICKS


def turn_of(turn: dict[str, Any]) -> None:
    """Runs one turn in this process and prints its figures. The first query warms up the JVM."""
    spark = session(turn["cores"], turn["memory"])
    frame = rows(spark, turn["way"], turn)
    folder = Path(turn["folder"])
    do(frame.limit(1000), "count", folder)
    figures: dict[str, float] = {}
    with Memory() as memory:
        for job in JOBS:
            began = time.perf_counter()
            result = do(frame, job, folder)
            figures[job] = turn["count"] / (time.perf_counter() - began)
            wanted = {"count": turn["count"], "sum": turn["count"] * turn["size"], "parquet": 0}
            assert result == wanted[job], (turn["way"], job, result, wanted[job])
    figures["memory"] = memory.largest
    figures["cpu"] = sum(map(cpu_seconds, family(os.getpid())))
    spark.stop()
    print(json.dumps(figures))


def measured(turn: dict[str, Any]) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.spark_scan", "--turn", json.dumps(turn)]
    # the default of Spark's workers is the first python3 on PATH
    env = {"PYSPARK_PYTHON": sys.executable, **os.environ}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode != 0:
        raise RuntimeError(f"{turn['way']}: {done.stdout}{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


@contextmanager
def brokers(folder: Path) -> Iterator[tuple[KafkaBroker, Broker]]:
    flags = (*kafka_jars.TOOL_FLAGS[1:-1], "-Xms1g", "-Xmx1g")  # with both compilers
    (folder / "kafka").mkdir()
    with KafkaBroker(folder / "kafka", flags=flags) as kafka, Broker(folder / "ours") as ours:
        yield kafka, ours


def show(name: str, found: dict[str, list[dict[str, float]]]) -> None:
    print(f"\n{name}", flush=True)
    medians = {way: {field: statistics.median(each[field] for each in of) for field in of[0]}
               for way, of in found.items()}  # fmt: skip
    for way, of in medians.items():
        ratios = "  ".join(f"{job} {of[job]:>12,.0f}/s {of[job] / medians['kafka'][job]:5.2f}x"
                           for job in JOBS)  # fmt: skip
        print(f"  {way:12} {ratios}  memory {of['memory'] / 2**20:,.0f} MiB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", type=int, default=20_000_000, help="records of 100 B; 0: none")
    parser.add_argument("--large", type=int, default=2_000_000, help="records of 1 KB; 0: none")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    parser.add_argument("--memory", default="2g", help="size of the driver's heap")
    parser.add_argument("--codecs", default="none,zstd")
    parser.add_argument("--turn", help="internal: one turn as JSON")
    words = parser.parse_args()
    if words.turn:
        turn_of(json.loads(words.turn))
        return
    folder = Path(tempfile.mkdtemp(prefix="spark-scan-"))
    try:
        run(words, folder)
    finally:
        shutil.rmtree(folder)


def run(words: argparse.Namespace, folder: Path) -> None:
    with brokers(folder) as (kafka, ours):
        sizes = {100: words.small, 1000: words.large}
        for size, count in ((size, count) for size, count in sizes.items() if count):
            for codec in words.codecs.split(","):
                topic = f"scan-{size}-{codec}"
                for address in (kafka.address, ours.kafka):
                    fill(address, topic, count, size, codec)
                turn = {"kafka": kafka.address, "appliance": ours.kafka,
                        "url": f"http://{ours.admin}", "topic": topic, "count": count,
                        "size": size, "cores": words.cores, "memory": words.memory,
                        "folder": str(folder / "parquet")}  # fmt: skip
                found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
                for _ in range(words.rounds):
                    for way in WAYS:
                        found[way].append(measured({**turn, "way": way}))
                show(f"{count:,} records of {size} B, {codec}", found)


if __name__ == "__main__":
    main()
