"""A broker, a target of backups, and brokers on what was restored from it; with a real client."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient, NewTopic

from appliance.testing import RunningBroker, running_broker
from tests.support.shell import Shell

DEADLINE_S = 30.0
QUIET = {"log_level": 0, "reconnect.backoff.max.ms": 100}
SMALL_SEGMENTS = {"segment.bytes": "10000"}
NO_CONFIG: Mapping[str, str] = {}


class Backups:
    """`appliance backup` for one target. The broker is the one that is given each time."""

    def __init__(self, folder: Path, target: str = "") -> None:
        self.folder = folder
        self.target = target or str(folder / "target")
        self._numbers = itertools.count()

    def create(self, broker: RunningBroker, *more: str) -> dict[str, Any]:
        found: dict[str, Any] = Shell("").json(
            "backup create", "--target", self.target, "--admin", broker.admin, *more
        )
        return found

    def made(self, broker: RunningBroker) -> dict[str, Any]:
        """One that is not good, by its exit code."""
        result = Shell("").run(
            "backup create --json", "--target", self.target, "--admin", broker.admin
        )
        assert result.exit_code == 10, result.output
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    def list(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = Shell("").json("backup list", "--target", self.target)
        return found

    def verify(self, *more: str) -> tuple[int, dict[str, Any]]:
        """The exit code, and what was found."""
        result = Shell("").run("backup verify --json", "--target", self.target, *more)
        return result.exit_code, json.loads(result.stdout) if result.stdout else {}

    def restore(self, *more: str) -> Path:
        data = self.folder / f"restored-{next(self._numbers)}"
        Shell("").out("backup restore", "--target", self.target, "--data-dir", str(data), *more)
        return data

    @contextmanager
    def restored(self, *more: str) -> Iterator[RunningBroker]:
        with running_broker(self.restore(*more)) as broker:
            yield broker

    def files(self, folder: str = "objects") -> list[Path]:
        return sorted(path for path in (Path(self.target) / folder).rglob("*") if path.is_file())


def numbered(first: int, end: int, text: str = "v") -> list[str]:
    return [f"{text}{number:05d}{'.' * 100}" for number in range(first, end)]


def make_topic(
    broker: RunningBroker, name: str, partitions: int = 1, config: Mapping[str, str] = NO_CONFIG
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, **QUIET})
    wanted = NewTopic(name, partitions, config=dict(config))
    admin.create_topics([wanted])[name].result(DEADLINE_S)


def produce(broker: RunningBroker, topic: str, values: list[str], partition: int = 0) -> None:
    """Acknowledged when it returns."""
    failed: list[Any] = []
    few = {"batch.num.messages": 50}  # a batch fits into small segments
    producer = ck.Producer({"bootstrap.servers": broker.bootstrap, **few, **QUIET})
    for each in values:
        producer.produce(
            topic, each, partition=partition, on_delivery=lambda e, _: e and failed.append(e)
        )
    assert producer.flush(DEADLINE_S) == 0
    assert not failed, failed[0]


def consumed(
    broker: RunningBroker, topic: str, partition: int = 0, start: int = 0
) -> list[tuple[int, str]]:
    """Offsets and values of all committed records."""
    place = ck.TopicPartition(topic, partition, start)
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "reader", **QUIET,
                "enable.partition.eof": True, "enable.auto.commit": False,
                "auto.offset.reset": "error"}  # fmt: skip
    found: list[tuple[int, str]] = []
    with closing(ck.Consumer(settings)) as consumer:
        consumer.assign([place])
        while True:
            message = consumer.poll(DEADLINE_S)
            assert message is not None, f"nothing came behind {found[-1:]}"
            if message.error():
                assert message.error().code() == ck.KafkaError._PARTITION_EOF, message.error()
                return found
            found.append((message.offset(), message.value().decode()))


def values(broker: RunningBroker, topic: str, partition: int = 0, start: int = 0) -> list[str]:
    return [value for _, value in consumed(broker, topic, partition, start)]


def commit(broker: RunningBroker, group: str, topic: str, offset: int) -> None:
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": group, **QUIET}
    with closing(ck.Consumer(settings)) as consumer:
        consumer.commit(offsets=[ck.TopicPartition(topic, 0, offset)], asynchronous=False)


def committed(broker: RunningBroker, group: str, topic: str) -> int:
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": group, **QUIET}
    with closing(ck.Consumer(settings)) as consumer:
        (found,) = consumer.committed([ck.TopicPartition(topic, 0)], timeout=DEADLINE_S)
        return int(found.offset)


def transactional(bootstrap: str, name: str) -> ck.Producer:
    producer = ck.Producer({"bootstrap.servers": bootstrap, "transactional.id": name, **QUIET})
    producer.init_transactions(DEADLINE_S)
    return producer
