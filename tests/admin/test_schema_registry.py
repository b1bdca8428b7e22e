"""Records by the schemas of a registry, over REST: decoded by what real registries answered, and
what a registry that is away, slow or hostile comes to."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import struct
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer

from appliance.admin import schema_registry
from appliance.admin.schema_registry import Registry
from appliance.config import SchemaRegistryConfig
from appliance.config.setting import SettingInvalid
from appliance.schemas import registry_resolver
from appliance.schemas.registry_client import (
    ANSWER_BYTES_MAX,
    DEPTH_MAX,
    REFERENCES_MAX,
    RegistryAway,
    RegistryClient,
    SchemaUnusable,
)
from appliance.schemas.registry_ids import SchemaKey, schema_named
from appliance.testing import RunningBroker, running_broker
from tests.admin.test_admin_topic_schemas import avro, order
from tests.support.certificates import Authority
from tests.support.registry_schemas import HERE, LINE, ORDER, UNKNOWN_ID, Recording, recorded
from tests.support.registry_servers import RepeatingRegistry, tell
from tests.support.rest import Rest

WHOLE_ORDER = {**ORDER, "fields": [ORDER["fields"][0], {
    "name": "lines", "type": {"type": "array", "items": LINE}}]}  # type: ignore[index]
ROW = {"id": 2**53 + 1, "lines": [{"what": "tea", "count": 2}]}
RECORDED = sorted(each.stem for each in HERE.glob("*.json"))
LATE_S = 30.0


@pytest.fixture(params=RECORDED)
def repeating(request: pytest.FixtureRequest) -> Iterator[RepeatingRegistry]:
    server = RepeatingRegistry(recorded(request.param))
    yield server
    server.close()


@pytest.fixture
def bare() -> Iterator[RepeatingRegistry]:
    """It has nothing but what a test gives it."""
    server = RepeatingRegistry(Recording({}, {}))
    yield server
    server.close()


@pytest.fixture
def broker(repeating: RepeatingRegistry, tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "data", {"schema.registry.url": repeating.url}) as running:
        yield running


def head(number: int) -> bytes:
    return struct.pack(">BI", 0, number)


def produce(broker: RunningBroker, topic: str, *records: dict[str, Any]) -> Rest:
    rest = Rest(broker.admin)
    rest.ask("POST", "/topics", {"name": topic, "partitions": 1})  # it may be there
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for each in records:
        producer.produce(topic, **each)
    assert producer.flush(LATE_S) == 0
    return rest


def shown(rest: Rest, topic: str, part: str = "value", **query: Any) -> list[Any]:
    found = rest.get(f"/topics/{topic}/messages", **{"from": "oldest", **query})["messages"]
    return [each[part] for each in found]


def by_schema(rest: Rest, topic: str, part: str = "value") -> list[Any]:
    """When the registry's answers have come: a page waits a second for them, and CI may be slow."""
    end = time.monotonic() + LATE_S
    while True:
        found = shown(rest, topic, part)
        late = [each for each in found if each and "a later look" in each.get("problem", "")]
        if not late:
            return found
        assert time.monotonic() < end, late
        time.sleep(0.1)


def test_avro_with_a_reference_is_decoded_and_its_schema_named(
    broker: RunningBroker, repeating: RepeatingRegistry
) -> None:
    ids = repeating.ids
    value = head(ids["orders-value"]) + avro(WHOLE_ORDER, ROW)
    key = head(ids["orders-key"]) + avro("string", "k")
    rest = produce(broker, "orders", {"value": value, "key": key}, {"value": b"\0\0\0\0\7"})
    first, other = by_schema(rest, "orders")
    assert (first["form"], json.loads(first["text"])) == ("avro", ROW)
    assert first["schema_id"] == ids["orders-value"]
    assert first["schema"] == {"id": str(ids["orders-value"]), "type": "shop.Order",
                               "subject": "orders-value", "version": 1}  # fmt: skip
    assert "problem" not in first
    assert other["problem"].startswith("avro, schema") or "schema 7: " in other["problem"]
    assert by_schema(rest, "orders", "key")[0]["text"] == '"k"'
    assert shown(rest, "orders", value_as="plain")[0]["form"] == "hex"
    asked = list(repeating.asked)
    assert by_schema(rest, "orders")[0] == first
    assert repeating.asked == asked, "known schemas are not asked for again"


def test_protobuf_by_its_path_of_indexes(
    broker: RunningBroker, repeating: RepeatingRegistry
) -> None:
    number = head(repeating.ids["paid-value"])
    paid = b"\x0a\x04\x08\x80\xf1\x04" + b"\x12\x08\x0a\x01a\x12\x03\x0a\x01n" + b"\x28\x00"
    rest = produce(
        broker, "paid",
        {"value": number + b"\0" + order(id=7, who_is="Ada", lines=[{"what": "tea"}])},
        {"value": number + b"\x02\x02" + paid},  # the second message of the file
        {"value": number + b"\x04\x00\x00" + b"\x0a\x02hi"},  # the first in the first
        {"value": number + b"\x02\x08" + paid},
    )  # fmt: skip
    found = by_schema(rest, "paid")
    assert [json.loads(each["text"]) for each in found[:3]] == [
        {"id": "7", "who_is": "Ada", "lines": [{"what": "tea"}]},
        {"at": "1970-01-01T22:13:20Z", "notes": {"a": {"text": "n"}}, "cents": 0},
        {"text": "hi"},
    ]
    assert [each["schema"]["type"] for each in found[:3]] == [
        "shop.Order", "shop.Paid", "shop.Order.Note"]
    assert "message [4] is not in the schema" in found[3]["problem"]


def test_protobuf_that_was_registered_in_base64(
    broker: RunningBroker, repeating: RepeatingRegistry
) -> None:
    """By the serializer for Python, which counts the entry of a map. Karapace makes text of it,
    in which that is a message."""
    number = head(repeating.ids["outer-value"])
    rest = produce(broker, "outer", {"value": number + b"\0\x08\5"},
                   {"value": number + b"\x04\x00\x02"})  # fmt: skip
    found = by_schema(rest, "outer")
    assert [(each["text"], each["schema"]["type"]) for each in found] == [
        ('{"maybe": 5}', "Outer"), ("{}", "Outer.Kinds")]


def test_json_schema_is_named_and_every_number_stays(
    broker: RunningBroker, repeating: RepeatingRegistry
) -> None:
    number = head(repeating.ids["people-value"])
    text = '{"name": "Ada", "id": 12345678901234567890.10}'
    rest = produce(broker, "people", {"value": number + text.encode()}, {"value": number + b"{"})
    good, bad = by_schema(rest, "people")
    assert (good["form"], good["text"], good["schema"]["type"]) == ("json", text, "Person")
    assert good["schema"]["subject"] == "people-value"
    assert "no JSON" in bad["problem"]


def test_a_header_may_name_the_schema(broker: RunningBroker, repeating: RepeatingRegistry) -> None:
    ids = repeating.ids
    value, text = avro(WHOLE_ORDER, ROW), order(id=7)
    guid = bytes(range(16))
    rest = produce(
        broker, "named",
        {"value": value, "headers": [("__value_schema_id", head(ids["orders-value"]))]},
        {"value": value,
         "headers": [("apicurio.value.contentId", struct.pack(">Q", ids["orders-value"]))]},
        {"value": text, "headers": [("__value_schema_id", head(ids["paid-value"]) + b"\0")]},
        {"value": text, "headers": [("__value_schema_id", b"\1" + guid + b"\0")]},
        {"value": text,
         "headers": [("apicurio.value.contentId", struct.pack(">Q", ids["paid-value"]))]},
    )  # fmt: skip
    row = recorded_row(repeating, "paid-value")
    repeating.answers["/schemas/guids/00010203-0405-0607-0809-0a0b0c0d0e0f"] = row
    found = by_schema(rest, "named")
    assert [json.loads(each["text"]) for each in found[:4]] == [ROW, ROW, {"id": "7"}, {"id": "7"}]
    assert found[3]["schema"]["id"] == "00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert "schema_id" not in found[3]
    assert "does not say which message" in found[4]["problem"]


def recorded_row(repeating: RepeatingRegistry, subject: str) -> tuple[int, Any]:
    return repeating.answers[f"/schemas/ids/{repeating.ids[subject]}"]


def test_what_is_followed_is_decoded_too(
    broker: RunningBroker, repeating: RepeatingRegistry
) -> None:
    record = {"value": head(repeating.ids["orders-value"]) + avro(WHOLE_ORDER, ROW)}
    by_schema(produce(broker, "orders", record), "orders")  # from here on it is known
    url = f"http://{broker.admin}/api/v1/topics/orders/messages/live"
    with urllib.request.urlopen(url, timeout=LATE_S) as stream:
        assert stream.readline() == b": following\n"
        produce(broker, "orders", record)
        assert [stream.readline() for _ in range(2)][-1] == b"event: message\n"
        message = json.loads(stream.readline().removeprefix(b"data: "))
    assert json.loads(message["value"]["text"]) == ROW
    assert message["value"]["schema"]["type"] == "shop.Order"


@pytest.mark.parametrize(
    ("data", "headers", "key"),
    [
        (b"\0\0\0\1\0", [], ("ids", "256")),
        (b"\0\0\0\0\0abc", [], None),  # registries count from 1
        (b"\0\xff\xff\xff\xffabc", [], None),  # and with signed numbers
        (b"\0\0\0\1", [], None),
        (b"\1" + bytes(16), [], None),  # a GUID is in headers alone
        (b"", [("__value_schema_id", b"\0\0\0\0\7")], ("ids", "7")),
        (b"", [("__key_schema_id", b"\0\0\0\0\7")], None),
        (b"", [("__value_schema_id", None), ("apicurio.value.contentId", b"\7")], None),
        (b"", [("a", b"")] * 99 + [("__value_schema_id", b"\0\0\0\0\7")], ("ids", "7")),
        (b"", [("a", b"")] * 100 + [("__value_schema_id", b"\0\0\0\0\7")], None),
    ],
)
def test_what_names_a_schema(data: bytes, headers: Any, key: tuple[str, str] | None) -> None:
    named = schema_named("value", data, headers)
    assert (named and named.key) == key


def test_an_id_that_the_registry_lacks_is_said_but_of_a_number(
    broker: RunningBroker, repeating: RepeatingRegistry
) -> None:
    number = struct.pack(">Q", UNKNOWN_ID << 24)  # a long, which begins as an id does
    rest = produce(broker, "other", {"value": head(UNKNOWN_ID) + b"abcd", "key": number})
    value, key = by_schema(rest, "other")[0], by_schema(rest, "other", "key")[0]
    assert value["problem"] == (
        f"schema {UNKNOWN_ID}: {repeating.url} has no /schemas/ids/{UNKNOWN_ID} (404)")
    assert value["form"] in ("text", "hex")
    assert "problem" not in key


def test_a_schema_of_the_topic_is_before_the_registry(
    broker: RunningBroker, repeating: RepeatingRegistry
) -> None:
    value = head(repeating.ids["orders-value"]) + avro(WHOLE_ORDER, ROW)
    rest = produce(broker, "orders", {"value": value})
    body = {"form": "avro", "text": json.dumps(WHOLE_ORDER)}
    answer = rest.ask("PUT", "/topics/orders/schemas/value", body)
    assert answer.body["registry"] == {"url": repeating.url, "problem": None}
    (found,) = shown(rest, "orders")
    assert (json.loads(found["text"]), "schema" in found) == (ROW, False)
    assert repeating.asked == []


# Registries that are away, slow, or hostile


def test_a_registry_that_is_away_is_said_and_is_not_waited_for(
    tmp_path: Path, bare: RepeatingRegistry
) -> None:
    bare.close()
    with running_broker(tmp_path, {"schema.registry.url": bare.url}) as broker:
        rest = produce(broker, "orders", {"value": head(5) + b"abc"})
        (found,) = by_schema(rest, "orders")
        words = f"schema 5: the registry is away: {bare.url}: "
        assert found["problem"].startswith(words)
        assert (found["schema_id"], found["text"]) == (5, "\0\0\0\0\x05abc")
        state = rest.get("/topics/orders/schemas")["registry"]
        assert "s ago" in state["problem"]


class Held:
    """An answer that does not come, until the test lets it."""

    def __init__(self, server: RepeatingRegistry) -> None:
        self._let_go = threading.Event()
        server.wrong = lambda _: self._let_go.wait(LATE_S) and False

    def let_go(self) -> None:
        self._let_go.set()


@pytest.mark.parametrize("name", RECORDED[:1])
def test_a_page_does_not_wait_for_a_slow_registry_and_a_later_look_has_it(
    name: str, tmp_path: Path
) -> None:
    server = RepeatingRegistry(recorded(name))
    held = Held(server)
    settings = {"schema.registry.url": server.url, "schema.registry.timeout.ms": "60000"}
    try:
        with running_broker(tmp_path, settings) as broker:
            value = head(server.ids["orders-value"]) + avro(WHOLE_ORDER, ROW)
            rest = produce(broker, "orders", {"value": value})
            (found,) = shown(rest, "orders")
            assert "has not answered in 1 s; a later look may have it" in found["problem"]
            assert found["form"] == "hex"
            held.let_go()
            assert json.loads(by_schema(rest, "orders")[0]["text"]) == ROW
    finally:
        held.let_go()
        server.close()


KEY = SchemaKey("ids", "1")


def asked(url: str, **facts: Any) -> Any:
    return asyncio.run(RegistryClient(SchemaRegistryConfig(url=url, **facts)).found(KEY))


def known(registry: Registry, *keys: SchemaKey) -> dict[SchemaKey, Any]:
    return asyncio.run(registry.known(keys))


def answering(status: int, answer: Any, **headers: str) -> Callable[[BaseHTTPRequestHandler], bool]:
    def wrong(handler: BaseHTTPRequestHandler) -> bool:
        tell(handler, status, answer, **headers)
        return True

    return wrong


def endless(handler: BaseHTTPRequestHandler) -> bool:
    """A body that has no end."""
    handler.send_response(200)
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b" " * 65536)
    except OSError:
        return True


def trickling(handler: BaseHTTPRequestHandler) -> bool:
    """Headers without end, one at a time."""
    try:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            handler.wfile.write(b"X: y\r\n")
            time.sleep(0.02)
    except OSError:
        return True


def references(depth: int, width: int) -> Callable[[BaseHTTPRequestHandler], bool]:
    """Each schema refers to others, so deep and so many."""

    def wrong(handler: BaseHTTPRequestHandler) -> bool:
        level = int(handler.path.split("/")[-1]) if "/subjects/" in handler.path else 0
        rows = [{"name": f"n{level}-{each}", "subject": f"s{each}", "version": level + 1}
                for each in range(width)] if level < depth else []
        tell(handler, 200, {"schema": '"int"', "references": rows})
        return True

    return wrong


@pytest.mark.parametrize(
    ("wrong", "failure", "words"),
    [
        (answering(500, {}), SchemaUnusable, "answered 500"),
        (answering(401, {}), RegistryAway, "answered 401"),
        (answering(503, {}), RegistryAway, "answered 503"),
        (answering(302, b"", Location="/elsewhere"), SchemaUnusable, "answered 302"),
        (answering(200, b"<html>"), SchemaUnusable, "no JSON"),
        (answering(200, b"[" * 100_000), SchemaUnusable, "no JSON"),
        (answering(200, []), SchemaUnusable, "the answer has no schema"),
        (answering(200, {"schema": 7}), SchemaUnusable, "the answer has no schema"),
        (answering(200, {"schema": "1", "references": "all"}), SchemaUnusable, "are no list"),
        (answering(200, {"schema": "1", "references": [{"name": "a", "subject": "b"}]}),
         SchemaUnusable, "no version"),
        (answering(200, {"schema": "1", "references": [
            {"name": "a", "subject": "\ud800", "version": 1}]}), SchemaUnusable, "surrogates"),
        (answering(200, {"schema": "x" * ((1 << 20) + 1)}), SchemaUnusable, "1048576 characters"),
        (endless, SchemaUnusable, f"more than {ANSWER_BYTES_MAX} bytes"),
        (references(DEPTH_MAX + 1, 1), SchemaUnusable, f"deeper than {DEPTH_MAX}"),
        (references(2, REFERENCES_MAX), SchemaUnusable, f"more than {REFERENCES_MAX} references"),
    ],
)  # fmt: skip
def test_what_a_registry_may_not_do(
    bare: RepeatingRegistry, wrong: Any, failure: type[Exception], words: str
) -> None:
    bare.wrong = wrong
    with pytest.raises(failure, match=words):
        asked(bare.url, timeout_ms=60_000)
    assert "/elsewhere" not in bare.asked


def test_a_registry_that_never_ends_its_answer_has_its_time(bare: RepeatingRegistry) -> None:
    bare.wrong = trickling
    with pytest.raises(RegistryAway, match=r"did not answer in 0\.3 s"):
        asked(bare.url, timeout_ms=300)


def test_a_name_server_that_hangs_holds_no_thread_of_the_broker(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go = threading.Event()
    monkeypatch.setattr(registry_resolver.socket, "getaddrinfo", lambda *_, **__: let_go.wait())

    async def asked_while_it_hangs() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        registry = Registry(SchemaRegistryConfig(url="http://registry.example", timeout_ms=60_000))
        asking = [asyncio.create_task(registry.known([SchemaKey("ids", str(each))]))
                  for each in range(1, 9)]  # fmt: skip
        try:
            await asyncio.wait(asking, timeout=0.1)
            assert await asyncio.wait_for(asyncio.to_thread(lambda: 7), LATE_S) == 7
        finally:
            let_go.set()
        await registry.close()
        await asyncio.gather(*asking)

    asyncio.run(asked_while_it_hangs())


def test_references_in_a_circle_end(bare: RepeatingRegistry) -> None:
    row = {"schema": '"int"', "references": [{"name": "a", "subject": "a/b?c", "version": 1}]}
    bare.answers = {"/schemas/ids/1": (200, row), "/subjects/a%2Fb%3Fc/versions/1": (200, row)}
    found = asked(bare.url)
    assert [each.name for each in found.references] == ["a"]


def test_what_is_kept_is_bounded(
    bare: RepeatingRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_registry, "KEPT_MAX", 3)
    monkeypatch.setattr(schema_registry, "WAIT_SECONDS", LATE_S)
    monkeypatch.setattr(schema_registry, "ASKED_MAX", 4)
    bare.wrong = answering(200, {"schema": '"int"'})
    registry = Registry(SchemaRegistryConfig(url=bare.url))
    keys = [SchemaKey("ids", str(each)) for each in range(1, 7)]
    found = known(registry, *keys)
    assert len(registry._kept) == 3
    assert found[keys[5]].problem.startswith("not asked for: a page asks for 4 schemas")
    asyncio.run(registry.close())


def test_what_is_known_stays_while_it_is_away_and_it_is_asked_again(
    bare: RepeatingRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_registry, "WAIT_SECONDS", LATE_S)
    other, later = SchemaKey("ids", "2"), SchemaKey("ids", "3")
    bare.answers = {f"/schemas/ids/{each}": (200, {"schema": '"int"'}) for each in (1, 2)}
    registry = Registry(SchemaRegistryConfig(url=bare.url))
    assert known(registry, KEY)[KEY].decoder is not None
    bare.wrong = answering(503, {})
    found = known(registry, KEY, other)
    assert found[KEY].decoder is not None
    assert f"away: {bare.url} answered 503 for /schemas/ids/2 (tried " in found[other].problem
    count = len(bare.asked)
    assert "away" in known(registry, other, later)[later].problem
    assert len(bare.asked) == count, "it is not asked while it is away"
    bare.wrong = lambda _: False
    ahead(monkeypatch, schema_registry.AGAIN_SECONDS + 1)
    assert known(registry, other)[other].decoder is not None
    assert registry.problem is None
    asyncio.run(registry.close())


def ahead(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Of the registry's clock alone: loops of others go by theirs."""
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + seconds)
    monkeypatch.setattr(schema_registry, "time", clock)


def test_a_schema_that_is_none_is_said_and_asked_for_again_later(
    bare: RepeatingRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_registry, "WAIT_SECONDS", LATE_S)
    bare.answers = {"/schemas/ids/1": (200, {"schema": '{"type": "nothing"}'})}
    registry = Registry(SchemaRegistryConfig(url=bare.url))
    assert "no Avro schema" in known(registry, KEY)[KEY].problem
    bare.answers = {"/schemas/ids/1": (200, {"schema": '"int"'})}
    assert known(registry, KEY)[KEY].decoder is None
    ahead(monkeypatch, schema_registry.UNUSABLE_SECONDS + 1)
    assert known(registry, KEY)[KEY].decoder is not None
    asyncio.run(registry.close())


# Login and trust


def test_the_login_is_from_a_file(bare: RepeatingRegistry, tmp_path: Path) -> None:
    bare.answers = {"/schemas/ids/1": (200, {"schema": '"int"'})}
    secret = tmp_path / "password"
    secret.write_text("p:ss\n")
    secret.chmod(0o600)
    assert (asked(bare.url, user="ann", password_file=secret)).text == '"int"'
    sent = bare.headers[0]["Authorization"].removeprefix("Basic ")
    assert base64.b64decode(sent) == b"ann:p:ss"
    secret.chmod(0o644)
    with pytest.raises(RegistryAway, match="wanted 0600"):
        asked(bare.url, user="ann", password_file=secret)


def test_the_registrys_certificate_is_checked(
    bare: RepeatingRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.keystore())
    bare.server.socket = context.wrap_socket(bare.server.socket, server_side=True)
    bare.answers = {"/schemas/ids/1": (200, {"schema": '"int"'})}
    url = f"https://localhost:{bare.server.server_port}"
    with pytest.raises(RegistryAway, match="CERTIFICATE_VERIFY_FAILED"):
        asked(url, timeout_ms=60_000)
    found = asked(url, ca_file=authority.trust, timeout_ms=60_000)
    assert found.text == '"int"'
    with pytest.raises(RegistryAway, match=r"schema.registry.ca.file: .*: No such file"):
        asked(url, ca_file=tmp_path / "none")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.trust))  # from now on the machine's
    assert asked(url, timeout_ms=60_000).text == '"int"'


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"url": "registry:8081"}, "got no URL"),
        ({"url": "ftp://registry"}, "got no URL"),
        ({"url": "http://registry:8081/?a=b"}, "got no URL"),
        ({"url": "https://ann:secret@registry"}, "got a URL with a name or password"),
        ({"url": "https://registry", "user": "a:b", "password_file": Path("/p")}, "no colon"),
        ({"url": "https://registry", "user": "ann"}, "wanted both or none"),
        ({"url": "http://registry", "user": "ann", "password_file": Path("/p")},
         "everybody on the way could read the password"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(facts: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingInvalid, match=words) as told:
        SchemaRegistryConfig(**facts)
    assert "secret" not in str(told.value).replace("wanted one without", "")
