"""The language of the field tables: a field's type on the wire, and its versions.

A message's fields are rows: `rack: str | None = field(string, nullable="1+")`.
A row without versions is in all of them. A row with a tag is in the tag section, and only if it
differs from its default. A struct is a class nested in its message; another nested class cannot
see its siblings, so it names them through a lambda.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from appliance.protocol import _codec

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:  # Spark's workers get this module, and not that library

    def dataclass_transform():
        return lambda kind: kind


NO_UUID = _codec.NO_UUID
VERSION_MAX = 2**15 - 1  # a version is an int16


@dataclass(frozen=True)
class Fixed:
    """A type of fixed width, by its letter in `struct`."""

    letters: str
    default: Any = 0


@dataclass(frozen=True)
class Text:
    """UTF-8 after an int16 with its size, or after a varint in a flexible message."""

    default: str = ""


@dataclass(frozen=True)
class Data:
    """Bytes after an int32 with their size, or after a varint."""

    default: bytes | None = b""


@dataclass(frozen=True)
class Array:
    of: Any


int8, int16, int32, int64 = Fixed("b"), Fixed("h"), Fixed("i"), Fixed("q")
uint16, uint32, float64 = Fixed("H"), Fixed("I"), Fixed("d", 0.0)
boolean, uuid = Fixed("?", False), Fixed("16s", NO_UUID)
string, data, records = Text(), Data(), Data(default=None)
array = Array


def is_struct(kind: Any) -> bool:
    return not isinstance(kind, (Fixed, Text, Data, Array))


def struct_of(kind: Any) -> MessageType:
    """The class of a struct, which a table names directly or through a lambda."""
    found = kind if isinstance(kind, type) else kind()
    assert isinstance(found, MessageType)
    return found


@dataclass(frozen=True)
class Span:
    """Versions from `first` to `last`, inclusive. Written `3+`, `0-7` or `4`."""

    first: int
    last: int

    @staticmethod
    @cache  # thousands of rows, and some forty spans
    def parse(text: str) -> Span:
        first, dash, last = text.partition("-")
        if text.endswith("+"):
            return Span(int(text[:-1]), VERSION_MAX)
        return Span(int(first), int(last if dash else first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


NEVER = Span(0, -1)


class Row(NamedTuple):
    kind: Any
    versions: Span
    nullable: Span
    tag: int | None


_OF_THE_KIND = object()


def field(
    kind: Any,
    versions: str = "0+",
    *,
    nullable: str = "",
    default: Any = _OF_THE_KIND,
    tag: int | None = None,
) -> Any:
    null = Span.parse(nullable) if nullable else NEVER
    metadata = {"row": Row(kind, Span.parse(versions), null, tag)}
    if default is not _OF_THE_KIND:
        return dataclasses.field(default=default, metadata=metadata)
    if isinstance(kind, Array):
        return dataclasses.field(default_factory=list, metadata=metadata)
    if isinstance(kind, (Fixed, Text, Data)):
        return dataclasses.field(default=kind.default, metadata=metadata)
    return dataclasses.field(default_factory=lambda: struct_of(kind)(), metadata=metadata)


class MessageType(type):
    """Makes the class of a message, with a slot for each row."""

    ROWS: dict[str, dataclasses.Field[Any]]

    def __new__(cls, name: str, bases: tuple[type, ...], names: dict[str, Any]) -> MessageType:
        rows = {key: each for key, each in names.items() if isinstance(each, dataclasses.Field)}
        rest = {key: each for key, each in names.items() if key not in rows}
        for key, each in rows.items():
            each.name = key
        slots = {"__slots__": tuple(rows), "ROWS": rows}
        return super().__new__(cls, name, bases, {**rest, **slots})

    def complete(cls) -> None:
        rows = [(name, cls.__annotations__[name], row) for name, row in cls.ROWS.items()]
        made = dataclasses.make_dataclass(cls.__name__, rows)
        for part in PARTS:
            setattr(cls, part, vars(made)[part])


@dataclass_transform()
class Message(metaclass=MessageType):
    """A dataclass with slots, whose methods are made when the first of them is asked for. They are
    written and compiled as Python, which takes half a millisecond, and few of the four hundred
    messages of a broker are used at its start."""

    __hash__ = None  # type: ignore[assignment]  # it can be changed


class Part:
    """What a dataclass has, in a message that has none of it yet."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, message: Message | None, kind: MessageType) -> Any:
        if kind is Message:
            return self  # or messages that are not complete would inherit what it gets
        kind.complete()
        return getattr(kind if message is None else message, self._name)


PARTS = ("__init__", "__repr__", "__eq__", "__match_args__", "__dataclass_fields__",
         "__dataclass_params__")  # fmt: skip
for each in PARTS:
    setattr(Message, each, Part(each))


def rows_of(message: MessageType) -> list[tuple[dataclasses.Field[Any], Row]]:
    return [(each, each.metadata["row"]) for each in message.ROWS.values()]


@dataclass(frozen=True)
class Versions:
    """The stable versions of a message. From `flexible_from` on, it has varint sizes and tags."""

    first: int
    last: int
    flexible_from: int | None = None

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def is_flexible(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from


@dataclass(frozen=True)
class Api:
    key: int
    name: str
    request: Any
    response: Any

    @property
    def versions(self) -> tuple[int, int]:
        span: Versions = self.request.VERSIONS
        return span.first, span.last

    @property
    def flexible_from(self) -> int | None:
        span: Versions = self.request.VERSIONS
        return span.flexible_from
