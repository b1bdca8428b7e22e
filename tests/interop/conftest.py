"""One run of a real Kafka broker serves every test that needs its files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop import dump_log_segments, kafka_logs
from tests.interop.kafka_logs import KafkaLogs
from tests.support.made_once import made_once


@pytest.fixture(scope="session")
def kafka(run_folder: Path) -> KafkaLogs:
    with made_once(run_folder / "kafka") as folder:
        if folder is not None:
            kafka_logs.write(folder)
    return kafka_logs.found(run_folder / "kafka")


@pytest.fixture(scope="module", autouse=True)
def _the_jvm_of_the_dumps_ends_with_its_file() -> Iterator[None]:
    yield
    dump_log_segments.close()
