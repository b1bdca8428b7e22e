"""PLAIN (RFC 4616): name and password in one message, `[authzid] NUL name NUL password`.

The password is checked with the credential of SCRAM: no other copy of it is kept. That takes some
milliseconds, and as long for a name that does not exist.
"""

from __future__ import annotations

from collections.abc import Callable

from appliance.access import scram_keys
from appliance.access.sasl import LoginFailed, Proven, Work, check_name, text_of
from appliance.access.user_rows import Credential

PASSWORD_CHARACTERS_MAX = 1000  # as the console's; a longer one would only cost time


class PlainExchange:
    def __init__(self, find: Callable[[str], Credential]) -> None:
        """`find` gives a credential of every name."""
        self.claimed = ""
        self.proven: Proven | None = None
        self._find = find
        self._is_begun = False

    def step(self, data: bytes) -> bytes | Work:
        if self._is_begun:
            raise LoginFailed("a message of PLAIN after the last")
        self._is_begun = True
        parts = text_of(data, "the message of PLAIN").split("\0")
        if len(parts) != 3:
            raise LoginFailed(f"the message of PLAIN has {len(parts)} parts, wanted 3")
        authzid, name, password = parts
        check_name(name)
        if authzid not in ("", name):
            raise LoginFailed(f"{name!r} wants to act for somebody else")
        if not 0 < len(password) <= PASSWORD_CHARACTERS_MAX:
            raise LoginFailed(
                f"the password has {len(password)} characters, wanted 1 to "
                f"{PASSWORD_CHARACTERS_MAX}"
            )
        self.claimed = name
        credential = self._find(name)

        def check() -> bytes:
            if not scram_keys.fits(credential, password):
                raise LoginFailed("the name or the password is wrong")
            self.proven = Proven(name)
            return b""

        return check
