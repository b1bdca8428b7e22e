"""One session for the tests of a process, and one broker for those of a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.exporting import Export, Make
from tests.support.spark_classes import start_flags
from tests.support.spark_data import Topics, end_jvm, few_commands, shared_session
from tests.support.spark_home import spark_home
from tests.support.warm_broker import WarmBroker as Broker

COMPACTS_AT_ONCE = ("log.roll.ms=200", "log.cleaner.backoff.ms=100",
                    "log.cleaner.min.cleanable.ratio=0.01")  # fmt: skip


@pytest.fixture(scope="session", autouse=True)
def _a_jvm_starts_fast() -> Iterator[None]:
    """Those of this process, and those of the commands that it starts."""
    os.environ["SPARK_HOME"] = str(spark_home())
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join(start_flags())
    yield
    end_jvm()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    settings = [word for each in COMPACTS_AT_ONCE for word in ("--set", each)]
    with Broker(tmp_path_factory.mktemp("spark") / "data", *settings) as made:
        yield made


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return shared_session(**few_commands())


@pytest.fixture(scope="module")
def topics(spark: SparkSession, broker: Broker) -> Topics:
    return Topics(spark, broker)


@pytest.fixture
def make(spark: SparkSession, topics: Topics, tmp_path: Path) -> Make:
    def make(topic: str, partitions: int = 2, **config: str) -> Export:
        topics.create(topic, partitions, **config)
        return Export(spark, topics, tmp_path / topic, topic)

    return make
