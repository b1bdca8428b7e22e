"""Principals: who a client is to the broker, as Kafka writes it (`User:alice`)."""

from __future__ import annotations

from dataclasses import dataclass

USER = "User"


@dataclass(frozen=True)
class Principal:
    kind: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Principal:
        """The name may have colons of its own."""
        kind, colon, name = text.partition(":")
        if not (kind and colon and name):
            raise ValueError(text)
        return cls(kind, name)

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS = Principal(USER, "ANONYMOUS")
