"""Decoders by a schema as a registry has it: Avro, Protobuf in .proto text, JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from appliance.schemas.avro_decoder import AvroDecoder, said
from appliance.schemas.proto_text import imports, proto_file
from appliance.schemas.protobuf_decoder import Messages, indexes_in, listed
from appliance.schemas.registry_client import Found, as_text
from appliance.schemas.registry_ids import Named
from appliance.schemas.schema_limits import DecodeFailed, SchemaInvalid

TITLE_MAX = 300
WELL_KNOWN = "google/protobuf/"


class Decoded(NamedTuple):
    text: str  # JSON
    type: str  # its name; "": it has none


class SchemaDecoder(Protocol):
    @property
    def form(self) -> str: ...

    def decode(self, named: Named) -> Decoded: ...

    def row(self, named: Named) -> Decoded:
        """For the columns of a table: with numbers as numbers."""


def decoder_of(found: Found) -> SchemaDecoder:
    """May take long, so a thread calls it. SchemaInvalid says why there is none."""
    if found.form not in FORMS:
        raise SchemaInvalid(f"got a schema in {found.form!r}, wanted {', '.join(FORMS)}")
    try:
        return FORMS[found.form](found)
    except SchemaInvalid:
        raise
    except Exception as error:  # what a text of somebody else comes to in a library
        raise SchemaInvalid(f"no {found.form} schema: {said(error)}") from error


class ByAvro:
    form = "avro"

    def __init__(self, found: Found) -> None:
        self._decoder = AvroDecoder(found.text, [each.text for each in found.references])

    def decode(self, named: Named) -> Decoded:
        return Decoded(self._decoder.json_of(named.body), self._decoder.about)

    row = decode


class ByJson:
    """The text is shown as it was written, so that every number stays; it is not validated."""

    form = "json"

    def __init__(self, found: Found) -> None:
        try:
            schema = json.loads(found.text)
        except (ValueError, RecursionError) as error:
            raise SchemaInvalid(f"no JSON: {said(error)}") from error
        title = schema.get("title") if isinstance(schema, dict) else None
        self._type = as_text(title[:TITLE_MAX]) if isinstance(title, str) else ""

    def decode(self, named: Named) -> Decoded:
        try:
            text = named.body.decode()
            json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DecodeFailed(f"no JSON: {said(error)}") from error
        return Decoded(text, self._type)

    row = decode


class ByProtobuf:
    """Each record names its message by a path of indexes: the third of the file, in that the first.

    Options do not matter for decoding, so what only they import (`confluent/meta.proto`) may be
    missing."""

    form = "protobuf"

    def __init__(self, found: Found) -> None:
        files, self._known = [], set[str]()
        for each in found.references:
            if each.name not in self._known:
                files += self._with_imports(file_of(each.name, each.text))
        self._file = file_of("the schema", found.text)
        files += self._with_imports(self._file)
        try:
            self._messages = Messages(files)
        except SchemaInvalid:
            raise
        except Exception as error:
            raise SchemaInvalid(f"no Protobuf schema: {said(error)}") from error

    def _with_imports(self, file: Any) -> list[Any]:
        """Behind what the library knows by itself."""
        before = [one for name in imports(file) for one in self._well_known(name)]
        missing = [name for name in imports(file) if name not in self._known]
        for name in missing:
            file.dependency.remove(name)
        if missing:
            del file.public_dependency[:]  # places in the list
        self._known.add(file.name)
        return [*before, file]

    def _well_known(self, name: str) -> list[Any]:
        from google.protobuf import descriptor_pb2

        if name in self._known or not name.startswith(WELL_KNOWN):
            return []
        found: list[Any] = []
        module = library_file(name)
        if module is not None:
            for each in module.dependencies:
                found += self._well_known(each.name)
            self._known.add(name)
            found.append(descriptor_pb2.FileDescriptorProto.FromString(module.serialized_pb))
        return found

    def decode(self, named: Named) -> Decoded:
        return self._decoded(named, self._messages.json_of)

    def row(self, named: Named) -> Decoded:
        return self._decoded(named, self._messages.row_of)

    def _decoded(self, named: Named, text_of: Callable[[str, bytes], str]) -> Decoded:
        if named.behind is None:
            indexes, end = indexes_in(named.body, 0)
            body = named.body[end:]
        else:
            indexes = indexes_in(named.behind, 0)[0] if named.behind else self._only()
            body = named.body
        first, *others = self._names_at(indexes)
        try:
            return Decoded(text_of(first, body), first)
        except DecodeFailed:
            for name in others:
                return Decoded(text_of(name, body), name)
            raise

    def _only(self) -> list[int]:
        if len(self._file.message_type) != 1:
            names = [each.name for each in self._file.message_type]
            raise DecodeFailed(f"the header does not say which message: {listed(names)}")
        return [0]

    def _names_at(self, indexes: list[int]) -> list[str]:
        """Java's serializer counts messages alone, Python's the entries of maps, too: within a
        message that has both a path may have two names, of which Java's is the first."""
        both = [self._name_at(indexes, is_java) for is_java in (True, False)]
        names = [name for name in dict.fromkeys(both) if name]
        if not names:
            raise DecodeFailed(f"message {indexes} is not in the schema")
        return names

    def _name_at(self, indexes: list[int], is_java: bool) -> str:
        within, names = self._file.message_type, [self._file.package] if self._file.package else []
        for index in indexes:
            own = [each for each in within if not (is_java and each.options.map_entry)]
            if not 0 <= index < len(own):
                return ""
            names.append(own[index].name)
            within = own[index].nested_type
        return ".".join(names)


def file_of(name: str, text: str) -> Any:
    """Of .proto text, or of a FileDescriptorProto in base64: confluent-kafka's serializer for
    Python registers that, and Apicurio keeps it so. No .proto text is base64: it has a space, a
    brace or a semicolon."""
    from google.protobuf import descriptor_pb2, message

    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        return proto_file(name, text)
    try:
        file = descriptor_pb2.FileDescriptorProto.FromString(data)
    except message.DecodeError as error:
        raise SchemaInvalid(f"{name}: base64, but no FileDescriptorProto: {error}") from error
    file.name = name
    return file


FORMS: dict[str, Callable[[Found], SchemaDecoder]] = {
    "AVRO": ByAvro,
    "PROTOBUF": ByProtobuf,
    "JSON": ByJson,
}


def library_file(name: str) -> Any:
    """Of the library's own files; None: it has none of this name."""
    from google.protobuf import (  # noqa: F401 - each puts its file into the pool
        any_pb2,
        api_pb2,
        descriptor_pool,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )

    try:
        return descriptor_pool.Default().FindFileByName(name)
    except KeyError:
        return None
