"""Hostile logins: messages of every mechanism, valid but for some bytes, in any order; and hellos
of TLS."""

from __future__ import annotations

import random
import ssl

from appliance.config.access import MECHANISMS
from appliance.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from appliance.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.hostile.generator import framed, mutated
from tests.support.doors import SASL_AUTHENTICATE, SASL_HANDSHAKE, say, shake, welcome
from tests.support.scram_client import ScramClient
from tests.support.wire_client import WireClient, frame_of

SCRAM = [each for each in MECHANISMS if each.startswith("SCRAM")]
NO_MECHANISMS = ["", "GSSAPI", "scram-sha-256", "x" * 300, "SCRAM-SHA-256\0"]
# Each is valid in its place.
MESSAGES = [
    b"n,,n=ann,r=" + b"x" * 24, b"n,a=ann,n=ann,r=" + b"y" * 500, b"y,,n=a=2Cb,r=" + b"z" * 24,
    b"c=biws,r=" + b"x" * 48 + b",p=" + b"A" * 43 + b"=", b"\0ann\0password", b"ann\0ann\0x",
    b"n,,\x01auth=Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ.\x01\x01",
    b"n,a=ann,\x01host=h\x01auth=Bearer a.b.c\x01port=1\x01\x01",
]  # fmt: skip
LONG = [b"n,,n=" + b"a" * 16_000 + b",r=" + b"x" * 24, b"\0ann\0" + b"p" * 60_000, b"\xff" * 9000,
        b"n,," + b"a=b," * 4000, b"n,,\x01auth=Bearer " + b"e" * 16_000 + b"\x01\x01"]  # fmt: skip


def hostile_message(chance: random.Random) -> bytes:
    kind = chance.randrange(4)
    if kind == 0:
        return chance.choice(MESSAGES)
    if kind == 1:
        return chance.choice(LONG)
    if kind == 2:
        return chance.randbytes(chance.choice([0, 1, 30, 2000]))
    return mutated(chance.choice(MESSAGES), chance)


def hostile_login(chance: random.Random) -> bytes:
    """A handshake that is mostly true, and up to four messages behind it, also such without a
    header: after version 0 they have none."""
    is_true = chance.random() < 0.9
    mechanism = chance.choice(MECHANISMS if is_true else NO_MECHANISMS)
    version = chance.randint(0, 1)
    octets = framed(frame_of(SaslHandshakeRequest(mechanism), SASL_HANDSHAKE, version))
    for _ in range(chance.randint(0, 4)):
        message = hostile_message(chance)
        if version == 0 and chance.random() < 0.8:
            octets += framed(message)
        else:
            asked = SaslAuthenticateRequest(message)
            frame = frame_of(asked, SASL_AUTHENTICATE, chance.randint(0, 2))
            octets += framed(mutated(frame, chance) if chance.random() < 0.1 else frame)
    return octets


def half_a_login(client: WireClient, user: str, chance: random.Random) -> bytes:
    """Up to the challenge as a client does; then a proof with some bytes changed."""
    mechanism = chance.choice(SCRAM)
    shake(client, mechanism)
    scram = ScramClient(mechanism, user, "a wrong password")
    proof = scram.final(welcome(say(client, scram.first())))
    asked = SaslAuthenticateRequest(mutated(proof, chance))
    return framed(frame_of(asked, SASL_AUTHENTICATE, 2)) * chance.randint(1, 3)


def hello() -> bytes:
    """The first bytes of a client of TLS."""
    arriving, leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    line = context.wrap_bio(arriving, leaving, server_hostname="localhost")
    try:
        line.do_handshake()
    except ssl.SSLWantReadError:
        return leaving.read()
    raise AssertionError("it said nothing")
