"""Tokens of OAUTHBEARER that must not let in, over a real listener."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from appliance.access.sasl import TOKEN_BYTES_MAX
from appliance.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.access.test_tokens import ACCESS, BAD, EC, RSA, published, token
from tests.hostile.witness import METADATA, ends
from tests.support.doors import Door, make_people, say, shake, welcome
from tests.support.scram_client import ScramClient
from tests.support.serving import Serving
from tests.support.wire_client import WireClient, frame_of

REFUSED = 58  # SASL_AUTHENTICATION_FAILED
FRAME_MAX = 64 << 10  # before a login


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("broker")
    make_people(folder / "data", ada="admin")
    keys = folder / "keys.json"
    keys.write_bytes(published(a=RSA, e=EC))
    made = Serving(folder, protocol="SASL_PLAINTEXT", **{
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,OAUTHBEARER",
        "sasl.secrets.without.encryption": "true",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.issuer": ACCESS.issuer,
        "sasl.oauthbearer.expected.audience": str(ACCESS.audience),
        "sasl.oauthbearer.clock.skew.seconds": 0,
        "connection.failed.authentication.delay.ms": 0,
    })  # fmt: skip
    yield made
    assert made.stop() == 0
    assert "Traceback" not in made.log, made.log[-3000:]


def bearer(text: str) -> bytes:
    return f"n,,\x01auth=Bearer {text}\x01\x01".encode()


def shown(client: WireClient, text: str) -> Any:
    """The answer to a token."""
    shake(client, "OAUTHBEARER")
    return say(client, bearer(text))


def is_served(client: WireClient) -> bool:
    client.send(frame_of(MetadataRequest(topics=[]), METADATA, 9))
    return bool(client.answer(MetadataResponse, METADATA, 9).brokers)


@pytest.mark.parametrize("kind", [*BAD, "expired a second ago"])
def test_a_bad_token_lets_nobody_in(broker: Serving, kind: str) -> None:
    """With a good one the same connection would be served."""
    bad = BAD.get(kind, lambda: token(exp=int(time.time()) - 1))()
    with Door(broker.kafka).open() as client:
        answer = shown(client, bad)
        assert (answer.error_code, answer.auth_bytes) == (REFUSED, b"")
        assert "token" not in answer.error_message  # what is wrong with it is for the log
        assert ends(client)


@pytest.mark.parametrize("size", [TOKEN_BYTES_MAX, FRAME_MAX, 1 << 20])
def test_an_oversized_token_is_refused(broker: Serving, size: int) -> None:
    """Signed as it should be. Beyond a frame's size its connection is closed before it is read."""
    with Door(broker.kafka).open() as client:
        shake(client, "OAUTHBEARER")
        large = token(sub="ada", more="x" * size)
        if size < FRAME_MAX:
            assert say(client, bearer(large)).error_code == REFUSED
        else:
            with pytest.raises((EOFError, ConnectionError)):
                say(client, bearer(large))
    with Door(broker.kafka).open() as client:
        welcome(shown(client, token(sub="ada", more="x" * 8000)))
        assert is_served(client)


def test_a_token_is_good_until_its_end_and_a_replay_of_it_no_longer(broker: Serving) -> None:
    """Who has a token is its owner, by as many connections as he likes: so it has an end, which
    ends them, too."""
    good = token(sub="ada", exp=int(time.time()) + 6)
    with Door(broker.kafka).open() as client, Door(broker.kafka).open() as replayed:
        for each in (client, replayed):
            answer = shown(each, good)
            welcome(answer)
            assert 0 < answer.session_lifetime_ms <= 6000
            assert is_served(each)
        end = time.monotonic() + 30
        with pytest.raises((EOFError, ConnectionError)):  # noqa: PT012 - one of them meets the end
            while time.monotonic() < end:
                is_served(client)
                time.sleep(0.05)
    with Door(broker.kafka).open() as late:
        assert shown(late, good).error_code == REFUSED


def test_a_login_that_was_listened_to_cannot_be_repeated(broker: Serving) -> None:
    """SCRAM: the proof is for the numbers of one login."""
    mechanism = "SCRAM-SHA-256"
    scram = ScramClient(mechanism, "ada", Door.password)
    with Door(broker.kafka).open() as client:
        shake(client, mechanism)
        last = scram.final(welcome(say(client, scram.first())))
        welcome(say(client, last))
    with Door(broker.kafka).open() as client:
        shake(client, mechanism)
        welcome(say(client, scram.first()))
        assert say(client, last).error_code == REFUSED
        assert ends(client)


def test_nobody_becomes_another_user_by_logging_in_again(broker: Serving) -> None:
    with Door(broker.kafka).open() as client:
        welcome(shown(client, token(sub="ann")))
        assert shown(client, token(sub="ada")).error_code == REFUSED
        assert ends(client)
