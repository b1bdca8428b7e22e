"""Settings that are lists of names: mechanisms, principals, and others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

Kind = TypeVar("Kind", bound="Names")


@dataclass(frozen=True)
class Names:
    """In the order in which they are given, each once."""

    all: tuple[str, ...] = ()

    @classmethod
    def parse(cls: type[Kind], text: str) -> Kind:
        names = tuple(dict.fromkeys(each.strip() for each in text.split(",")))
        if "" in names:
            raise ValueError(text)
        return cls(names)

    def __str__(self) -> str:
        return ",".join(self.all)


@dataclass(frozen=True)
class Mechanisms(Names):
    """Of SASL. They are in capitals."""

    @classmethod
    def parse(cls, text: str) -> Mechanisms:
        return super().parse(text.upper())


@dataclass(frozen=True)
class Principals(Names):
    """As Kafka writes them, `User:ann;User:bob`: names of certificates have commas."""

    @classmethod
    def parse(cls, text: str) -> Principals:
        names = tuple(dict.fromkeys(each.strip() for each in text.split(";") if each.strip()))
        if not all(kind and name for kind, _, name in (each.partition(":") for each in names)):
            raise ValueError(text)
        return cls(names)

    def __str__(self) -> str:
        return ";".join(self.all)


@dataclass(frozen=True)
class Paths(Names):
    """Directories."""


NO_NAMES = Names()
NO_PATHS = Paths()
NO_PRINCIPALS = Principals()
