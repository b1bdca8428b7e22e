"""Mechanisms of SASL: what each is given and gives, and the table of them.

A mechanism is a state machine without I/O. It gets what the client sent, and gives the answer, or
work that makes the answer and takes long: its owner runs that on a thread (`logins.py`). It raises
`LoginFailed` at whatever is wrong, with a reason for our log; the client is told one sentence,
which is the same for a wrong password and a name that does not exist.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from appliance.errors import ApplianceError
from appliance.protocol import ErrorCode

TOKEN_BYTES_MAX = 16 * 1024  # of one message of a client; a JWT has one or two KiB
NAME_CHARACTERS_MAX = 512

Work = Callable[[], bytes]


class LoginFailed(ApplianceError):
    """The text is for the log: it may tell what a client must not know."""

    kafka_code = ErrorCode.SASL_AUTHENTICATION_FAILED


def always() -> bool:
    return True


@dataclass(frozen=True)
class Proven:
    """Who the client is. `answer` is not part of it: the last step gives that."""

    name: str
    expires_ms: int | None = None  # on the wall clock; None: the mechanism sets no end
    is_by_token: bool = False  # a delegation token: who came by one may not make more
    # Asked as the login succeeds: what it rests on may have gone since its first message
    holds: Callable[[], bool] = field(default=always, compare=False)


class Exchange(Protocol):
    """One login."""

    claimed: str  # who the client says it is; "" as long as it has not
    proven: Proven | None  # once it has succeeded

    def step(self, data: bytes) -> bytes | Work: ...


Mechanism = Callable[[], Exchange]


def text_of(data: bytes, what: str) -> str:
    if len(data) > TOKEN_BYTES_MAX:
        raise LoginFailed(f"{what}: got {len(data)} bytes, wanted at most {TOKEN_BYTES_MAX}")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LoginFailed(f"{what}: it is not UTF-8") from error


def check_name(name: str) -> None:
    if not 0 < len(name) <= NAME_CHARACTERS_MAX:
        raise LoginFailed(
            f"the name has {len(name)} characters, wanted 1 to {NAME_CHARACTERS_MAX}"
        )
