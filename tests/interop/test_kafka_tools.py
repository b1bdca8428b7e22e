"""Apache Kafka's own command line tools against `appliance serve`: their output is correct.

Consumers get their partitions as options; only kafka-consumer-perf-test reads in a group here.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.api.handlers import SERVED
from appliance.config import topic_config
from appliance.protocol import API
from tests.interop import kafka_jars
from tests.interop.kafka_tools import TOOLS, KafkaTools
from tests.support.release import gate_has
from tests.support.warm_broker import WarmBroker as Broker

# A value other than the default for every config of a topic that Kafka knows
CONFIGS = {
    "cleanup.policy": "compact,delete",
    "compression.gzip.level": "7",
    "compression.lz4.level": "11",
    "compression.type": "zstd",
    "compression.zstd.level": "5",
    "delete.retention.ms": "1001",
    "file.delete.delay.ms": "1002",
    "flush.messages": "1003",
    "flush.ms": "1004",
    "follower.replication.throttled.replicas": "0:1",
    "index.interval.bytes": "1005",
    "leader.replication.throttled.replicas": "*",
    "local.retention.bytes": "1006",
    "local.retention.ms": "1007",
    "max.compaction.lag.ms": "1008",
    "max.message.bytes": "1009",
    "message.timestamp.after.max.ms": "1010",
    "message.timestamp.before.max.ms": "1011",
    "message.timestamp.type": "LogAppendTime",
    "min.cleanable.dirty.ratio": "0.25",
    "min.compaction.lag.ms": "1000",
    "min.insync.replicas": "2",
    "preallocate": "true",
    "remote.log.copy.disable": "true",
    "remote.log.delete.on.disable": "true",
    "remote.storage.enable": "false",
    "retention.bytes": "1048577",
    "retention.ms": "1012000",
    "segment.bytes": "1048576",
    "segment.index.bytes": "1016",
    "segment.jitter.ms": "1014",
    "segment.ms": "1015",
    "unclean.leader.election.enable": "true",
}
TOPICS = ("--entity-type", "topics", "--entity-name")
BROKERS = ("--entity-type", "brokers")
FAR_FUTURE_MS = 4_102_444_800_000


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaTools]:
    folder: Path = tmp_path_factory.mktemp("tools")
    with Broker(folder / "data") as broker:
        started = KafkaTools(broker.kafka, folder)
        try:
            yield started
        finally:
            started.close()


def create(tools: KafkaTools, topic: str, partitions: int = 1, *words: str) -> None:
    assert tools.must("kafka-topics", "--create", "--topic", topic, "--partitions",
                      str(partitions), *words) == f"Created topic {topic}.\n"


def produce(tools: KafkaTools, topic: str, lines: str, *words: str) -> None:
    tools.must("kafka-console-producer", "--topic", topic, *words, stdin=lines)


def pairs_of(line: str) -> dict[str, str]:
    """`a=1,b=x,y` as Kafka's tools print configs: a comma may belong to a value."""
    found: dict[str, str] = {}
    name = ""
    for part in line.split(","):
        key, is_new, value = part.partition("=")
        if is_new:
            name, found[key] = key, value
        else:
            found[name] += "," + part
    return found


# kafka-topics


def described(tools: KafkaTools, *words: str) -> list[dict[str, str]]:
    """A line of the tool's output as names and values."""
    lines = tools.must("kafka-topics", "--describe", *words).splitlines()
    return [dict(part.split(": ", 1) for part in re.split(r"\t", line.strip()) if ": " in part)
            for line in lines]


def test_a_topic_is_created_listed_described_and_deleted(tools: KafkaTools) -> None:
    create(tools, "comes-and-goes", 3)
    assert "comes-and-goes" in tools.must("kafka-topics", "--list").split()
    head, *partitions = described(tools, "--topic", "comes-and-goes")
    assert re.fullmatch(r"[\w-]{22}", head.pop("TopicId"))
    assert head == {"Topic": "comes-and-goes", "PartitionCount": "3", "ReplicationFactor": "1"}
    assert [(each["Partition"], each["Leader"], each["Replicas"], each["Isr"])
            for each in partitions] == [(str(number), "1", "1", "1") for number in range(3)]
    tools.must("kafka-topics", "--delete", "--topic", "comes-and-goes")
    assert "comes-and-goes" not in tools.must("kafka-topics", "--list").split()
    assert "Topic 'comes-and-goes' does not exist" in tools.refused(
        "kafka-topics", "--delete", "--topic", "comes-and-goes")


def test_partitions_are_added_and_never_taken_away(tools: KafkaTools) -> None:
    create(tools, "grows", 2)
    tools.must("kafka-topics", "--alter", "--topic", "grows", "--partitions", "5")
    assert len(described(tools, "--topic", "grows")) == 1 + 5
    for count in (5, 3):
        assert f"grows: got {count} partitions, wanted more than its 5" in tools.refused(
            "kafka-topics", "--alter", "--topic", "grows", "--partitions", str(count))


def test_every_config_flag_is_kept_and_shown(tools: KafkaTools) -> None:
    assert set(CONFIGS) == set(topic_config.KEYS) - {"mirror.source", "visibility"}
    flags = [word for pair in CONFIGS.items() for word in ("--config", "=".join(pair))]
    create(tools, "configured", 1, *flags)
    (head, _) = described(tools, "--topic", "configured")
    assert pairs_of(head["Configs"]) == CONFIGS
    assert config_values(tools, *TOPICS, "configured") == CONFIGS
    overridden = {each["Topic"] for each in described(tools, "--topics-with-overrides")}
    assert "configured" in overridden
    assert "grows" not in overridden


@pytest.mark.parametrize(("words", "message"), [
    (("--topic", "there"), "topic there exists already"),
    (("--topic", "bad/name"), "'bad/name' is not a topic name"),
    (("--topic", "none", "--partitions", "0"), "The partitions must be greater than 0"),
    (("--topic", "none", "--partitions", "1001"),
     "none: got 1001 partitions, wanted at most 1000 (max.partitions.per.topic)"),
    (("--topic", "none", "--replication-factor", "3"),
     "got replication factor 3, wanted 1, or -1 for the broker's default: there is one broker"),
    (("--topic", "none", "--replica-assignment", "2"),
     "none-0: got brokers [2], wanted [1], the only one"),
    (("--topic", "none", "--config", "cleanup.policy=burn"),
     "Invalid value burn for configuration cleanup.policy"),
    (("--topic", "none", "--config", "remote.storage.enable=true"),
     "remote.storage.enable: got 'true', wanted one of 'false': there is no remote storage"),
    (("--topic", "none", "--config", "min.compaction.lag.ms=9",
      "--config", "max.compaction.lag.ms=8"),
     "conflict topic config setting min.compaction.lag.ms (9) > max.compaction.lag.ms (8)"),
], ids=lambda given: given if isinstance(given, str) else " ".join(given))
def test_a_topic_that_cannot_be_is_refused_in_words(
    tools: KafkaTools, words: tuple[str, ...], message: str
) -> None:
    tools.must("kafka-topics", "--create", "--if-not-exists", "--topic", "there")
    assert message in tools.refused("kafka-topics", "--create", *words)
    assert "none" not in tools.must("kafka-topics", "--list").split()


def test_replicas_may_be_placed_on_the_one_broker(tools: KafkaTools) -> None:
    assert tools.must("kafka-topics", "--create", "--topic", "placed",
                      "--replica-assignment", "1,1,1") == "Created topic placed.\n"
    assert len(described(tools, "--topic", "placed")) == 1 + 3


def test_no_partition_is_ever_unavailable_or_behind(tools: KafkaTools) -> None:
    create(tools, "healthy", 2)
    for flag in ("--under-replicated-partitions", "--unavailable-partitions",
                 "--under-min-isr-partitions"):
        assert [each["Topic"] for each in described(tools, flag)
                if each["Topic"] != "configured"] == []
    at_minimum = described(tools, "--at-min-isr-partitions")
    assert len([each for each in at_minimum if each["Topic"] == "healthy"]) == 2


# kafka-configs


def config_values(tools: KafkaTools, *words: str) -> dict[str, str]:
    """Names and values of lines like `  a=1 sensitive=false synonyms={...}`."""
    lines = tools.must("kafka-configs", "--describe", *words).splitlines()
    found = [re.fullmatch(r"  ([\w.]+)=(.*) sensitive=false synonyms=\{.*\}", each)
             for each in lines[1:]]
    assert all(found), lines
    return {each[1]: each[2] for each in found if each}


def alter(tools: KafkaTools, change: str, text: str, *words: str) -> None:
    said = tools.must("kafka-configs", "--alter", change, text, *words)
    assert re.fullmatch(r"Completed updating (default )?config for .*\.\n", said)


def test_describe_all_shows_every_config_and_where_it_comes_from(tools: KafkaTools) -> None:
    create(tools, "shown", 1, "--config", "retention.ms=60000")
    assert set(config_values(tools, *TOPICS, "shown", "--all")) == set(topic_config.KEYS)
    said = tools.must("kafka-configs", "--describe", "--all", *TOPICS, "shown")
    assert ("  retention.ms=60000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=60000"
            ", DEFAULT_CONFIG:log.retention.ms=604800000}\n") in said
    assert ("  segment.bytes=1073741824 sensitive=false "
            "synonyms={DEFAULT_CONFIG:log.segment.bytes=1073741824}\n") in said


def test_topic_configs_are_set_and_deleted(tools: KafkaTools) -> None:
    create(tools, "altered")
    alter(tools, "--add-config", "retention.ms=1000,max.message.bytes=2000", *TOPICS, "altered")
    alter(tools, "--add-config", "visibility=appended", *TOPICS, "altered")
    assert config_values(tools, *TOPICS, "altered") == {
        "retention.ms": "1000", "max.message.bytes": "2000", "visibility": "appended"}
    alter(tools, "--delete-config", "retention.ms,visibility", *TOPICS, "altered")
    assert config_values(tools, *TOPICS, "altered") == {"max.message.bytes": "2000"}
    alter(tools, "--add-config", "cleanup.policy=[compact,delete]", *TOPICS, "altered")
    assert config_values(tools, *TOPICS, "altered")["cleanup.policy"] == "compact,delete"


def test_configs_come_from_a_file(tools: KafkaTools, tmp_path: Path) -> None:
    create(tools, "from-a-file")
    (tmp_path / "add.properties").write_text("retention.ms=5000\nsegment.ms=6000\n")
    alter(tools, "--add-config-file", str(tmp_path / "add.properties"), *TOPICS, "from-a-file")
    assert config_values(tools, *TOPICS, "from-a-file") == {
        "retention.ms": "5000", "segment.ms": "6000"}


def test_broker_configs_are_set_for_one_and_for_all(tools: KafkaTools) -> None:
    create(tools, "inherits")
    one, everyone = (*BROKERS, "--entity-name", "1"), (*BROKERS, "--entity-default")
    alter(tools, "--add-config", "log.retention.ms=80000", *everyone)
    alter(tools, "--add-config", "log.retention.ms=70000", *one)
    assert config_values(tools, *one) == {"log.retention.ms": "70000"}
    assert config_values(tools, *everyone) == {"log.retention.ms": "80000"}
    assert config_values(tools, *TOPICS, "inherits", "--all")["retention.ms"] == "70000"
    alter(tools, "--delete-config", "log.retention.ms", *one)
    assert config_values(tools, *TOPICS, "inherits", "--all")["retention.ms"] == "80000"
    alter(tools, "--delete-config", "log.retention.ms", *everyone)
    assert config_values(tools, *everyone) == {}
    assert config_values(tools, *TOPICS, "inherits", "--all")["retention.ms"] == "604800000"


def test_every_broker_config_is_shown(tools: KafkaTools) -> None:
    shown = config_values(tools, *BROKERS, "--entity-name", "1", "--all")
    assert {name: shown[name] for name in ("node.id", "broker.id", "message.max.bytes",
                                           "num.partitions", "log.roll.ms")} == {
        "node.id": "1", "broker.id": "1", "message.max.bytes": "1048588", "num.partitions": "1",
        "log.roll.ms": "604800000"}


@pytest.mark.parametrize(("change", "message"), [
    ("retention.ms=-7", "retention.ms: got '-7', wanted a whole number of 64 bits of at least -1"),
    ("retention.ms=soon", "retention.ms: got 'soon', wanted a whole number of 64 bits"),
    ("cleanup.policy=burn", "cleanup.policy: got 'burn', wanted a list of 'compact', 'delete'"),
    ("message.timestamp.type=Never", "wanted one of 'CreateTime', 'LogAppendTime'"),
    ("min.cleanable.dirty.ratio=1.5", "min.cleanable.dirty.ratio: got '1.5', wanted a number"),
    ("preallocate=perhaps", "preallocate: got 'perhaps', wanted true or false"),
    ("no.such.config=1", "no.such.config: there is no such topic config"),
])
def test_a_bad_topic_config_is_refused_in_words(
    tools: KafkaTools, change: str, message: str
) -> None:
    tools.must("kafka-topics", "--create", "--if-not-exists", "--topic", "stays")
    said = tools.refused("kafka-configs", "--alter", "--add-config", change, *TOPICS, "stays")
    assert f"InvalidConfigurationException: {message}" in said or message in said
    assert config_values(tools, *TOPICS, "stays") == {}


@pytest.mark.parametrize(("words", "message"), [
    ((*TOPICS, "nowhere", "--add-config", "retention.ms=1"), "there is no topic 'nowhere'"),
    ((*BROKERS, "--entity-name", "1", "--add-config", "num.network.threads=7"),
     "num.network.threads: is read once, at the start of the broker"),
    ((*BROKERS, "--entity-name", "1", "--add-config", "log.retention.ms=x"),
     "log.retention.ms: got 'x', wanted a whole number of 64 bits"),
], ids=lambda given: None if isinstance(given, str) else given[-1])
def test_a_config_of_nothing_is_refused_in_words(
    tools: KafkaTools, words: tuple[str, ...], message: str
) -> None:
    assert message in tools.refused("kafka-configs", "--alter", *words)


# Records, offsets, sizes


def offsets(tools: KafkaTools, *words: str) -> dict[str, int]:
    lines = tools.must("kafka-get-offsets", *words).split()
    return {name: int(offset) for name, _, offset in (each.rpartition(":") for each in lines)}


def test_what_is_produced_is_consumed(tools: KafkaTools) -> None:
    create(tools, "console")
    produce(tools, "console", "h:1,g:2\tk\tv\nNONE\tNONE\tv2\na:1\tk3\tNONE\n",
            "--reader-property", "parse.headers=true", "--reader-property", "parse.key=true",
            "--reader-property", "null.marker=NONE")
    wanted = ["Partition:0\tOffset:0\th:1,g:2\tk\tv",
              "Partition:0\tOffset:1\tNO_HEADERS\tnull\tv2",
              "Partition:0\tOffset:2\ta:1\tk3\tnull"]
    shown = [word for name in ("partition", "offset", "headers", "key")
             for word in ("--formatter-property", f"print.{name}=true")]
    for first, name in enumerate(("earliest", "1", "2")):
        said = tools.must(
            "kafka-console-consumer", "--topic", "console", "--partition", "0", "--offset", name,
            "--max-messages", str(3 - first), "--command-property", "fetch.max.wait.ms=50", *shown)
        assert said.splitlines() == wanted[first:]


def test_offsets_are_told_by_name_and_by_time(tools: KafkaTools) -> None:
    create(tools, "timed")
    before_ms = int(time.time() * 1000)
    produce(tools, "timed", "a\nb\nc\n", "--compression-codec", "zstd")
    for names, wanted in {
        ("-1", "latest"): {"timed:0": 3},
        ("-2", "earliest", "0", str(before_ms)): {"timed:0": 0},
        ("-3", "max-timestamp"): None,
        ("-4", "earliest-local"): {"timed:0": 0},
        ("-5", "latest-tiered", "-6", "earliest-pending-upload", str(FAR_FUTURE_MS)): {},
    }.items():
        for name in names:
            found = offsets(tools, "--topic", "timed", "--time", name)
            # the producer's clock decides which of three lines has the largest timestamp
            assert found == wanted or (wanted is None and 0 <= found["timed:0"] < 3), name
    assert offsets(tools, "--topic-partitions", "timed:0", "--exclude-internal-topics") == {
        "timed:0": 3}
    assert "Malformed time argument soon" in tools.refused(
        "kafka-get-offsets", "--topic", "timed", "--time", "soon")


def deletion(folder: Path, offsets_wanted: dict[str, int]) -> str:
    rows = [{"topic": topic, "partition": 0, "offset": offset}
            for topic, offset in offsets_wanted.items()]
    path = folder / "delete.json"
    path.write_text(json.dumps({"partitions": rows, "version": 1}))
    return str(path)


def test_records_are_deleted_up_to_an_offset(tools: KafkaTools, tmp_path: Path) -> None:
    for topic in ("shortened", "emptied", "too-short"):
        create(tools, topic)
        produce(tools, topic, "a\nb\nc\n")
    said = tools.must("kafka-delete-records", "--offset-json-file",
                      deletion(tmp_path, {"shortened": 2, "emptied": -1, "too-short": 4}))
    assert set(said.splitlines()[2:]) == {
        "partition: shortened-0\tlow_watermark: 2",
        "partition: emptied-0\tlow_watermark: 3",
        "partition: too-short-0\terror: org.apache.kafka.common.errors.OffsetOutOfRangeException: "
        "The requested offset is not within the range of offsets maintained by the server.",
    }
    for topic, first in {"shortened": 2, "emptied": 3, "too-short": 0}.items():
        assert offsets(tools, "--topic", topic, "--time", "earliest") == {f"{topic}:0": first}
    said = tools.must("kafka-console-consumer", "--topic", "shortened", "--partition", "0",
                      "--offset", "earliest", "--max-messages", "1")
    assert said == "c\n"


def test_the_log_directory_tells_the_size_of_each_partition(tools: KafkaTools) -> None:
    create(tools, "sized", 2)
    produce(tools, "sized", "x" * 5000 + "\n")
    rows = {each["partition"]: each for each in log_dir(tools, "--topic-list", "sized")}
    assert set(rows) == {"sized-0", "sized-1"}
    assert sorted(each["size"] > 5000 for each in rows.values()) == [False, True]
    assert {(each["offsetLag"], each["isFuture"]) for each in rows.values()} == {(0, False)}
    assert len(log_dir(tools)) > len(rows)


def log_dir(tools: KafkaTools, *words: str) -> list[Any]:
    said = tools.must("kafka-log-dirs", "--describe", "--broker-list", "1", *words).splitlines()
    (broker,) = json.loads(said[2])["brokers"]
    (folder,) = broker["logDirs"]
    assert (broker["broker"], folder["error"], Path(folder["logDir"]).name) == (1, None, "data")
    found: list[Any] = folder["partitions"]
    return found


@pytest.mark.parametrize(
    "acks", gate_has(["all"], "the Java client has all acks in ClientChecks", ["0", "1", "all"])
)
def test_the_performance_tool_sends_all_its_records(tools: KafkaTools, acks: str) -> None:
    topic = f"perf-{acks}"
    create(tools, topic)
    said = tools.must("kafka-producer-perf-test", "--topic", topic, "--num-records", "2000",
                      "--record-size", "100", "--throughput", "-1", "--command-property",
                      f"acks={acks}", "--print-metrics")
    assert re.search(r"^2000 records sent, [\d.]+ records/sec", said, re.MULTILINE)
    assert offsets(tools, "--topic", topic) == {f"{topic}:0": 2000}


@pytest.mark.release("a second tool around the Java client")
def test_the_consumer_performance_tool_reads_all_records(tools: KafkaTools) -> None:
    create(tools, "perf-read")
    tools.must("kafka-producer-perf-test", "--topic", "perf-read", "--num-records", "2000",
               "--record-size", "100", "--throughput", "-1")
    said = tools.must("kafka-consumer-perf-test", "--topic", "perf-read", "--num-records", "2000",
                      "--command-property", "auto.offset.reset=earliest")
    head, line = said.splitlines()
    found = dict(zip(head.split(", "), line.split(", "), strict=True))
    assert found["data.consumed.in.nMsg"] == "2000"
    assert float(found["data.consumed.in.MB"]) == pytest.approx(2000 * 100 / 2**20, abs=1e-4)


@pytest.mark.release("a second tool around the Java client")
def test_each_record_comes_back_before_the_next_is_sent(tools: KafkaTools) -> None:
    create(tools, "latency")
    said = tools.must("kafka-e2e-latency", "--topic", "latency", "--num-records", "200",
                      "--producer-acks", "all", "--record-size", "100")
    assert re.search(r"^Avg latency: [\d.]+ ms$", said, re.MULTILINE)
    assert offsets(tools, "--topic", "latency") == {"latency:0": 200}


def test_the_verifiable_producer_hears_of_each_record(tools: KafkaTools) -> None:
    create(tools, "verified")
    # it calls System.exit, so it needs its own JVM
    said = kafka_jars.must_run(
        TOOLS["kafka-verifiable-producer"], "--bootstrap-server", tools.address,
        "--topic", "verified", "--max-messages", "50", "--value-prefix", "7",
        "--repeating-keys", "5")
    rows = [json.loads(line) for line in said.splitlines()]
    sent = [each for each in rows if each["name"] == "producer_send_success"]
    assert [(each["offset"], each["key"], each["value"]) for each in sent] == [
        (number, str(number % 5), f"7.{number}") for number in range(50)]
    (total,) = [each for each in rows if each["name"] == "tool_data"]
    assert (total["sent"], total["acked"]) == (50, 50)


# The broker and its cluster


def test_the_versions_of_each_api_are_those_we_serve(tools: KafkaTools) -> None:
    said = tools.must("kafka-broker-api-versions")
    head, *lines, end = said.splitlines()
    assert (head, end) == (f"{tools.address} (id: 1 rack: null isFenced: false) -> (", ")")
    rows = [re.fullmatch(r"\t\w+\((\d+)\): (\d+)(?: to (\d+))? \[usable: (\d+)\],?", line)
            for line in lines if "UNSUPPORTED" not in line]
    assert all(rows), lines
    found = {int(row[1]): (int(row[2]), int(row[3] or row[2])) for row in rows if row}
    assert found == SERVED
    assert {int(row[1]): int(row[4]) for row in rows if row} == {
        key: min(API[key].versions[1], last) for key, (_, last) in SERVED.items()}


def test_the_cluster_is_one_broker(tools: KafkaTools) -> None:
    said = tools.must("kafka-cluster", "cluster-id")
    match = re.fullmatch(r"Cluster ID: ([\w-]{22})\n", said)
    assert match
    host, port = tools.address.split(":")
    assert tools.must("kafka-cluster", "list-endpoints").splitlines()[1].split() == [
        "1", host, port, "null", "unfenced", "broker"]
    status = dict(re.split(r":\s+", line, maxsplit=1) for line in tools.must(
        "kafka-metadata-quorum", "describe", "--status").splitlines())
    assert (status["ClusterId"], status["LeaderId"], status["CurrentObservers"]) == (
        match[1], "1", "[]")
    (voter,) = json.loads(status["CurrentVoters"])
    assert voter == {"id": 1, "endpoints": [f"PLAINTEXT://{tools.address}"]}
    _, replica = tools.must("kafka-metadata-quorum", "describe", "--replication").splitlines()
    assert (replica.split()[0], replica.split()[-1]) == ("1", "Leader")


def test_the_one_broker_cannot_be_unregistered(tools: KafkaTools) -> None:
    assert "broker 1 is the only one" in tools.refused("kafka-cluster", "unregister", "--id", "1")
    assert "got broker 7" in tools.refused("kafka-cluster", "unregister", "--id", "7")


def test_the_features_are_told_and_stay(tools: KafkaTools) -> None:
    rows = [row.split() for row in tools.must("kafka-features", "describe").splitlines()]
    # name, lowest, highest, in force
    assert [row[1:8:2] for row in rows] == [
        ["group.version", "0", "1", "1"], ["share.version", "0", "1", "1"],
        ["streams.version", "0", "1", "1"],
        ["transaction.version", "0", "2", "2"]]
    assert "stays" in tools.refused(
        "kafka-features", "downgrade", "--feature", "transaction.version=1")
    said = tools.refused("kafka-features", "upgrade", "--feature", "kraft.version=1")
    assert "kraft.version" in said


def test_the_one_broker_leads_already(tools: KafkaTools) -> None:
    create(tools, "led", 2)
    assert tools.must("kafka-leader-election", "--election-type", "preferred",
                      "--all-topic-partitions") == ""
    assert tools.must("kafka-leader-election", "--election-type", "unclean", "--topic", "led",
                      "--partition", "1") == "Valid replica already elected for partitions led-1\n"
    assert "led-7" in tools.refused("kafka-leader-election", "--election-type", "preferred",
                                    "--topic", "led", "--partition", "7")
