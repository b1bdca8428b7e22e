"""Real clients log in by OAUTHBEARER: tokens of a service that publishes its keys over HTTPS."""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiokafka.abc import AbstractTokenProvider as AsyncTokenProvider
from kafka.net.sasl.oauth import AbstractTokenProvider

from appliance.access import tokens
from appliance.testing import RunningBroker, running_broker
from tests.interop.kafka_security import unsigned_token
from tests.interop.kafka_tools import KafkaTools
from tests.interop.test_logins import CLIENTS, DEADLINE_S, Refused, make_people
from tests.support.certificates import Authority
from tests.support.release import gate_has
from tests.support.token_service import AUDIENCE, TokenService

OAUTHBEARER = "OAUTHBEARER"
PAUSE_S = 0.5  # between two reads of the keys, instead of ten


class Provider(AbstractTokenProvider):
    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        return self._token


class AsyncProvider(AsyncTokenProvider):
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


class Bearer(NamedTuple):
    """In the place of a name and a password."""

    broker: str
    token: str
    is_async: bool = False

    @property
    def librdkafka(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.broker, "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": OAUTHBEARER, "log_level": 0,
            "oauth_cb": lambda _: (self.token, time.time() + 300),
        }  # fmt: skip

    @property
    def of_python(self) -> dict[str, Any]:
        provider = AsyncProvider(self.token) if self.is_async else Provider(self.token)
        return {
            "bootstrap_servers": self.broker, "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": OAUTHBEARER, "sasl_oauth_token_provider": provider,
        }  # fmt: skip


class Site(NamedTuple):
    service: TokenService
    broker: RunningBroker

    def use(self, client: str, token: str, topic: str = "t") -> bytes:
        """What the client read back; `Refused` if it was not let in."""
        who: Any = Bearer(self.broker.bootstrap, token, is_async=client == "aiokafka")
        return CLIENTS[client](who, topic)


@contextmanager
def serving(folder: Path, service: TokenService, keys_url: str) -> Iterator[Site]:
    make_people(folder / "data")
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": OAUTHBEARER,
        "sasl.secrets.without.encryption": "true",
        "sasl.oauthbearer.jwks.endpoint.url": keys_url,
        "sasl.oauthbearer.expected.issuer": service.issuer,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "connection.failed.authentication.delay.ms": "0",
        "auto.create.topics.enable": "true",
    }
    with running_broker(folder / "data", settings) as broker:
        yield Site(service, broker)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenService]:
    authority = Authority(tmp_path_factory.mktemp("authority"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(authority.trust))
        patch.setenv("NO_PROXY", "localhost")
        patch.setattr(tokens, "AGAIN_SECONDS", PAUSE_S)
        made = TokenService(authority)
        yield made
        made.close()


@pytest.fixture(scope="module")
def site(service: TokenService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serving(tmp_path_factory.mktemp("url"), service, service.keys_url) as made:
        yield made


@pytest.fixture(autouse=True)
def _what_clients_leave_open() -> Iterator[None]:
    """kafka-python does not close all of its sockets, whether it was refused or not."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


EACH = gate_has(["librdkafka"], "the gate has librdkafka", CLIENTS)


@pytest.mark.parametrize("client", EACH)
def test_a_client_logs_in_by_a_token(site: Site, client: str) -> None:
    assert site.use(client, site.service.token("ada"), client) == f"by {client}".encode()


BAD: dict[str, Callable[[TokenService], str]] = {
    "expired": lambda service: service.token("ada", exp=int(time.time()) - 60),
    "another issuer": lambda service: service.token("ada", iss="https://evil.example"),
    "another audience": lambda service: service.token("ada", aud="mail"),
    "nobody signed it": lambda service: unsigned_token("ada"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_token_is_refused(site: Site, kind: str) -> None:
    with pytest.raises(Refused):
        site.use("librdkafka", BAD[kind](site.service))


@pytest.mark.release("the gate has librdkafka")
@pytest.mark.parametrize("client", ["kafka-python", "aiokafka"])
def test_other_clients_are_refused_with_a_bad_token(site: Site, client: str) -> None:
    with pytest.raises(Refused):
        site.use(client, BAD["another audience"](site.service))


def test_a_new_key_is_read_when_it_is_met_and_not_for_each_token(site: Site) -> None:
    service = site.service
    site.use("librdkafka", service.token("ada"))
    service.rotate("second")
    reads = service.reads
    begun = time.monotonic()

    def is_let_in() -> bool:
        try:
            site.use("librdkafka", service.token("ada"))
        except Refused:  # the keys were read a moment ago
            return False
        return True

    while not is_let_in():
        assert time.monotonic() - begun < DEADLINE_S
    assert service.reads > reads
    for _ in range(5):
        with pytest.raises(Refused):
            site.use("librdkafka", service.token("ada", key_id="nobody's"))
    assert service.reads - reads <= 1 + (time.monotonic() - begun) / PAUSE_S


@pytest.mark.release("the gate has keys of a URL")
def test_keys_come_from_a_file(service: TokenService, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    keys.write_bytes(service.published())
    with serving(tmp_path, service, keys.as_uri()) as site:
        assert site.use("librdkafka", service.token("ada")) == b"by librdkafka"
        with pytest.raises(Refused):
            site.use("librdkafka", service.token("ada", aud="mail"))


JAVA = """security.protocol=SASL_PLAINTEXT
sasl.mechanism=OAUTHBEARER
sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"""
OF_A_FILE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


@pytest.mark.release("the gate has librdkafka")
def test_javas_client_logs_in_by_a_token_and_not_by_one_that_nobody_signed(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text(site.service.token("ada"))
    good, unsigned = tmp_path / "good.properties", tmp_path / "unsigned.properties"
    good.write_text(f"{JAVA};\nsasl.login.callback.handler.class={OF_A_FILE}\n"
                    f"sasl.oauthbearer.token.endpoint.url={token.as_uri()}\n")
    unsigned.write_text(f'{JAVA} unsecuredLoginStringClaim_sub="ada";\n')
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls="
                                           f"{token.as_uri()}")
    tools = KafkaTools(site.broker.bootstrap, tmp_path / "tools")
    try:
        tools.must("kafka-topics", "--create", "--topic", "by-java", "--command-config", str(good))
        said = tools.refused("kafka-topics", "--list", "--command-config", str(unsigned))
        assert "Authentication failed" in said
    finally:
        tools.close()
