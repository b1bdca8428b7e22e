"""Ids of topics and clusters as Kafka makes and writes them: 16 bytes, as text 22 characters of
URL-safe base64 without padding."""

from __future__ import annotations

import base64
import uuid

# 0 is "none", 1 Kafka's own metadata topic; the next 98 it keeps for itself.
RESERVED_MAX = 99


def new() -> uuid.UUID:
    """A random one whose text no command line takes for an option."""
    while True:
        made = uuid.uuid4()
        if made.int > RESERVED_MAX and not text_of(made).startswith("-"):
            return made


def text_of(value: uuid.UUID) -> str:
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def parse(text: str) -> uuid.UUID:
    """Raises ValueError for what is not exactly the text of one."""
    value = uuid.UUID(bytes=base64.urlsafe_b64decode(text.encode("ascii") + b"=="))
    if text_of(value) != text:
        raise ValueError(text)
    return value
