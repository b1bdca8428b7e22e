"""OAUTHBEARER (RFC 7628): a token in one message, and who it says the client is.

    n,[a=AUTHZID],^Aauth=Bearer TOKEN^A[KEY=VALUE^A...]^A      (^A is one byte, 1)

A failed login is told as any other: the answer of the RFC, a JSON object that the client confirms,
would tell it why. Who has a token guesses nothing, so failures are not counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from appliance.access.sasl import LoginFailed, Proven, Work, text_of

HEAD = re.compile(r"[ny],(?:a=([^,]*))?,")
KEY = re.compile(r"[A-Za-z]+")
AUTH = re.compile(r"Bearer ([A-Za-z0-9_.~+/=-]+)")


def parts_of(message: str) -> tuple[str | None, str]:
    """Who the client wants to act for, and the token. Taken apart first: one pattern for all of it
    took a time that grew with the square of the message."""
    first, *pairs = message.split("\x01")
    head, told = HEAD.fullmatch(first), [each.partition("=") for each in pairs[:-2]]
    auth = [value for key, _, value in told if key == "auth"]
    token = AUTH.fullmatch(auth[0]) if len(auth) == 1 else None
    are_pairs = all(mark and KEY.fullmatch(key) for key, mark, _ in told)
    if head is None or token is None or not are_pairs or pairs[-2:] != ["", ""]:
        raise LoginFailed("the message of OAUTHBEARER cannot be read")
    return head[1], token[1]


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
        authzid, token = parts_of(text_of(data, "the message of OAUTHBEARER"))

        def check() -> bytes:
            proven = self._verify(token)
            if authzid and authzid != proven.name:
                raise LoginFailed(f"{proven.name!r} wants to act for somebody else")
            self.proven = proven
            return b""

        return check
