"""A message as a line, and a line as a message: of text, or a JSON object.

JSON has no bytes. Bytes that are not UTF-8 are written as base64, and `key_is_base64` or
`value_is_base64` is set, as in the files that the console exports. Headers are an object. They
are a list of `name`, `value` and `is_base64` if a value is base64 or a name occurs twice.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from appliance.process.exit_codes import FAILED, Failed


def message_of(line: bytes, separator: str | None, is_json: bool) -> dict[str, Any]:
    if is_json:
        return of_object(line)
    key, has_key, value = line.partition(separator.encode()) if separator else (b"", b"", line)
    if not has_key:
        return {"value": of_bytes(line)}
    return {"key": of_bytes(key), "value": of_bytes(value)}


def of_bytes(data: bytes) -> dict[str, Any]:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def of_object(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
        headers = message.get("headers") or []
        if isinstance(headers, dict):
            headers = [{"name": name, "value": value} for name, value in headers.items()]
        return {
            "key": _data(message.get("key"), message.get("key_is_base64")),
            "value": _data(message.get("value"), message.get("value_is_base64")),
            "headers": [
                {"name": each["name"], "value": _data(each["value"], each.get("is_base64"))}
                for each in headers
            ],
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        text = line[:80].decode(errors="backslashreplace")
        raise Failed(
            f"got line {text!r}, wanted a JSON object with key, value and headers: {error!r}",
            FAILED,
        ) from error


def _data(value: Any, is_base64: bool | None) -> dict[str, Any] | None:
    if value is None:
        return None
    if is_base64:
        return {"base64": value}
    return {"text": value} if isinstance(value, str) else {"json": value}


def to_object(message: dict[str, Any]) -> dict[str, Any]:
    """The form that `of_object` reads, with partition, offset, timestamp, and the schemas of a
    registry by which key and value were decoded."""
    place = {name: message[name] for name in ("partition", "offset", "timestamp_ms")}
    headers = [
        _told(each["value"], "value", "is_base64") | {"name": each["name"]}
        for each in message["headers"]
    ]
    by_name = {each["name"]: each["value"] for each in headers}
    is_plain = len(by_name) == len(headers) and not any("is_base64" in each for each in headers)
    schemas = {
        f"{part}_schema": message[part]["schema"]
        for part in ("key", "value")
        if message[part] is not None and "schema" in message[part]
    }
    return {
        **place,
        **schemas,
        **_told(message["key"], "key", "key_is_base64"),
        **_told(message["value"], "value", "value_is_base64"),
        "headers": by_name if is_plain else headers,
    }


def _told(data: dict[str, Any] | None, name: str, flag: str) -> dict[str, Any]:
    if data is None:
        return {name: None}
    if data["form"] != "hex":
        return {name: data["text"]}
    return {name: base64.b64encode(bytes.fromhex(data["text"])).decode(), flag: True}


def text_of(data: dict[str, Any] | None) -> str:
    """Bytes that are no text are hex."""
    return "" if data is None else str(data["text"])
