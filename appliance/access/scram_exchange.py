"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), the server's part:

    client-first   n,,n=NAME,r=NONCE            a name, and 24 or so random letters
    server-first   r=NONCE OURS,s=SALT,i=COUNT
    client-final   c=biws,r=NONCE OURS,p=PROOF
    server-final   v=SIGNATURE                  we know the password's keys, too

With the extension `tokenauth=true` the name is the id of a delegation token, and the client becomes
the owner of the token (KIP-48).

A name that does not exist gets a salt and a count like any other and fails at the proof, after the
same work. Channel binding is not offered: no Kafka client has it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable

from appliance.access.sasl import LoginFailed, Proven, Work, check_name, text_of
from appliance.access.scram_keys import HASHES
from appliance.access.user_rows import Credential

# By name and mechanism; there is one for every name
Find = Callable[[str, int], Credential]
# The same for the id of a delegation token, and who the client is then
FindToken = Callable[[str, int], tuple[Credential, Proven]]

# The header says that channel binding is not used; `y`: the client could, and thinks we cannot.
# `p=` asks for it. `m=`, which stands before the name, is a mandatory extension: none is known.
FIRST = re.compile(
    r"(?P<header>[ny],(?:a=(?P<authzid>[^,]*))?,)"
    r"(?P<bare>n=(?P<name>[^,]*),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]{8,512})"
    r"(?P<extensions>(?:,[A-Za-z][A-Za-z0-9]*=[^,]*)*))"
)
FINAL = re.compile(
    r"(?P<unproven>c=(?P<header>[A-Za-z0-9+/=]*),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)"
    r"(?:,(?!p=)[A-Za-z][A-Za-z0-9]*=[^,]*)*)"
    r",p=(?P<proof>[A-Za-z0-9+/=]+)"
)
ESCAPES = {"=2C": ",", "=3D": "="}


class ScramExchange:
    def __init__(
        self, mechanism: int, find: Find, find_token: FindToken,
        nonce: Callable[[], str] = secrets.token_urlsafe,
    ) -> None:  # fmt: skip
        self.claimed = ""
        self.proven: Proven | None = None
        self._mechanism = mechanism
        self._find = find
        self._find_token = find_token
        self._own_nonce = nonce()
        self._next: Callable[[str], str] = self._on_first

    def step(self, data: bytes) -> bytes | Work:
        return self._next(text_of(data, "a message of SCRAM")).encode()

    def _on_first(self, text: str) -> str:
        found = FIRST.fullmatch(text)
        if found is None:
            raise LoginFailed("the first message of SCRAM cannot be read")
        name = saslname(found["name"])
        check_name(name)
        if found["authzid"] and saslname(found["authzid"]) != name:
            raise LoginFailed(f"{name!r} wants to act for somebody else")
        self.claimed = name
        if is_of_token(found["extensions"]):
            self._credential, self._meant = self._find_token(name, self._mechanism)
        else:
            self._credential, self._meant = self._find(name, self._mechanism), Proven(name)
        self._nonce = found["nonce"] + self._own_nonce
        self._header = found["header"]
        salt = base64.b64encode(self._credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        self._so_far = f"{found['bare']},{answer}"
        self._next = self._on_final
        return answer

    def _on_final(self, text: str) -> str:
        self._next = self._on_more
        found = FINAL.fullmatch(text)
        if found is None:
            raise LoginFailed("the last message of SCRAM cannot be read")
        # librdkafka before 2.6.1 sends its own part twice. Apache Kafka takes that, and the proof
        # is about what was sent, so it is as fresh.
        if not found["nonce"].endswith(self._nonce):
            raise LoginFailed("the nonce is not the one that was sent")
        if _decoded(found["header"]) != self._header.encode():
            raise LoginFailed("the header is not the one of the first message")
        name, keys = HASHES[self._mechanism], self._credential
        message = f"{self._so_far},{found['unproven']}".encode()
        signature = hmac.digest(keys.stored_key, message, name)
        proof = _decoded(found["proof"])
        if len(proof) != len(signature):
            raise LoginFailed(f"the proof has {len(proof)} bytes, wanted {len(signature)}")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(name, client_key).digest(), keys.stored_key):
            raise LoginFailed("the name or the password is wrong")
        self.proven = self._meant
        ours = hmac.digest(keys.server_key, message, name)
        return f"v={base64.b64encode(ours).decode()}"

    def _on_more(self, text: str) -> str:
        raise LoginFailed("a message of SCRAM after the last")


def is_of_token(extensions: str) -> bool:
    """As in Kafka: each of `,name=value`, of which others than this are not looked at."""
    given = dict(each.split("=", 1) for each in extensions.split(",") if each)
    return given.get("tokenauth", "").lower() == "true"


def saslname(text: str) -> str:
    """`=2C` and `=3D` stand for comma and equals sign, and no other equals sign may be there."""
    parts = re.split(r"(=.{0,2})", text)
    if any(each.startswith("=") and each not in ESCAPES for each in parts):
        raise LoginFailed("the name has an equals sign that stands for nothing")
    return "".join(ESCAPES.get(each, each) for each in parts)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise LoginFailed("a part of the message is not base64") from error
