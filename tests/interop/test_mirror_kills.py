"""The mirror is killed under load: with an appliance and with a real Apache Kafka as the source,
both sides have the same records at the end, each once."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from appliance.testing import RunningBroker, running_broker
from tests.interop.kafka_broker import KafkaBroker
from tests.interop.test_restart import Restarted
from tests.support.mirror_load import Load, MirrorProcess, held, kill_often
from tests.support.release import gate_has

KILLS = int(os.environ.get("MIRROR_KILLS", "5"))
SEED = int(os.environ.get("MIRROR_SEED", "1"))
PARTITIONS = 3


@pytest.fixture
def source(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "source") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("t", PARTITIONS)])["t"].result(30)
        yield broker


def killed_under_load(source: str, target: str, with_offsets: bool, *arguments: str) -> int:
    """The number of records on both sides, after their comparison."""
    process = MirrorProcess(source, target, "--topics", "t", *arguments)
    load = Load(source, "t", PARTITIONS, SEED)
    try:
        kill_often(process, KILLS, SEED)
    finally:
        produced = load.stop()
    process.finish()
    compare(source, target, with_offsets, produced)
    return produced


def compare(source: str, target: str, with_offsets: bool, produced: int) -> None:
    """Counts and hashes of every partition."""
    there, here = held(source, "t", with_offsets), held(target, "t", with_offsets)
    assert here == there
    assert sum(count for count, _ in there.values()) == produced


def test_behind_an_appliance_offsets_are_the_same(tmp_path: Path, source: RunningBroker) -> None:
    with running_broker(tmp_path / "target") as target:
        assert killed_under_load(source.bootstrap, target.bootstrap, True) > 0


def test_behind_an_appliance_that_gives_its_own_offsets(
    tmp_path: Path, source: RunningBroker
) -> None:
    with running_broker(tmp_path / "target") as target:
        assert killed_under_load(source.bootstrap, target.bootstrap, False, "--offsets", "map",
                                 "--commit-interval-ms", "300") > 0


@pytest.mark.parametrize(
    "offsets", gate_has(["map"], "kills of the mirror with kept offsets are above", ["keep", "map"])
)
def test_a_target_that_is_killed_itself(
    offsets: str, tmp_path: Path, source: RunningBroker
) -> None:
    chance = random.Random(SEED)
    with closing(Restarted(tmp_path / "target")) as target:
        process = MirrorProcess(source.bootstrap, target.address, "--topics", "t", "--offsets",
                                offsets, "--commit-interval-ms", "300",
                                "--set", "retry_backoff_max_ms=500")
        load = Load(source.bootstrap, "t", PARTITIONS, SEED)
        process.start()
        try:
            for _ in range(KILLS):
                time.sleep(chance.uniform(0.5, 2.5))  # the kill should hit any moment
                target.kill()
        finally:
            produced = load.stop()
            process.kill()
        process.finish()
        compare(source.bootstrap, target.address, offsets == "keep", produced)


def test_behind_apache_kafka(tmp_path: Path, source: RunningBroker) -> None:
    with KafkaBroker(tmp_path / "target") as target:
        said = subprocess.run(
            [sys.executable, "-m", "appliance", "mirror", "--from", source.bootstrap,
             "--to", target.address, "--topics", "t", "--offsets", "keep"],
            capture_output=True, text=True, timeout=60, check=False)
        assert said.returncode == 1
        assert "is no appliance" in said.stderr
        count = killed_under_load(source.bootstrap, target.address, False,
                                  "--commit-interval-ms", "300")
        # and back, out of Kafka with its markers, into an appliance that keeps Kafka's offsets
        with running_broker(tmp_path / "back") as back:
            MirrorProcess(target.address, back.bootstrap, "--topics", "t").finish()
            compare(target.address, back.bootstrap, True, count)
