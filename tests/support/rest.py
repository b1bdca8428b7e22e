"""The REST API of a running broker, as a program uses it: each answer is held to what the OpenAPI
document that the broker serves says of it."""

from __future__ import annotations

import gzip
import json
import re
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any
from urllib.parse import quote, urlencode

from jsonschema import Draft202012Validator

TIMEOUT_S = 30.0
PREFIX = "/api/v1"


@dataclass
class Answer:
    status: int
    body: Any
    headers: dict[str, str]


@dataclass
class Rest:
    admin: str  # HOST:PORT
    headers: dict[str, str] = field(default_factory=dict)

    @cached_property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = self.raw("GET", f"{PREFIX}/openapi.json").body
        return found

    def raw(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(
            f"http://{self.admin}{path}", body, {**self.headers, **named}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                return read(answer)
        except urllib.error.HTTPError as error:
            with error:
                return read(error)

    def ask(
        self, method: str, path: str, body: Any = None, prefix: str = PREFIX, **query: Any
    ) -> Answer:
        """`path` below the prefix; its answer is what the document promises, or this fails."""
        text = prefix + path + (f"?{urlencode(query)}" if query else "")
        data = None if body is None else json.dumps(body).encode()
        answer = self.raw(method, text, data, Content_Type="application/json")
        self._hold(method, prefix + path, answer)
        return answer

    def get(self, path: str, **query: Any) -> Any:
        answer = self.ask("GET", path, **query)
        assert answer.status == 200, answer.body
        return answer.body

    def post(self, path: str, body: Any = None, **query: Any) -> Any:
        answer = self.ask("POST", path, {} if body is None else body, **query)
        assert answer.status in (200, 201), answer.body
        return answer.body

    def refused(self, method: str, path: str, body: Any = None, **query: Any) -> tuple[int, str]:
        """Status and code; the message is there too."""
        answer = self.ask(method, path, body, **query)
        assert answer.status >= 400, answer.body
        assert answer.body["error"]["message"]
        return answer.status, answer.body["error"]["code"]

    def _hold(self, method: str, path: str, answer: Answer) -> None:
        operation = self.operation(method, path)
        key = str(answer.status)
        found = operation["responses"][key if key in operation["responses"] else "default"]
        if "content" not in found:
            assert answer.body is None
            return
        shape = found["content"]["application/json"]["schema"]
        check(json.dumps(shape))
        whole = {**shape, "components": self.document["components"]}
        Draft202012Validator(whole).validate(answer.body)

    def operation(self, method: str, path: str) -> dict[str, Any]:
        for template, methods in self.document["paths"].items():
            pattern = re.sub(r"{\w+}", "[^/]+", template)
            if method.lower() in methods and re.fullmatch(pattern, path):
                operation: dict[str, Any] = methods[method.lower()]
                return operation
        raise AssertionError(f"{method} {path} is not in the document")


@cache
def check(schema: str) -> None:
    """Each once: it takes ten times as long as to hold an answer to it."""
    Draft202012Validator.check_schema(json.loads(schema))


def read(answer: Any) -> Answer:
    if answer.headers.get_content_type() == "text/event-stream":
        return Answer(answer.status, None, dict(answer.headers))  # it has no end
    data = answer.read()
    if answer.headers.get("Content-Encoding") == "gzip":
        data = gzip.decompress(data)
    is_json = answer.headers.get_content_type() == "application/json"
    body = json.loads(data) if is_json else data or None
    return Answer(answer.status, body, dict(answer.headers))


def name(text: str) -> str:
    """As a part of a path."""
    return quote(text, safe="")
