"""One run of a real Kafka broker serves every test that needs what it wrote."""

from __future__ import annotations

import pytest

from tests.interop import kafka_logs
from tests.interop.kafka_logs import KafkaLogs


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> KafkaLogs:
    return kafka_logs.write(tmp_path_factory.mktemp("kafka"))
