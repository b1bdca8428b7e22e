"""The archive of the classes of Spark's JVM: a run of the tests starts twenty.

    python -m tests.support.spark_classes FILE
"""

from __future__ import annotations

import os
import sys
import tempfile

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tests.interop.kafka_jars import CACHE, java
from tests.support import class_archive

# None lives long: most of its work is its start, and what a second compiler made would not be used
JAVA_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
MAKING_S = 600.0  # at the priority of a test, beside others


def start_flags() -> list[str]:
    """Of a driver."""
    archive = class_archive.start_flags(
        CACHE / f"spark-classes-{pyspark.__version__}", java(), __name__)
    return [*JAVA_FLAGS, *archive]


def work(spark: SparkSession, folder: str) -> None:
    """Of the kinds that the tests have."""
    rows = spark.createDataFrame([(n, str(n)) for n in range(100)], ["number", "text"])
    rows.groupBy("number").count().collect()
    rows.write.parquet(f"{folder}/rows")
    assert spark.read.parquet(f"{folder}/rows").filter("number > 5").count() == 94
    assert spark.sparkContext.parallelize([1]).map(lambda n: n + 1).collect() == [2]


def main(archive: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    flags = " ".join([*JAVA_FLAGS, f"-XX:ArchiveClassesAtExit={archive}"])
    builder = SparkSession.builder.master("local[2]").config("spark.driver.extraJavaOptions", flags)
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        work(spark, folder)
    spark.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()  # which tells it to write the archive and end
    try:
        gateway.proc.wait(MAKING_S)
    finally:
        gateway.proc.kill()  # one that waits for its shutdown hooks for ever


if __name__ == "__main__":
    main(*sys.argv[1:])
