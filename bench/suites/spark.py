"""Spark reads a topic: its own connector from Apache Kafka, our data source from the appliance."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench import spark_scan
from bench.peers.brokers import Appliance, Broker
from bench.peers.turns import PAGE_CACHE, Case, Figures
from bench.run_size import Extent
from bench.suites.writing import by_librdkafka

LOADS = {100: 4_000_000, 1000: 1_000_000}  # bytes, records
CORES, MEMORY = 2, "2g"


def scan(broker: Broker, topic: str, size: int, count: int) -> Figures:
    """Each turn has a new driver, whose start is not in the figures."""
    is_ours = isinstance(broker, Appliance)
    figures = spark_scan.measured({
        "way": "ours" if is_ours else "kafka", "topic": topic, "count": count, "size": size,
        "kafka": broker.address, "appliance": broker.address,
        "url": f"http://{broker.admin}" if isinstance(broker, Appliance) else "",
        "cores": CORES, "memory": MEMORY, "folder": str(broker.directory.parent / "parquet"),
    })  # fmt: skip
    return {**{f"{job}, records/s": figures[job] for job in spark_scan.JOBS},
            "driver's MB": figures["memory"] / 1e6, "driver's cpu s": figures["cpu"]}


def spark(extent: Extent) -> Iterator[Case]:
    """Spark counts records, sums the lengths of their values and writes all records as Parquet."""
    for size, whole in LOADS.items():
        load = {"size": size, "count": extent.records(whole)}
        yield Case(f"Spark, records of {size} B", partial(scan, **load), PAGE_CACHE,
                   spark_scan.PARTITIONS, fill=partial(by_librdkafka, **load), warm_up=False,
                   rounds=extent.long_rounds, weight=3)
