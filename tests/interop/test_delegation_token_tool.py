"""Kafka's own tool makes, renews, shows and ends delegation tokens, and Java logs in by them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from appliance.access.user_rows import UserRows
from appliance.admin.users import make_user
from appliance.catalog.catalog import NAME, Catalog
from appliance.testing import RunningBroker, running_broker
from tests.interop.kafka_tools import KafkaTools

PASSWORD = "correct horse battery"
LOGIN = """security.protocol=SASL_PLAINTEXT
sasl.mechanism={mechanism}
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
  username="{user}" password="{password}"{more};
"""


class Token(NamedTuple):
    id: str
    hmac: str


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    path = tmp_path_factory.mktemp("tokens") / "data"
    path.mkdir()
    catalog = Catalog.open(path / NAME)
    for name, role in (("ada", "admin"), ("app", "none"), ("eve", "none")):
        make_user(UserRows(catalog), name, role, PASSWORD)
    catalog.close()
    with running_broker(path, {"listeners": "SASL_PLAINTEXT://127.0.0.1:0"}) as running:
        yield running


@pytest.fixture(scope="module")
def tools(
    broker: RunningBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaTools]:
    found = KafkaTools(broker.bootstrap, tmp_path_factory.mktemp("tools"))
    yield found
    found.close()


def login(
    folder: Path, user: str, password: str = PASSWORD, mechanism: str = "SCRAM-SHA-512",
    more: str = "",
) -> tuple[str, str]:  # fmt: skip
    file = folder / f"{user}-{mechanism}-{len(password)}.properties"
    file.write_text(LOGIN.format(user=user, password=password, mechanism=mechanism, more=more))
    return "--command-config", str(file)


def by_token(folder: Path, token: Token, mechanism: str = "SCRAM-SHA-256") -> tuple[str, str]:
    return login(folder, token.id, token.hmac, mechanism, ' tokenauth="true"')


def made(said: str) -> Token:
    found = re.search(r"\n([A-Za-z0-9_-]{22})\s+([A-Za-z0-9+/]{86}==)\s", said)
    assert found is not None, said
    return Token(*found.groups())


TOKENS = "kafka-delegation-tokens"
CREATE = ("--create", "--max-life-time-period", "-1")


def test_a_token_is_made_used_renewed_shown_and_ended(
    tools: KafkaTools, tmp_path: Path
) -> None:
    ada, eve = login(tmp_path, "ada"), login(tmp_path, "eve")
    token = made(tools.must(TOKENS, *CREATE, "--renewer-principal", "User:eve", *ada))
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        own = by_token(tmp_path, token, mechanism)
        tools.must("kafka-topics", "--create", "--topic", f"by-{mechanism}", *own)
    assert "by-SCRAM-SHA-512" in tools.must("kafka-topics", "--list", *own)
    said = tools.refused(TOKENS, *CREATE, *own)
    assert "not allowed" in said  # by a token no other one is got
    by_hmac = ("--hmac", token.hmac)
    tools.must(TOKENS, "--renew", "--renew-time-period", "-1", *by_hmac, *eve)
    shown = tools.must(TOKENS, "--describe", "--owner-principal", "User:ada", *ada)
    assert token.id in shown
    assert "User:eve" in shown
    wrong = by_token(tmp_path, Token(token.id, "A" * 86 + "=="))
    assert "Authentication failed" in tools.refused("kafka-topics", "--list", *wrong)
    tools.must(TOKENS, "--expire", "--expiry-time-period", "-1", *by_hmac, *eve)
    assert "Authentication failed" in tools.refused("kafka-topics", "--list", *own)
    assert token.id not in tools.must(TOKENS, "--describe", "--owner-principal", "User:ada", *ada)


def test_who_may_makes_and_sees_tokens_of_others(tools: KafkaTools, tmp_path: Path) -> None:
    ada, app, eve = (login(tmp_path, name) for name in ("ada", "app", "eve"))
    of_eve = ("--owner-principal", "User:eve")
    assert "authoriz" in tools.refused(TOKENS, *CREATE, *of_eve, *app).lower()
    for operation in ("CreateTokens", "DescribeTokens"):
        tools.must("kafka-acls", "--add", "--allow-principal", "User:app", "--operation",
                   operation, "--user-principal", "User:eve", *ada)  # fmt: skip
    token = made(tools.must(TOKENS, *CREATE, *of_eve, *app))
    own = made(tools.must(TOKENS, *CREATE, *eve))
    hidden = made(tools.must(TOKENS, *CREATE, *ada))
    seen = tools.must(TOKENS, "--describe", *of_eve, "--owner-principal", "User:ada", *app)
    assert token.id in seen
    assert own.id in seen
    assert hidden.id not in seen
    tools.must("kafka-acls", "--add", "--allow-principal", "User:eve", "--operation", "Describe",
               "--topic", "of-eve", *ada)  # fmt: skip
    tools.must("kafka-topics", "--create", "--topic", "of-eve", *ada)
    assert tools.must("kafka-topics", "--list", *by_token(tmp_path, token)).split() == ["of-eve"]
