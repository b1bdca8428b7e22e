"""Schemas of a registry that are made, and named, to hold up those of others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from appliance.admin import schema_registry
from appliance.admin.schema_registry import Registry
from appliance.config import SchemaRegistryConfig
from appliance.config.setting import SettingInvalid
from appliance.schemas.registry_client import RegistryClient, SchemaUnusable
from appliance.schemas.registry_ids import SchemaKey
from tests.support.registry_schemas import Recording
from tests.support.registry_servers import RepeatingRegistry

KEY = SchemaKey("ids", "1")
LATE_S = 30.0


@pytest.fixture
def bare() -> Iterator[RepeatingRegistry]:
    """It has nothing but what a test gives it."""
    server = RepeatingRegistry(Recording({}, {}))
    yield server
    server.close()


def refers_to(subject: str) -> tuple[int, Any]:
    row = {"name": "a", "subject": subject, "version": 1}
    return 200, {"schema": '"int"', "references": [row]}


def test_what_waits_is_bounded(bare: RepeatingRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records name ever new ids, and the registry is slow: a page a second, from every viewer."""
    monkeypatch.setattr(schema_registry, "WAIT_SECONDS", 0)
    monkeypatch.setattr(schema_registry, "WAITING_MAX", 30)
    goes_on = threading.Event()
    bare.wrong = lambda _: not goes_on.wait(LATE_S)

    async def look() -> tuple[int, Any]:
        registry = Registry(SchemaRegistryConfig(url=bare.url, timeout_ms=60_000))
        for page in range(4):
            keys = [SchemaKey("ids", str(20 * page + each)) for each in range(1, 21)]
            found = await registry.known(keys)
        count = len(registry._asking)
        goes_on.set()
        await registry.close()
        return count, found[keys[-1]]

    count, last = asyncio.run(look())
    assert (count, last.problem.startswith("not asked for: ")) == (30, True)


def test_a_schema_with_slow_references_holds_up_no_other(
    bare: RepeatingRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_asked, goes_on = threading.Event(), threading.Event()

    def wrong(handler: BaseHTTPRequestHandler) -> bool:
        if "/subjects/" not in handler.path:
            return False
        is_asked.set()
        return goes_on.wait(LATE_S)

    async def until_it_is_there(found: Any, _: float) -> Any:
        task = asyncio.ensure_future(found)
        await asyncio.to_thread(is_asked.wait, LATE_S)
        task.cancel()
        await asyncio.wait([task])
        raise asyncio.TimeoutError

    monkeypatch.setattr(asyncio, "wait_for", until_it_is_there)
    bare.answers, bare.wrong = {"/schemas/ids/1": refers_to("a")}, wrong
    with pytest.raises(SchemaUnusable, match="it and what it refers to took more than 5 s"):
        asyncio.run(RegistryClient(SchemaRegistryConfig(url=bare.url)).found(KEY))
    goes_on.set()


@pytest.mark.parametrize("subject", [".", ".."])
def test_a_reference_leads_to_no_other_path(bare: RepeatingRegistry, subject: str) -> None:
    bare.answers = {"/schemas/ids/1": refers_to(subject)}
    bare.wrong = lambda handler: "/subjects/" in handler.path  # it would get no answer
    with pytest.raises(SchemaUnusable, match="got the subject"):
        asyncio.run(RegistryClient(SchemaRegistryConfig(url=bare.url)).found(KEY))


def test_an_address_has_nothing_behind_its_path() -> None:
    """What is asked for would not be in the path."""
    with pytest.raises(SettingInvalid, match="got no URL"):
        SchemaRegistryConfig(url="http://registry:8081/#here")


def test_what_a_registry_says_of_a_schema_is_cut(
    bare: RepeatingRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each record of a page has it."""
    monkeypatch.setattr(schema_registry, "WAIT_SECONDS", LATE_S)
    bare.answers = {"/schemas/ids/1": refers_to("a" * 50_000)}
    registry = Registry(SchemaRegistryConfig(url=bare.url))
    found = asyncio.run(registry.known([KEY]))[KEY]
    assert 0 < len(found.problem) <= schema_registry.PROBLEM_MAX
    asyncio.run(registry.close())
