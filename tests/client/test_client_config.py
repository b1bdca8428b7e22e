"""Settings of clients check themselves and are documented."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from appliance.client.config import ClientConfig, as_markdown
from appliance.client.consumer_config import ConsumerConfig, FetchConfig
from appliance.client.errors import ConfigInvalid
from appliance.client.producer_config import ProducerConfig

PAGE = Path(__file__).parents[2] / "docs" / "client.md"

# Each with what it is a kind of, whose settings are not repeated.
CONFIGS: list[tuple[type, type | None]] = [
    (ClientConfig, None),
    (ProducerConfig, ClientConfig),
    (FetchConfig, ClientConfig),
    (ConsumerConfig, FetchConfig),
]


def table_of(config: type, text: str) -> str:
    name = config.__name__
    found = re.search(rf"<!-- {name} -->\n(.*)<!-- /{name} -->", text, re.DOTALL)
    assert found, f"wanted the two marks of {name}"
    return found[1]


@pytest.mark.parametrize(("config", "beyond"), CONFIGS)
def test_every_setting_is_in_the_page(config: type, beyond: type | None) -> None:
    wanted = as_markdown(config, beyond)
    assert table_of(config, PAGE.read_text()) == wanted, wanted


@pytest.mark.parametrize(
    ("settings", "fact"),
    [
        ({}, "got neither"),
        ({"broker_list": "a:1", "zk_connect": "b:1"}, "got both"),
        ({"broker_list": "a:1", "socket_timeout_ms": 0}, "got 0, wanted at least 1 ms"),
        ({"broker_list": "a:1", "socket_timeout_ms": "1"}, "got '1', wanted int"),
        ({"broker_list": "a:1", "socket_timeout_ms": True}, "got True, wanted int"),
    ],
)
def test_a_config_checks_itself(settings: dict[str, Any], fact: str) -> None:
    with pytest.raises(ConfigInvalid, match=fact):
        ClientConfig(**settings)
