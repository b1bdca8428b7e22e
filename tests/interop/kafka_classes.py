"""The archive of the classes of Kafka's tools and of its broker: a run of the tests starts forty of
their JVMs.

    python -m tests.interop.kafka_classes FILE
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.interop.kafka_broker import CLUSTER_ID, KafkaBroker
from tests.interop.kafka_tools import KafkaTools

STORAGE = "kafka.tools.StorageTool"
DUMP = "org.apache.kafka.tools.DumpLogSegments"


def work(tools: KafkaTools, node: KafkaBroker) -> None:
    """Of the kinds that the tests have."""
    must_main(tools, STORAGE, "format", "-t", CLUSTER_ID, "-c", str(node.write_properties()))
    tools.address = node.address
    must_main(tools, "Node", str(node.directory / "server.properties"))
    tools.must("kafka-topics", "--create", "--topic", "t", "--config", "retention.ms=-1")
    tools.must("kafka-configs", "--describe", "--all", "--entity-type", "topics")
    tools.must("kafka-console-producer", "--topic", "t", "--compression-codec", "lz4", stdin="a\n")
    tools.must("kafka-producer-perf-test", "--topic", "t", "--num-records", "9", "--record-size",
               "9", "--throughput", "-1", "--transactional-id", "x")
    tools.must("kafka-console-consumer", "--topic", "t", "--group", "g", "--from-beginning",
               "--max-messages", "9")
    tools.must("kafka-consumer-groups", "--describe", "--group", "g")
    tools.must("kafka-get-offsets", "--topic", "t")
    logs = ",".join(map(str, node.partition("t").glob("0*")))
    must_main(tools, DUMP, "--deep-iteration", "--print-data-log", "--files", logs)
    must_main(tools, "Node")


def must_main(tools: KafkaTools, *words: str) -> None:
    ended = tools.run_main(words, "")
    assert ended.code == 0, ended


def main(archive: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        node = KafkaBroker(Path(folder))
        tools = KafkaTools("", Path(folder) / "tools", [f"-XX:ArchiveClassesAtExit={archive}"])
        try:
            work(tools, node)
        finally:
            tools.close()  # its JVM writes the archive and ends


if __name__ == "__main__":
    main(*sys.argv[1:])
