"""A stream from topic to topic as a program of its own, which may be killed at any moment:

    python -m tests.support.spark_copy URL SOURCE TARGET CHECKPOINT

It copies until standard input ends. Each row goes with its place in the source as its key, so that
the target shows what was copied, and how often.
"""

from __future__ import annotations

import sys

from tests.support.spark_data import bounded, spark_session


def main(url: str, source: str, target: str, checkpoint: str) -> None:
    with spark_session() as spark:
        reader = spark.readStream.format("appliance").options(url=url, subscribe=source)
        rows = reader.options(startingOffsets="earliest", **bounded(700)).load()
        named = rows.selectExpr("concat(partition, ':', offset) as key", "value")
        writer = named.writeStream.format("appliance").options(url=url, topic=target)
        query = writer.option("checkpointLocation", checkpoint).start()
        sys.stdin.read()
        query.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
