"""Unexpected values for every parameter and body of every route of both HTTP ports; and messages
that attack readers of downloads, or readers that leave early."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin

import pytest

from appliance.admin import api
from appliance.admin.body_schema import PLAIN, fields
from appliance.admin.route import Route
from tests.hostile.admin_port import DEADLINE_S, Pages
from tests.hostile.conftest import SOURCES
from tests.support.http_client import Heard, HttpClient

NUMBERS = [
    "-1", "0", "-0", "+1", "%201", "1.5", "1e3", "NaN", "inf", "9223372036854775807",
    "9223372036854775808", "-9223372036854775809", "9" * 40, "9" * 5000, "0x10", "", "a", "%00",
    "%ff", "%ed%a0%80", "%D9%A1", "null", "1_0",
]  # fmt: skip
TEXTS = [
    "", "%00", "%ff", "%ed%a0%80", "%0d%0aX:%20y", "..%2f..", "a" * 5000, "'", "%22", "time:-1",
    "time:999999999999999999", "time:99999999999999999999", "time:1e5", "offset:-5", "offset:",
    "offset:-999999999999999999", "offset:99999999999999999999", "0:0:5", "0:5:0", "0:0",
    "0:0:99999999999999999999", "0:99999999999999999999:1", "9:0:1", "0:0:1,0:0:1", ",", "-1:0:1",
    f"{'9' * 5000}:0:1", "%d9%a1:0:1", "key%20~%20%22[%22", "value.a[99]%20=%201", "key%20=",
    "partition%20=%201e999", "value%20~%20%22(a+)+$%22",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, 0, -1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**300, 1.5, 1e308, "", "\ud800",
    "\x00", "a" * 3000, "-5", [], [None], [[]], {}, {"a": None}, "../x", "orders", "0:0:1",
]  # fmt: skip
BODIES = [
    b"", b"{", b"null", b"[]", b"NaN", b"Infinity", b"1e999", b"\xff\xfe", b'"\\ud800"',
    b"[" * 100_000, b'{"a":' * 50_000, b"1" * 5000, b'{"a":1,"a":2}', b"\x00", b'{"\\ud800": 1}',
]  # fmt: skip
NAMES = ["%00", "%ff", "%ed%a0%80", "a" * 3000, "%2e%2e%2f", "%0a", "-1", "9" * 30, "%7b%7d"]
KINDS = ["text/plain", "application/json; charset=utf-16", "", "application/json; charset=x", ";;;"]
SHAPES = 12  # almost valid bodies per route

# Routes that would end the sessions of this test.
ENDS = ("/session/password", "/logout", "/sessions", "/users/{user}")
ROUTES = [each for each in api.ROUTES if not each.path.startswith(ENDS)]


class Asker:
    """One browser, whose responses must be expected ones."""

    def __init__(self, pages: Pages) -> None:
        self._begins = pages.client, pages.bulk_client
        self._cookies = pages.cookies
        self._clients = [begin(next(SOURCES)) for begin in self._begins]
        self.codes: Counter[int] = Counter()

    def ask(self, line: str, body: Any = None, *headers: str) -> None:
        """Also at the port for bulk data, to which the admin port only redirects."""
        for port in range(2 if line.startswith("GET /export/v1/topics") else 1):
            self._ask(port, line, body, [self._cookies, *headers])

    def _ask(self, port: int, line: str, body: Any, headers: list[str]) -> None:
        for _ in range(3):  # it may have been closed after the last response
            with contextlib.suppress(EOFError, ConnectionError):
                return self._heard(port, line, self._clients[port].ask(line, body, headers))
            self._again(port)
        raise AssertionError(f"{line[:300]}: no answer")

    def _heard(self, port: int, line: str, answer: Heard) -> None:
        self.codes[answer.status] += 1
        assert answer.status < 500, (line[:300], answer.body[:300])
        if answer.status >= 400:
            assert answer.told["error"]["message"], line[:300]
        if "content-length" not in answer.headers and answer.status != 204:
            self._again(port)  # a stream

    def close(self) -> None:
        for each in self._clients:
            each.close()

    def _again(self, port: int) -> None:
        self._clients[port].close()
        self._clients[port] = self._begins[port](next(SOURCES))


def url_of(route: Route, name: str = "orders", partition: str = "0") -> str:
    is_last = route.method == "DELETE" or route.path.endswith("/empty")
    known = route.url.replace("{partition}", partition).replace("{part}", "key")
    return re.sub(r"{\w+}", "gone" if is_last and name == "orders" else name, known)


@pytest.fixture
def asker(pages: Pages) -> Iterator[Asker]:
    made = Asker(pages)
    made.ask("POST /api/v1/topics", {"name": "orders", "partitions": 2})
    record = {"key": {"text": "k"}, "value": {"json": {"a": 1}}}
    made.ask("POST /api/v1/topics/orders/messages", {"messages": [record] * 20})
    yield made
    made.close()


def right(of: Any, chance: random.Random) -> Any:
    """A valid value of a body's type."""
    origin, args = get_origin(of), get_args(of)
    if of is Any:
        return {"a": 1}
    if of in PLAIN:
        return {bool: True, int: 5, float: 1.0, str: "orders"}.get(of)
    if origin is Annotated:
        return right(args[0], chance)
    if origin is list:
        return [right(args[0], chance)]
    if origin is dict:
        return {chance.choice(["orders", "0"]): right(args[1], chance)}
    if args:
        chosen = chance.choice(args)
        return chosen if isinstance(chosen, str) else right(chosen, chance)
    rows = fields(of).items()
    return {name: right(own, chance) for name, (own, is_wanted) in rows
            if is_wanted or chance.random() < 0.5}  # fmt: skip


def spoiled(value: Any, chance: random.Random) -> Any:
    """The same value with a wrong part."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        name = chance.choice(list(value))
        return {**value, name: spoiled(value[name], chance)}
    if isinstance(value, list) and value and chance.random() < 0.7:
        return [*value[:-1], spoiled(value[-1], chance)]
    return chance.choice(VALUES)


def test_every_parameter_of_every_route(asker: Asker) -> None:
    for route in ROUTES:
        body = right(route.body, random.Random(1)) if route.body is not None else None
        start = f"{route.method} {url_of(route)}"
        for name in NAMES if "{" in route.url else ():
            asker.ask(f"{route.method} {url_of(route, name)}", body)
            asker.ask(f"{route.method} {url_of(route, partition=name)}", body)
        for each in route.params:
            for text in NUMBERS if each.kind is int else [*NUMBERS[:4], *TEXTS]:
                asker.ask(f"{start}?{each.name}={text}", body)
            asker.ask(f"{start}?{each.name}=1&{each.name}=2", body)
        asker.ask(f"{start}?%ff=%ff&x=1", body)
        asker.ask(f"{start}?{'a=1&' * 1000}", body)
    assert asker.codes[400] > 500
    assert asker.codes[200] > 50


def test_every_body_of_every_route(asker: Asker) -> None:
    chance = random.Random(7)
    for route in (each for each in ROUTES if each.body is not None):
        line = f"{route.method} {url_of(route)}"
        for octets in BODIES:
            asker.ask(line, octets)
        good = right(route.body, chance)
        for kind in KINDS:
            asker.ask(line, json.dumps(good).encode(), f"Content-Type: {kind}")
        for _ in range(SHAPES):
            asker.ask(line, spoiled(right(route.body, chance), chance))
    assert asker.codes[400] > 200


# Downloads


def test_no_cell_of_a_download_is_a_formula(pages: Pages) -> None:
    texts = ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1", "-5", "+3.25",
             "-1e9", "5", "a=1", "-", ""]  # fmt: skip
    numbers = {"-5", "+3.25", "-1e9"}
    with pages.client(next(SOURCES)) as client, pages.bulk_client(next(SOURCES)) as bulk:
        client.ask("POST /api/v1/topics", {"name": "-cells"}, [pages.cookies])
        rows = [{"key": {"text": each}, "value": {"text": each}} for each in texts]
        sent = client.ask(
            "POST /api/v1/topics/-cells/messages", {"messages": rows}, [pages.cookies]
        )
        assert sent.status == 201, sent.body
        batches = "GET /export/v1/topics/-cells/partitions/0/batches?format=csv"
        for asked, line in (
            (client, "GET /api/v1/topics/-cells/export?format=csv"), (bulk, batches)
        ):  # fmt: skip
            head, *found = csv.reader(io.StringIO(whole(asked, pages, line), newline=""))
            at = head.index("key")
            assert head[at + 2] == "value"
            assert len(found) == len(texts)
            for text, row in zip(texts, found, strict=True):
                is_formula = text[:1] in tuple("=+-@\t\r\n\uff1d") and text not in numbers
                assert row[at] == row[at + 2] == (f"'{text}" if is_formula and text else text)
                assert all(cell in numbers or not cell.startswith(("=", "+", "-", "@"))
                           for cell in row)  # fmt: skip


def whole(client: HttpClient, pages: Pages, line: str) -> str:
    """A chunked body without its chunks."""
    client.send(client.head(line, pages.cookies))
    answer, found = client.answer(), b""
    assert answer.headers["transfer-encoding"] == "chunked"
    while size := int(client.line(), 16):
        found += client.read(size)
        client.line()
    client.line()
    return found.decode()


def test_an_answer_is_no_page(pages: Pages) -> None:
    with pages.client(next(SOURCES)) as client:
        for line in ("GET /api/v1/topics", "GET /livez", "GET /nowhere", "GET /metrics",
                     "GET /api/v1/topics/<script>", "GET /api/v1/openapi.json"):  # fmt: skip
            headers = client.ask(line, headers=[pages.cookies]).headers
            assert headers["x-content-type-options"] == "nosniff", line
            assert "default-src 'none'" in headers["content-security-policy"], line
            assert headers["cache-control"] == "no-store", line
            assert headers["server"] == "appliance", line


@pytest.mark.parametrize("path", [
    "/api/v1/live", "/api/v1/topics/orders/messages/live", "/api/v1/topics/orders/export",
    "/api/v1/topics/orders/export?format=csv", "/api/v1/topics", "/api/v1/bundle", "/metrics",
    "/export/v1/topics/orders/partitions/0/batches", "/api/v1/topics/orders/messages",
])  # fmt: skip
def test_who_leaves_in_the_middle_is_no_fault(asker: Asker, pages: Pages, path: str) -> None:
    """The fixture checks the log for errors."""
    for seconds in (0, 0, 0.001, 0.01, 0.03):
        is_bulk = path.startswith("/export/v1/topics")
        client = (pages.bulk_client if is_bulk else pages.client)(next(SOURCES))
        client.send(client.head(f"GET {path}", pages.cookies))
        time.sleep(seconds)
        client.reset()


def test_a_stream_of_messages_ends_with_the_session(pages: Pages) -> None:
    with pages.client(next(SOURCES)) as client, pages.client(next(SOURCES)) as other:
        other.ask("POST /api/v1/topics", {"name": "followed"}, [pages.cookies])
        body = {"name": "ada", "password": pages.password}
        session = other.ask("POST /api/v1/login", body, [pages.device]).cookies[0]
        client.send(client.head("GET /api/v1/topics/followed/messages/live", f"Cookie: {session}"))
        assert client.answer().status == 200
        assert other.ask("POST /api/v1/logout", b"", [f"Cookie: {session}"]).status == 204
        client.socket.settimeout(DEADLINE_S)
        end = time.monotonic() + DEADLINE_S
        while client.line() != b"0":  # the last chunk
            assert time.monotonic() < end, "it goes on"
