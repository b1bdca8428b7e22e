"""All brokers of a ZooKeeper path as one: how each is by its own word, and their topics.

Each is asked for /healthz of its admin pages, which wants no login. ZooKeeper does not know where
these are, and what it has anybody may have written: answers are bounded in time and size, and no
redirect is followed. Imports no library for ZooKeeper, which takes a start 50 ms.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from appliance.config import Address
from appliance.errors import ApplianceError
from appliance.process.tls_client import explained, trusting

if TYPE_CHECKING:
    import aiohttp

TIMEOUT_S = 5.0
AT_ONCE = 50  # brokers that are asked
ANSWER_MAX = 1 << 20
REASONS_MAX, REASON_MAX = 20, 500  # how many, and characters of one
TLS_ALERT = r"\x15\x03"  # what a port with TLS answers to who speaks none

UNREACHABLE = "unreachable"
ORDER = ("ok", "degraded")  # all others are worse


class ClusterUnread(ApplianceError):
    """The text says why."""

    kafka_code = 15


@dataclass(frozen=True)
class RegisteredBroker:
    id: int
    address: str  # of its first listener
    topics: dict[str, int]  # partitions


class Word(NamedTuple):
    """What a broker says of itself."""

    status: str
    reasons: list[str]


class BrokerRow(TypedDict):
    id: int
    address: str
    admin: str  # the URL of its pages
    topics: dict[str, int]  # partitions
    status: str
    reasons: list[str]


class TopicRow(TypedDict):
    topic: str
    partitions: int  # of all brokers together
    brokers: list[int]


class ClusterHealth(TypedDict):
    status: str  # the worst of all
    brokers: list[BrokerRow]
    topics: list[TopicRow]


@dataclass(frozen=True)
class AdminPages:
    """Where they are: at the port of all, or as it was given for one."""

    port: int
    scheme: str = "http"
    given: Mapping[int, str] = field(default_factory=dict)  # URLs, by broker
    ca: str = ""  # PEM; "": the system's authorities

    def of(self, broker: RegisteredBroker) -> str:
        if broker.id in self.given:
            return self.given[broker.id]
        try:
            host = Address.parse(broker.address).host
        except ValueError:
            host = broker.address  # its node has something else: asking says so
        return f"{self.scheme}://{Address(host, self.port)}"


async def cluster_health(
    brokers: Sequence[RegisteredBroker], pages: AdminPages, own: Mapping[int, Word] | None = None
) -> ClusterHealth:
    """`own`: of brokers that need not be asked."""
    known = own or {}
    urls = {each.id: pages.of(each) for each in brokers}
    asked = {number: url for number, url in urls.items() if number not in known}
    words = {**known, **await words_of(asked, pages.ca)}
    rows = [row(each, urls[each.id], words[each.id]) for each in brokers]
    return {"status": worst(rows), "brokers": rows, "topics": topics_of(brokers)}


def row(broker: RegisteredBroker, url: str, word: Word) -> BrokerRow:
    return {
        "id": broker.id,
        "address": broker.address,
        "admin": url,
        "topics": broker.topics,
        "status": word.status,
        "reasons": word.reasons,
    }


async def words_of(urls: Mapping[int, str], ca: str) -> dict[int, Word]:
    import aiohttp

    if not urls:
        return {}
    has_tls = any(each.startswith("https:") for each in urls.values())
    context = await asyncio.to_thread(trusting, ca) if has_tls else False
    turns = asyncio.Semaphore(AT_ONCE)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context, limit=AT_ONCE),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
    ) as session:

        async def ask(number: int, url: str) -> Word:
            async with turns:
                return await word_of(session, number, url)

        found = await asyncio.gather(*(ask(*each) for each in urls.items()))
    return dict(zip(urls, found, strict=True))


async def word_of(session: aiohttp.ClientSession, number: int, url: str) -> Word:
    """One that is not well answers 503. Another broker's word is not its."""
    try:
        async with session.get(f"{url}/healthz", allow_redirects=False) as answer:
            data = bytearray()
            async for part in answer.content.iter_any():
                data += part
                if len(data) > ANSWER_MAX:
                    raise ValueError(f"its answer has more than {ANSWER_MAX} bytes")
        found = json.loads(data)
        if found.get("node_id", number) != number:  # earlier versions do not tell it
            told = f"{url}: broker {str(found['node_id'])[:20]} answers there"
            return Word(UNREACHABLE, [f"{told}; cluster.admin.urls or --admin says where this is"])
        reasons = [str(each)[:REASON_MAX] for each in found["reasons"][:REASONS_MAX]]
        return Word(str(found["status"])[:REASON_MAX], reasons)
    except asyncio.TimeoutError:
        return Word(UNREACHABLE, [f"{url} did not answer in {TIMEOUT_S:g} s"])
    except Exception as error:  # noqa: BLE001  whatever is wrong with one is told of that one
        return Word(UNREACHABLE, [f"{url}: {why(error)}"[:REASON_MAX]])


def why(error: Exception) -> str:
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", error)
    if told := explained(cause):
        return told
    if TLS_ALERT in str(error):
        return "TLS is spoken there: wanted https:// in front of the address"
    if isinstance(cause, OSError) and cause.errno:
        return os.strerror(cause.errno)
    if isinstance(error, (AttributeError, KeyError, TypeError, ValueError)):
        return f"what answers there is no broker of this kind ({type(error).__name__})"
    return f"{type(error).__name__}: {error}"


def worst(rows: Sequence[BrokerRow]) -> str:
    states = {each["status"] for each in rows}
    bad = sorted(states - {*ORDER})
    return bad[0] if bad else "degraded" if "degraded" in states else "ok"


def topics_of(brokers: Sequence[RegisteredBroker]) -> list[TopicRow]:
    has: dict[str, list[RegisteredBroker]] = {}
    for each in brokers:
        for name in each.topics:
            has.setdefault(name, []).append(each)
    return [
        {
            "topic": name,
            "partitions": sum(each.topics[name] for each in has[name]),
            "brokers": [each.id for each in has[name]],
        }
        for name in sorted(has)
    ]
