"""Settings of clients check themselves and are documented."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from appliance.client.config import ClientConfig
from appliance.client.consumer_config import ConsumerConfig, FetchConfig
from appliance.client.errors import ConfigInvalid
from appliance.client.producer_config import ProducerConfig
from appliance.client.security_config import SecurityConfig, of_pairs
from appliance.client.setting import as_markdown

PAGE = Path(__file__).parents[2] / "docs" / "client.md"

# Each with what it is a kind of, whose settings are not repeated.
CONFIGS: list[tuple[type, type | None]] = [
    (SecurityConfig, None),
    (ClientConfig, SecurityConfig),
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
    wanted = as_markdown(config, *([beyond] if beyond else []))
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


LOGIN = {"security_protocol": "SASL_SSL", "sasl_username": "alice"}


@pytest.mark.parametrize(
    ("settings", "fact"),
    [
        ({"security_protocol": "TLS"}, "wanted one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"sasl_username": "a"}, "sasl_username: not used, because security_protocol is PLAINTEXT"),
        ({"ssl_ca_location": "ca"}, "ssl_ca_location: not used, because security_protocol is PL"),
        ({**LOGIN, "sasl_mechanism": "GSSAPI"}, "wanted one of SCRAM-SHA-256"),
        (LOGIN, "SCRAM-SHA-512 wants one of sasl_password, .*, got none"),
        ({**LOGIN, "sasl_password": "a", "sasl_password_env": "B"}, "got sasl_password and sasl_p"),
        ({**LOGIN, "sasl_username": "", "sasl_password": "a"}, "SCRAM-SHA-512 wants one"),
        ({**LOGIN, "sasl_mechanism": "OAUTHBEARER"}, "sasl_username: not used, because sasl_mech"),
        ({**LOGIN, "sasl_password": b"pencil"}, "sasl_password: got a bytes, wanted str"),
        ({**LOGIN, "sasl_password": "a", "ssl_key_location": "k"}, "an ssl_certificate_location"),
        ({"sasl_oauthbearer_token": "text"}, "got 'text', wanted a function"),
    ],
)
def test_settings_of_logins_and_tls_fit_together(settings: dict[str, Any], fact: str) -> None:
    with pytest.raises(ConfigInvalid, match=fact) as caught:
        SecurityConfig(**settings)
    assert "pencil" not in str(caught.value)


def test_a_password_is_not_shown() -> None:
    config = ProducerConfig(broker_list="a:1", **LOGIN, sasl_password="pencil")
    assert "sasl_username='alice'" in repr(config)
    assert "pencil" not in repr(config)


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"pencil\xff", "is not in UTF-8"),
        (b"pencil" * 20_000, "has more than 65536 bytes"),
        (None, "cannot read .*No such file"),
    ],
)
def test_a_file_without_a_password_is_named(
    tmp_path: Path, content: bytes | None, fact: str
) -> None:
    path = tmp_path / "password"
    if content is not None:
        path.write_bytes(content)
    config = SecurityConfig(**LOGIN, sasl_password_file=str(path))
    with pytest.raises(ConfigInvalid, match=f"sasl_password_file: .*{fact}") as caught:
        config.password()
    assert "pencil" not in str(caught.value)


def test_only_the_end_of_line_is_left_out_of_a_password(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_bytes(b" pencil \r\n")
    assert SecurityConfig(**LOGIN, sasl_password_file=str(path)).password() == " pencil "


def test_names_are_those_of_librdkafka() -> None:
    config = of_pairs(["security.protocol=SSL", "ssl.ca.location=a=b.pem"])
    assert (config.security_protocol, config.ssl_ca_location) == ("SSL", "a=b.pem")
    with pytest.raises(ConfigInvalid, match=r"source\.ssl\.ca: wanted one of security\.protocol"):
        of_pairs(["ssl.ca=x"], "source.")
    with pytest.raises(ConfigInvalid, match="can read a command line") as caught:
        of_pairs(["sasl.password=pencil"])
    assert "pencil" not in str(caught.value)
