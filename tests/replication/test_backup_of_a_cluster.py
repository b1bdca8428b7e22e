"""Backups of brokers of a cluster: what counts is in them, what never did is not, and what is on
other brokers is named, or read there."""

from __future__ import annotations

import json
import re
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from click.testing import CliRunner

from appliance.cli.main import main
from appliance.record.batch_bounds import batches_in
from appliance.testing import running_broker
from appliance.zookeeper.server import ZooKeeperServer
from tests.support.backups import Backups, committed, make_topic, produce, transactional, values
from tests.support.logs import until
from tests.support.rest import Rest
from tests.support.shell import Shell
from tests.support.three_brokers import DEADLINE_S, Brokers, brokers

MISSING = 10  # the exit code
COMMIT = b"\0\0\0\1"  # key of a marker: version and type
KEY_AT = 61 + 5  # behind the head of its batch, and five numbers of one byte


@pytest.fixture
def two(
    server: ZooKeeperServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Brokers]:
    root = "/tests/" + re.sub(r"\W", "-", request.node.name)
    with brokers(server, root, tmp_path / "cluster") as found:
        found.start(1, 2)
        yield found


@pytest.fixture
def backups(tmp_path: Path) -> Backups:
    return Backups(tmp_path)


def create(backups: Backups, cluster: Brokers, *more: str) -> tuple[int, dict[str, Any]]:
    """Of the first broker."""
    admin = cluster.running[1].admin
    told = Shell(admin).run("backup create --json --target", backups.target, *more)
    return told.exit_code, json.loads(told.stdout)


def leaders(cluster: Brokers, topic: str, partitions: int, factor: int) -> list[int]:
    return [
        cluster.until(topic, lambda it: it.leader != -1 and len(it.isrs) == factor, each).leader
        for each in range(partitions)
    ]


def test_what_a_broker_follows_is_in_its_backup_and_what_it_does_not_have_is_named(
    two: Brokers, backups: Backups
) -> None:
    two.create("both", partitions=2, factor=2)
    two.create("spread", partitions=2, factor=1)
    spread = leaders(two, "spread", 2, 1)
    assert {*leaders(two, "both", 2, 2)} == {1, 2} == {*spread}
    away = spread.index(2)
    for each in range(2):
        two.produce("both", [f"b{each}-{i}" for i in range(100)], each)
        two.produce("spread", [f"s{each}"], each)
    member = two.member("g", "both")
    member.take(200)
    member.commit()
    member.close()

    code, made = create(backups, two)
    offsets = f"__consumer_offsets-{two.place_of('g')}"
    assert code == MISSING
    where = f"is led by broker 2 ({two.address(2)})"
    assert (f"spread-{away} is not served: not on this broker: spread-{away} {where}"
            in made["missing"])  # fmt: skip
    assert offsets not in "".join(made["missing"])
    restored = Path(backups.restore())
    with running_broker(restored) as broker:
        for each in range(2):
            assert values(broker, "both", each) == [f"b{each}-{i}" for i in range(100)]
        assert values(broker, "spread", 1 - away) == [f"s{1 - away}"]
        assert values(broker, "spread", away) == []
        assert committed(broker, "g", "both") == 100
        assert Rest(broker.admin).get("/topics/both")["is_replicated"] is False
        make_topic(broker, "new")
        produce(broker, "both", ["goes on"])


@pytest.mark.release("two brokers are started again, and two of another cluster")
def test_several_brokers_are_one_backup_that_begins_a_new_cluster(
    two: Brokers, backups: Backups, server: ZooKeeperServer, tmp_path: Path
) -> None:
    two.create("spread", partitions=4, factor=1)
    assert {*leaders(two, "spread", 4, 1)} == {1, 2}
    for each in range(4):
        two.produce("spread", [f"s{each}-{i}" for i in range(50)], each)
    producer = transactional(two.bootstrap, "x")
    producer.begin_transaction()
    producer.produce("spread", "decided", partition=0)
    producer.commit_transaction(DEADLINE_S)
    also = ("--also", two.running[2].admin)
    code, made = create(backups, two, *also)
    assert (code, made["missing"]) == (0, [])
    two.produce("spread", ["more"], 3)
    code, again = create(backups, two, *also)
    assert code == 0
    assert again["read_bytes"] < made["read_bytes"] / 2

    restored = backups.restore()
    with brokers(server, "/tests/new-cluster", tmp_path / "new") as new:
        (tmp_path / "new" / "7").mkdir(parents=True)
        restored.rename(tmp_path / "new" / "7" / "data")
        new.start(7)
        for each in range(3):
            new.until("spread", lambda it: it.leader == 7, each)
            wanted = [f"s{each}-{i}" for i in range(50)] + ["decided"] * (each == 0)
            assert new.consume("spread", len(wanted), each) == wanted
        new.produce("spread", ["goes on"], 3)
        new.start(8)
        words = ["cluster", "--zookeeper", new.zookeeper, "replicate", "--yes"]
        replicated = CliRunner().invoke(main, words, catch_exceptions=False)
        assert replicated.exit_code == 0, replicated.output
        new.stop(7)  # the restored one
        for each in range(4):
            new.until("spread", lambda it: it.leader == 8, each)
        wanted = [f"s3-{i}" for i in range(50)] + ["more", "goes on"]
        assert new.consume("spread", len(wanted), 3) == wanted

    two.stop(2, signal.SIGKILL)
    code, made = create(backups, two, *also)
    assert code == MISSING
    assert any("did not answer" in each for each in made["missing"])


@pytest.mark.release("a broker is killed, and its session ends")
def test_what_never_counted_is_in_no_backup(two: Brokers, backups: Backups) -> None:
    two.create("t", factor=2, min_insync_replicas="2")
    found = two.until("t", lambda it: len(it.isrs) == 2)
    two.produce("t", ["counts"])
    if found.leader == 2:
        two.stop(2)
        two.start(2)
        two.until("t", lambda it: it.leader == 1 and len(it.isrs) == 2)
    two.stop(2, signal.SIGKILL)
    two.until("t", lambda it: [*it.isrs] == [1])
    two.produce("t", ["does not"], acks="1")
    create(backups, two)
    with backups.restored() as broker:
        assert values(broker, "t") == ["counts"]


def decided(data: Path, topic: str) -> Counter[int]:
    """How many commits it has of each producer."""
    files = b"".join(each.read_bytes() for each in sorted((data / f"{topic}-0").glob("*.log")))
    ends = [each for each in batches_in(files) if each.is_control]
    keys = [files[each.position + KEY_AT : each.position + KEY_AT + len(COMMIT)] for each in ends]
    return Counter(it.producer_id for it, key in zip(ends, keys, strict=True) if key == COMMIT)


@pytest.mark.release("producers in transactions, at two coordinators, and four restores")
def test_a_backup_has_all_of_a_transaction_or_nothing(two: Brokers, backups: Backups) -> None:
    """Also of one that another broker coordinates. What was decided and not marked everywhere is
    finished by who starts from it."""
    for topic in ("from", "to"):
        two.create(topic, factor=2)
        two.until(topic, lambda it: len(it.isrs) == 2)
    is_over = threading.Event()
    committed: Queue[None] = Queue()

    def move(name: str) -> None:
        producer = transactional(two.bootstrap, name)
        while not is_over.is_set():
            producer.begin_transaction()
            for topic in ("from", "to"):
                producer.produce(topic, "x", partition=0)
            producer.commit_transaction(DEADLINE_S)
            committed.put(None)

    threads = [threading.Thread(target=move, args=(f"mover-{n}",)) for n in range(4)]
    for each in threads:
        each.start()
    ids = []
    for _ in range(4):
        committed.get(timeout=DEADLINE_S)
        ids.append(create(backups, two)[1]["backup"])
    is_over.set()
    for each in threads:
        each.join()
    for backup in ids:
        data = backups.restore("--backup", backup)
        with running_broker(data):
            until(partial(is_whole, data), DEADLINE_S)
        assert decided(data, "from").total() > 0


def is_whole(data: Path) -> bool:
    return decided(data, "from") == decided(data, "to")
