"""OAUTHBEARER (RFC 7628): a token in one message, and who it says the client is.

    n,[a=AUTHZID],^Aauth=Bearer TOKEN^A[KEY=VALUE^A...]^A      (^A is one byte, 1)

A failed login is told as any other: the answer of the RFC, a JSON object that the client confirms,
would tell it why. Who has a token guesses nothing, so failures are not counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from appliance.access.sasl import LoginFailed, Proven, Work, text_of

FIRST = re.compile(
    r"[ny],(?:a=(?P<authzid>[^,\x01]*))?,\x01"
    r"(?:[A-Za-z]+=[^\x01]*\x01)*?auth=Bearer (?P<token>[A-Za-z0-9_.~+/=-]+)\x01"
    r"(?:[A-Za-z]+=[^\x01]*\x01)*\x01"
)


class OauthbearerExchange:
    def __init__(self, verify: Callable[[str], Proven]) -> None:
        self.claimed = ""
        self.proven: Proven | None = None
        self._verify = verify
        self._is_begun = False

    def step(self, data: bytes) -> bytes | Work:
        if self._is_begun:
            raise LoginFailed("a message of OAUTHBEARER after the last")
        self._is_begun = True
        found = FIRST.fullmatch(text_of(data, "the message of OAUTHBEARER"))
        if found is None:
            raise LoginFailed("the message of OAUTHBEARER cannot be read")
        authzid, token = found["authzid"], found["token"]

        def check() -> bytes:
            proven = self._verify(token)
            if authzid and authzid != proven.name:
                raise LoginFailed(f"{proven.name!r} wants to act for somebody else")
            self.proven = proven
            return b""

        return check
