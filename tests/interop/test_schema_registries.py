"""Apicurio's registry, with its storage in this broker, and the records of its schemas."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from confluent_kafka import Producer

from appliance.testing import running_broker
from tests.admin.test_admin_topic_schemas import avro, order
from tests.admin.test_schema_registry import ROW, WHOLE_ORDER, by_schema
from tests.support import registry_schemas
from tests.support.registry_servers import apicurio, apicurio_jar
from tests.support.rest import Rest

WHY = "6 s of a processor for each start; tests/admin/test_schema_registry.py repeats its answers"
LATE_S = 60.0


@pytest.fixture(scope="module")
def jar() -> Path:
    return apicurio_jar()


@pytest.mark.release(WHY)
def test_apicurio_keeps_its_schemas_here_and_the_console_decodes_by_them(
    jar: Path, tmp_path: Path
) -> None:
    with running_broker(tmp_path / "storage") as storage:
        with apicurio(storage.bootstrap, tmp_path) as url:
            found = registry_schemas.record(url)
        assert found == registry_schemas.recorded("apicurio"), "the gate repeats something else"
        with apicurio(storage.bootstrap, tmp_path) as url:  # which reads it all back
            decode_by(url, found.ids, tmp_path / "data")


def decode_by(url: str, ids: dict[str, int], data_dir: Path) -> None:
    values = [
        struct.pack(">BI", 0, ids["orders-value"]) + avro(WHOLE_ORDER, ROW),
        struct.pack(">BI", 0, ids["paid-value"]) + b"\0" + order(id=7),
        struct.pack(">BI", 0, ids["people-value"]) + b'{"name": "Ada"}',
    ]
    with running_broker(data_dir, {"schema.registry.url": url}) as broker:
        rest = Rest(broker.admin)
        rest.post("/topics", {"name": "orders", "partitions": 1})
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for each in values:
            producer.produce("orders", each)
        assert producer.flush(LATE_S) == 0
        shown = by_schema(rest, "orders")
        assert [json.loads(each["text"]) for each in shown] == [ROW, {"id": "7"}, {"name": "Ada"}]
        assert [each["schema"]["subject"] for each in shown] == [
            "orders-value", "paid-value", "people-value"]
