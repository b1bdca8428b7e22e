"""The field tables are those that Kafka publishes, and those of its other APIs can be had."""

from __future__ import annotations

import sys
from ast import literal_eval
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from appliance import protocol
from appliance.protocol import codec
from tests.protocol import message_tables

NAMES = [api.name for api in protocol.API.values()]


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    others = {
        name.removesuffix("Request")
        for name, table in message_tables.published().items()
        if table["type"] == "request" and table["validVersions"] != "none"
    }
    return message_tables.made(sorted({*NAMES, *others}))


def test_kafka_has_apis_that_are_no_modules_here(made: dict[str, str]) -> None:
    """Replication's and the controller's: the tests below make them, too."""
    assert {"Vote", "FetchSnapshot", "BrokerRegistration"} <= made.keys() - set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_module_is_what_kafka_publishes(name: str, made: dict[str, str]) -> None:
    assert message_tables.path_of(name).read_text() == made[name], (
        f"write it again: python -m tests.protocol.message_tables {name}"
    )


def test_the_table_of_keys_has_them_all() -> None:
    rows = message_tables.keys(NAMES)
    assert literal_eval(f"{{{rows}}}") == protocol.MODULES


@pytest.fixture
def scratch() -> Iterator[ModuleType]:
    """A module to run a text in: a dataclass looks its own module up by name."""
    module = sys.modules["message_table"] = ModuleType("message_table")
    yield module
    del sys.modules["message_table"]


def test_every_table_makes_messages_that_are_read_as_they_were_written(
    made: dict[str, str], scratch: ModuleType
) -> None:
    for name, text in made.items():
        exec(text, scratch.__dict__)
        api: Any = scratch.__dict__["API"]
        for kind in (api.request, api.response):
            for version in range(api.versions[0], api.versions[1] + 1):
                message = kind()
                frame = codec.encode(message, version)
                assert codec.encode(codec.decode(kind, frame, version), version) == frame, name
