"""Protobuf's language, as far as decoding needs it: .proto text to a FileDescriptorProto.

Registries keep this text, and protoc is a compiler in C++ that would read what anybody may have
registered. This reader knows names, numbers, types, labels and nesting. It skips what changes no
byte and no name: options, services, extensions, reserved ranges, defaults. Types keep the names
that the text has; the library finds them by Protobuf's rules of scope.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from appliance.schemas.schema_limits import SchemaInvalid

NESTING_MAX = 32
NUMBER_MAX = 2**31 - 1
IMPORTS_MAX = 1000  # of a file: each is looked for among the others
TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
      | (?P<word>\.?[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)
      | (?P<number>\.?[0-9][\w.]*)
      | (?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
      | (?P<mark>[{}\[\]()<>=;,:/+.-])""",
    re.DOTALL | re.VERBOSE | re.ASCII,
)
SCALARS = ("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string",
           "bytes", "uint32", "sfixed32", "sfixed64", "sint32", "sint64")  # fmt: skip
LABELS = ("optional", "required", "repeated")
CLOSING = {"{": "}", "[": "]"}
END = ("end", "")


def proto_file(name: str, text: str) -> Any:
    """SchemaInvalid says where and what is wrong."""
    return Reader(name, text).file()


def imports(file: Any) -> list[str]:
    check_imports(len(file.dependency))
    return list(file.dependency)


def check_imports(count: int) -> None:
    if count > IMPORTS_MAX:
        raise SchemaInvalid(f"more than {IMPORTS_MAX} imports")


def tokens(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        found = TOKEN.match(text, position)
        if found is None:
            line = text.count("\n", 0, position) + 1
            raise SchemaInvalid(f"line {line}: got {text[position : position + 20]!r}")
        position = found.end()
        if found.lastgroup != "space":
            yield str(found.lastgroup), found.group()


class Reader:
    def __init__(self, name: str, text: str) -> None:
        # imported late: few topics have a schema, and the import takes 50 ms
        from google.protobuf import descriptor_pb2

        self._form = descriptor_pb2
        self._file = descriptor_pb2.FileDescriptorProto(name=name)
        self._tokens = tokens(text)
        self._next = next(self._tokens, END)

    def file(self) -> Any:
        while self._next is not END:
            self._top()
        return self._file

    def _top(self) -> None:
        word = self._take()
        if word in ("syntax", "edition"):
            self._version(word)
        elif word == "package":
            self._file.package = self._word("a package")
            self._wanted(";")
        elif word == "import":
            self._import()
        elif word in ("export", "local"):  # of who may import it, since edition 2024
            self._type(self._take(), self._file, 1)
        elif not self._type(word, self._file, 1):
            raise self._wrong(word, "a message, an enum, an import, ...")

    def _version(self, word: str) -> None:
        self._wanted("=")
        text = self._text()
        self._wanted(";")
        if word == "syntax":
            self._file.syntax = text
            return
        self._file.syntax = "editions"
        number = self._form.Edition.DESCRIPTOR.values_by_name.get(f"EDITION_{text}")
        if number is None:
            raise SchemaInvalid(f"edition {text[:20]!r} is not known")
        self._file.edition = number.number

    def _import(self) -> None:
        kind = self._take() if self._next[0] == "word" else ""
        if kind == "public":
            self._file.public_dependency.append(len(self._file.dependency))
        name = self._text()
        if kind != "option" and name not in self._file.dependency:
            self._file.dependency.append(name)
            check_imports(len(self._file.dependency))
        self._wanted(";")

    def _type(self, word: str, into: Any, depth: int) -> bool:
        """What may stand in a file and in a message alike; False: it is something else."""
        if word == "message":
            into_list = into.message_type if into is self._file else into.nested_type
            self._message(into_list.add(), depth)
        elif word == "enum":
            self._enum(into.enum_type.add())
        elif word in ("extend", "service"):
            self._word("a name")
            self._block()
        elif word == "option":
            self._statement()
        elif word != ";":
            return False
        return True

    # Messages

    def _message(self, message: Any, depth: int) -> None:
        message.name = self._word("the name of a message")
        self._body(message, depth)

    def _body(self, message: Any, depth: int) -> None:
        if depth > NESTING_MAX:
            raise SchemaInvalid(f"messages nested deeper than {NESTING_MAX}")
        self._wanted("{")
        while (word := self._take()) != "}":
            if word in ("reserved", "extensions") and self._next[1] not in ("=", "."):
                self._statement()
            elif word == "oneof":
                self._oneof(message, depth)
            elif word == "map" and self._next[1] == "<":
                self._map(message)
            elif word in ("export", "local") and self._next[1] in ("message", "enum"):
                self._type(self._take(), message, depth + 1)
            elif not self._type(word, message, depth + 1):
                self._field(word, message, depth)
        self._close_optionals(message)

    def _field(self, word: str, message: Any, depth: int, oneof: int | None = None) -> Any:
        labels = self._form.FieldDescriptorProto
        field = message.field.add(label=labels.LABEL_OPTIONAL)
        if word in LABELS and self._next[0] == "word":
            field.label = getattr(labels, f"LABEL_{word.upper()}")
            field.proto3_optional = word == "optional" and self._file.syntax == "proto3"
            word = self._take()
        if oneof is not None:
            field.oneof_index = oneof
        if word == "group" and self._next[0] == "word":
            self._group(field, message, depth)
            return field
        if not re.fullmatch(r"\.?[A-Za-z_][\w.]*", word):
            raise self._wrong(word, "a field")
        self._typed(field, word)
        self._named(field)
        self._end_of_field()
        return field

    def _named(self, field: Any) -> None:
        field.name = self._word("the name of a field")
        self._wanted("=")
        field.number = self._number()

    def _end_of_field(self) -> None:
        if self._next[1] == "[":
            self._block()
        self._wanted(";")

    def _typed(self, field: Any, word: str) -> None:
        if word in SCALARS:
            field.type = getattr(self._form.FieldDescriptorProto, f"TYPE_{word.upper()}")
        else:
            field.type_name = word  # of a message or an enum: the library finds out

    def _group(self, field: Any, message: Any, depth: int) -> None:
        """A message and a field of it in one."""
        self._named(field)
        field.type_name, field.name = field.name, field.name.lower()
        field.type = self._form.FieldDescriptorProto.TYPE_GROUP
        if self._next[1] == "[":
            self._block()
        self._body(message.nested_type.add(name=field.type_name), depth + 1)

    def _oneof(self, message: Any, depth: int) -> None:
        number = len(message.oneof_decl)
        message.oneof_decl.add(name=self._word("the name of a oneof"))
        self._wanted("{")
        while (word := self._take()) != "}":
            if word == "option":
                self._statement()
            elif word != ";":
                self._field(word, message, depth, number)

    def _map(self, message: Any) -> None:
        """A repeated message with key and value, which Protobuf makes of it."""
        labels = self._form.FieldDescriptorProto
        self._wanted("<")
        key = self._word("a type")
        self._wanted(",")
        value = self._word("a type")
        self._wanted(">")
        field = message.field.add(label=labels.LABEL_REPEATED, type=labels.TYPE_MESSAGE)
        self._named(field)
        self._end_of_field()
        field.type_name = entry_name(field.name)
        entry = message.nested_type.add(name=field.type_name)
        entry.options.map_entry = True
        for number, (name, kind) in enumerate((("key", key), ("value", value)), 1):
            self._typed(
                entry.field.add(name=name, number=number, label=labels.LABEL_OPTIONAL), kind
            )

    def _close_optionals(self, message: Any) -> None:
        """Each `optional` of proto3 is in a oneof of its own, behind the others."""
        for field in message.field:
            if field.proto3_optional:
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")

    # Enums

    def _enum(self, enum: Any) -> None:
        enum.name = self._word("the name of an enum")
        enum.options.allow_alias = True  # where it is not said, no two have one number
        self._wanted("{")
        while (word := self._take()) != "}":
            if word in ("option", "reserved") and self._next[1] != "=":
                self._statement()
            elif word != ";":
                self._wanted("=")
                enum.value.add(name=word, number=self._number())
                self._end_of_field()

    # Tokens

    def _take(self) -> str:
        if self._next is END:
            raise SchemaInvalid("the text ends too early")
        text = self._next[1]
        self._next = next(self._tokens, END)
        return text

    def _wanted(self, mark: str) -> None:
        text = self._take()
        if text != mark:
            raise self._wrong(text, repr(mark))

    def _word(self, what: str) -> str:
        is_word = self._next[0] == "word"
        text = self._take()
        if not is_word:
            raise self._wrong(text, what)
        return text

    def _text(self) -> str:
        is_text = self._next[0] == "text"
        text = self._take()
        if not is_text:
            raise self._wrong(text, "a text in quotes")
        return text[1:-1]

    def _number(self) -> int:
        sign = -1 if self._next[1] == "-" else 1
        if sign < 0:
            self._take()
        text = self._take()
        try:
            is_octal = re.fullmatch(r"0[0-7]+", text) is not None
            number = sign * int(text[:20], 8 if is_octal else 0)
        except ValueError:
            raise self._wrong(text, "a number") from None
        if abs(number) > NUMBER_MAX + 1:
            raise self._wrong(text, "a number of 32 bits")
        return number

    def _statement(self) -> None:
        """Skips it, to its semicolon."""
        while self._next[1] != ";":
            if self._next[1] in ("{", "["):
                self._block()
            else:
                self._take()
        self._take()

    def _block(self) -> None:
        """Skips what stands in braces or brackets, and those in it."""
        open_: list[str] = []
        while True:
            text = self._take()
            if text in ("{", "["):
                open_.append(CLOSING[text])
            elif text in ("}", "]"):
                if not open_ or open_.pop() != text:
                    raise self._wrong(text, "its opening one")
                if not open_:
                    return
            elif not open_:
                raise self._wrong(text, "'{' or '['")

    def _wrong(self, got: str, wanted: str) -> SchemaInvalid:
        within = f"{self._file.name}: " if self._file.name else ""
        return SchemaInvalid(f"{within}got {got[:40]!r}, wanted {wanted}")


def entry_name(field: str) -> str:
    """As protoc names it: `by_name` has the entry `ByNameEntry`."""
    return "".join(part[:1].upper() + part[1:] for part in field.split("_")) + "Entry"
