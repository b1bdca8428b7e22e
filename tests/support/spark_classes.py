"""The classes of Spark's JVM as it can map them into memory: to load them from jars is most of its
start, and a run of the tests starts twenty.

A JVM of another version, or with other jars, passes over the archive and loads as ever.

    python -m tests.support.spark_classes FILE
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tests.interop.kafka_jars import CACHE, java
from tests.support.made_once import made_once

# None lives long: most of its work is its start, and what a second compiler made would not be used
JAVA_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
MAKING_S = 120.0


def start_flags() -> list[str]:
    """Of a driver; the first call on a machine makes the archive."""
    of_java = Path(java()).resolve().stat().st_mtime_ns  # an update of Java wants another archive
    name = f"spark-classes-{pyspark.__version__}-{of_java}"
    with made_once(CACHE / name) as folder:
        if folder is not None:
            command = [sys.executable, "-m", __name__, folder / "classes.jsa"]
            made = subprocess.run(command, check=False, capture_output=True, text=True)
            if made.returncode:  # it is slower without, and tests the same
                print(f"Spark's JVMs start without an archive: {made.stderr}", file=sys.stderr)
    return [*JAVA_FLAGS, "-Xlog:disable", f"-XX:SharedArchiveFile={CACHE / name / 'classes.jsa'}"]


def work(spark: SparkSession, folder: str) -> None:
    """Of the kinds that the tests have."""
    rows = spark.createDataFrame([(n, str(n)) for n in range(100)], ["number", "text"])
    rows.groupBy("number").count().collect()
    rows.write.parquet(f"{folder}/rows")
    assert spark.read.parquet(f"{folder}/rows").filter("number > 5").count() == 94
    assert spark.sparkContext.parallelize([1]).map(lambda n: n + 1).collect() == [2]


def main(archive: str) -> None:
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
