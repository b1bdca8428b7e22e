"""A Protobuf message as a row of a table: numbers of 64 bits are numbers, which in Protobuf's JSON
are text, and a field without presence has its default."""

from __future__ import annotations

import base64
from typing import Any

WELL_KNOWN = "google.protobuf."  # these have a form of their own in JSON: a time is a text


def row_of(message: Any, json_format: Any) -> dict[str, Any]:
    return {field.name: _value(message, field, json_format) for field in message.DESCRIPTOR.fields}


def _value(message: Any, field: Any, json_format: Any) -> Any:
    value = getattr(message, field.name)
    if _is_list(field):
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            of = field.message_type.fields_by_name["value"]
            return {_key(key): _one(of, value[key], json_format) for key in value}
        return [_one(field, each, json_format) for each in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _one(field, value, json_format)


def _is_list(field: Any) -> bool:
    """An older library has no `is_repeated`."""
    if hasattr(field, "is_repeated"):
        return bool(field.is_repeated)
    return bool(field.label == field.LABEL_REPEATED)


def _key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _one(field: Any, value: Any, json_format: Any) -> Any:
    if field.message_type is not None:
        if field.message_type.full_name.startswith(WELL_KNOWN):
            return json_format.MessageToDict(value, preserving_proto_field_name=True)
        return row_of(value, json_format)
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return str(value) if named is None else named.name
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value
