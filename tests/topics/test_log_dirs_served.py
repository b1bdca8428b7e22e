"""Several directories of records as clients and people see them: an unmodified client, Kafka's
requests, and our commands."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import Any

import confluent_kafka as ck
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient, NewTopic

from appliance.cli.main import main
from appliance.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from appliance.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from appliance.protocol.messages.metadata import MetadataRequest
from tests.support.logs import until
from tests.support.remote_control import RemoteControl
from tests.support.serving import Serving

DEADLINE_S = 20.0
COUNT = 4


class Site:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.paths = [str(root / each) for each in ("a", "b")]
        self.start()

    def start(self) -> None:
        settings = {
            "log.dirs": ",".join(self.paths),
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.num.partitions": 1,
        }
        self.broker = Serving(self.root / "broker", **settings)
        self.address = ":".join(map(str, self.broker.kafka))
        self.control = RemoteControl(self.broker.kafka)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.control.close()
        self.broker.stop(number)

    def described(self) -> dict[str, Any]:
        answer = self.control.ask(DescribeLogDirsRequest(None), 4)
        return {each.log_dir: each for each in answer.results}

    def move_away(self, topic: str) -> None:
        """Its only partition, to the other directory, and waits for it."""
        a, b = self.paths
        own, other = (a, b) if self.partitions(a, topic=topic) else (b, a)
        assert self.move(other, 0, topic=topic) == [0]
        until(lambda: self.partitions(own, topic=topic) == [], DEADLINE_S)
        assert self.partitions(other, topic=topic) == [0]

    def partitions(self, path: str, is_future: bool = False, topic: str = "t") -> list[int]:
        return sorted(
            each.partition_index
            for found in self.described()[path].topics
            for each in found.partitions
            if found.name == topic and each.is_future_key is is_future
        )

    def move(self, path: str, *partitions: int, topic: str = "t") -> list[int]:
        moved = AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(topic, list(partitions))
        asked = AlterReplicaLogDirsRequest(
            [AlterReplicaLogDirsRequest.AlterReplicaLogDir(path, [moved])]
        )
        (answer,) = self.control.ask(asked, 2).results
        return [each.error_code for each in answer.partitions]

    def produce(self, value: str, timeout_s: float = DEADLINE_S) -> list[int]:
        """To every partition; those to which it was written."""
        acknowledged: list[int] = []
        producer = ck.Producer({
            "bootstrap.servers": self.address, "acks": "all",
            "message.timeout.ms": round(1000 * timeout_s), "log_level": 0,
        })  # fmt: skip

        def hear(error: Any, message: ck.Message) -> None:
            if error is None:
                acknowledged.append(message.partition())

        for each in range(COUNT):
            producer.produce("t", value.encode(), partition=each, on_delivery=hear)
        producer.flush(DEADLINE_S)
        return sorted(acknowledged)

    def consume(self, count: int) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {each: [] for each in range(COUNT)}
        consumer = ck.Consumer({
            "bootstrap.servers": self.address, "group.id": "g", "log_level": 0,
            "enable.auto.commit": False,
        })  # fmt: skip
        consumer.assign([ck.TopicPartition("t", each, 0) for each in range(COUNT)])

        def has_all() -> bool:
            for each in consumer.consume(100, 0.2):
                assert each.error() is None
                found[each.partition()].append(each.value().decode())
            return sum(map(len, found.values())) >= count

        until(has_all, DEADLINE_S)
        consumer.close()
        return found

    def command(self, *arguments: str) -> str:
        answer = CliRunner().invoke(
            main, ["log", "dirs", "--admin", self.broker.admin, *arguments]
        )
        assert answer.exit_code in (0, 1), answer.output
        return answer.output


def test_partitions_move_and_a_disk_is_away(tmp_path: Path) -> None:
    site = Site(tmp_path)
    a, b = site.paths
    admin = AdminClient({"bootstrap.servers": site.address})
    admin.create_topics([NewTopic("t", COUNT)])["t"].result(DEADLINE_S)
    assert site.produce("first") == [0, 1, 2, 3]
    own, others = site.partitions(a), site.partitions(b)
    assert (len(own), len(others)) == (2, 2)
    space = site.described()[a]
    assert (space.error_code, space.total_bytes) == (0, shutil.disk_usage(a).total)

    moved, stays = others
    assert site.move(a, moved, 9) == [0, 3]
    assert site.move("/elsewhere", moved) == [57]
    until(lambda: site.partitions(a) == sorted([*own, moved]), DEADLINE_S)
    assert site.partitions(a, is_future=True) == site.partitions(b, is_future=True) == []
    assert site.produce("second") == [0, 1, 2, 3]
    assert site.consume(8) == {each: ["first", "second"] for each in range(COUNT)}

    site.stop(signal.SIGKILL)
    (tmp_path / "b").rename(tmp_path / "unmounted")
    (tmp_path / "b").mkdir()
    site.start()
    assert "b: offline, 1 partition: " in site.command()
    found = site.described()
    assert (found[a].error_code, found[b].error_code) == (0, 56)
    (topic,) = site.control.ask(MetadataRequest(
        [MetadataRequest.MetadataRequestTopic(name="t")]), 9).topics  # fmt: skip
    rows = {each.partition_index: each for each in topic.partitions}
    assert (rows[stays].leader_id, rows[stays].offline_replicas) == (-1, [1])
    assert (rows[moved].leader_id, rows[moved].offline_replicas) == (1, [])
    assert site.move(b, moved) == [56]
    assert site.produce("third", timeout_s=8.0) == sorted([*own, moved])
    assert "has no directory.id" in site.command("--reopen", b, "--yes")

    shutil.rmtree(b)
    (tmp_path / "unmounted").rename(b)
    assert f"{b} is open, with 1 partition" in site.command("--reopen", b, "--yes")
    assert site.produce("fourth") == [0, 1, 2, 3]
    both = ["first", "second", "third", "fourth"]
    wanted = dict.fromkeys([*own, moved], both) | {stays: ["first", "second", "fourth"]}
    assert site.consume(15) == wanted
    assert "a: 3 partitions, " in site.command()
    site.stop()


def test_what_groups_and_transactions_are_about_may_move(tmp_path: Path) -> None:
    site = Site(tmp_path)
    admin = AdminClient({"bootstrap.servers": site.address})
    admin.create_topics([NewTopic("t", 1)])["t"].result(DEADLINE_S)
    producer = ck.Producer(
        {"bootstrap.servers": site.address, "transactional.id": "x", "log_level": 0}
    )
    producer.init_transactions(DEADLINE_S)
    consumer = ck.Consumer({
        "bootstrap.servers": site.address, "group.id": "g", "log_level": 0,
        "enable.auto.commit": False,
    })  # fmt: skip
    place = ck.TopicPartition("t", 0)
    for number in range(3):
        producer.begin_transaction()
        producer.produce("t", b"%d" % number)
        producer.flush(DEADLINE_S)
        for topic in ("t", "__transaction_state"):  # while it is open
            site.move_away(topic)
        producer.send_offsets_to_transaction(
            [ck.TopicPartition("t", 0, number)], consumer.consumer_group_metadata(), DEADLINE_S
        )
        site.move_away("__consumer_offsets")
        producer.commit_transaction(DEADLINE_S)
        (committed,) = consumer.committed([place], DEADLINE_S)
        assert committed.offset == number
    consumer.assign([ck.TopicPartition("t", 0, 0)])
    values: list[bytes] = []
    until(lambda: values.extend(each.value() for each in consumer.consume(10, 0.2))
          or len(values) >= 3, DEADLINE_S)  # fmt: skip
    assert values == [b"0", b"1", b"2"]
    consumer.close()
    site.stop()
