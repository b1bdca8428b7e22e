"""Of the subjects of a schema none is told that names a topic which who asks may not describe."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from appliance.admin import schema_registry
from appliance.admin.decoding import Decoders
from appliance.admin.schema_registry import Registry
from appliance.admin.topic_schemas import look_of
from appliance.config import SchemaRegistryConfig
from appliance.schemas.registry_ids import SchemaKey
from tests.support.registry_schemas import Recording
from tests.support.registry_servers import RepeatingRegistry

RECORD: Any = SimpleNamespace(key=None, value=b"\0\0\0\0\1\2", headers=[])
TOPICS = ("orders", "secret-plans", "open")


class Described(set[str]):
    is_everything = False


def subject_told(subjects: list[tuple[str, int]], described: set[str]) -> Any:
    server = RepeatingRegistry(Recording({}, {}))
    rows = [{"subject": name, "version": version} for name, version in subjects]
    server.answers = {"/schemas/ids/1": (200, {"schema": '"int"'}),
                      "/schemas/ids/1/versions": (200, rows)}  # fmt: skip

    async def asked() -> Any:
        registry = Registry(SchemaRegistryConfig(url=server.url))
        call: Any = SimpleNamespace(
            schemas=SimpleNamespace(registry=registry), broker=SimpleNamespace(topics=TOPICS),
            params={"key_as": "auto", "value_as": "auto"},
            described_topics=lambda: Described(described),
        )  # fmt: skip
        topic: Any = SimpleNamespace(name="orders")
        look = await look_of(call, topic, [RECORD], Decoders())
        await registry.close()
        return look and look.subject(SchemaKey("ids", "1"), "value")

    try:
        return asyncio.run(asked())
    finally:
        server.close()


@pytest.mark.parametrize(
    ("subjects", "told"),
    [
        ([("secret-plans-value", 3)], None),
        ([("secret-plans-com.shop.Plan", 3), ("com.shop.Plan", 2)], ("com.shop.Plan", 2)),
        ([("secret-plans-value", 3), ("open-value", 1)], ("open-value", 1)),
        ([("secret-plans-value", 3), ("orders-value", 1), ("orders-value", 4)],
         ("orders-value", 4)),
        ([("secret-recipes-value", 1)], ("secret-recipes-value", 1)),
    ],
    ids=["none", "by record", "of another topic", "its own", "of no topic"],
)
def test_a_subject_names_no_topic_that_is_hidden(
    subjects: list[tuple[str, int]], told: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_registry, "WAIT_SECONDS", 30.0)
    assert subject_told(subjects, {"orders", "open"}) == told
