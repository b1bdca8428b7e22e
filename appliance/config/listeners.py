"""Listeners: where Kafka clients are served, and by which protocol."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from appliance.config.addresses import Address

PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL = "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"
PROTOCOLS = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)
ENCRYPTED = (SSL, SASL_SSL)
WITH_LOGIN = (SASL_PLAINTEXT, SASL_SSL)  # by SASL; certificates are another way
NAME = re.compile(r"[A-Z0-9_]+")


@dataclass(frozen=True)
class Listener:
    """As Kafka writes it, NAME://HOST:PORT. Names are in capitals; without one it is PLAINTEXT."""

    name: str
    address: Address

    @classmethod
    def parse(cls, text: str) -> Listener:
        name, colon, place = text.strip().rpartition("://")
        name = name.upper() if colon else PLAINTEXT
        if not NAME.fullmatch(name):
            raise ValueError(text)
        return cls(name, Address.parse(place))

    def __str__(self) -> str:
        return f"{self.name}://{self.address}"


@dataclass(frozen=True)
class Listeners:
    """In the order in which they are given."""

    all: tuple[Listener, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Listeners:
        return cls(tuple(map(Listener.parse, text.split(","))))

    def __iter__(self) -> Iterator[Listener]:
        return iter(self.all)

    def __str__(self) -> str:
        return ",".join(map(str, self.all))


@dataclass(frozen=True)
class Protocols:
    """The protocols of listeners whose names say something else."""

    all: tuple[tuple[str, str], ...] = ()  # name and protocol

    @classmethod
    def parse(cls, text: str) -> Protocols:
        pairs = [tuple(each.strip().upper().split(":")) for each in text.split(",")]
        if any(len(pair) != 2 or not all(map(NAME.fullmatch, pair)) for pair in pairs):
            raise ValueError(text)
        return cls(tuple((name, protocol) for name, protocol in pairs))

    def of(self, name: str) -> str:
        return dict(self.all).get(name, name)

    def __str__(self) -> str:
        return ",".join(map(":".join, self.all))


NO_LISTENERS = Listeners()
NO_PROTOCOLS = Protocols()
