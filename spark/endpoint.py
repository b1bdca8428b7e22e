"""The appliance's HTTP API, with the standard library alone: workers have nothing else."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlencode, urljoin, urlsplit

from appliance.process import tls_client

TIMEOUT_S = 60.0  # without a byte
BACKOFF_S, BACKOFF_MAX_S = 0.1, 5.0
OTHER_TOPIC, GONE, TOO_MANY = 409, 410, 429
# What a broken line, a broker that is started again or one that is busy shows; all else is final.
PASSING = (OSError, http.client.HTTPException)


class Refused(Exception):
    """The appliance answered with an error."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text

    def __reduce__(self) -> tuple[type[Refused], tuple[int, str]]:
        return Refused, (self.status, self.text)


class Busy(OSError):
    """Too many requests, or not ready yet: retry later."""


@dataclass(frozen=True)
class Endpoint:
    """The admin port sends who asks for bulk data to another port, with a ticket that is good once.
    `plan` tells which it is: workers go there at once."""

    url: str  # or several of brokers of one cluster, separated by commas: any of them will do
    token: str
    retries: int
    ca: str = ""  # PEM of the authorities that are trusted: workers have no file. "": the system's

    def at(self, url: str) -> Endpoint:
        """Of the same broker; "": this one."""
        return replace(self, url=url) if url else self

    def get(self, path: str, **query: Any) -> Any:
        return self._get(path, query)[1]

    def _get(self, path: str, query: Mapping[str, Any]) -> tuple[str, Any]:
        """Where it is, and what is there."""
        urls = self.url.split(",")
        for attempt in range(self.retries + 1):
            for url in urls:
                try:
                    return self.at(url)._get_once(path, query)
                except PASSING as error:
                    check_trust(url, error)
                    last = error
            if attempt < self.retries:
                pause(attempt)
        told = ", ".join(f"{url}{path}" for url in urls)
        raise ConnectionError(f"{told}: {self.retries + 1} tries, the last: {last!r}") from last

    def _get_once(self, path: str, query: Mapping[str, Any]) -> tuple[str, Any]:
        with self.opened(path, query) as (url, response):
            return url, json.loads(response.read())

    @contextmanager
    def opened(
        self, path: str, query: Mapping[str, Any]
    ) -> Iterator[tuple[str, http.client.HTTPResponse]]:
        """Where it is, and the answer."""
        own = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        asked = f"{self.url}{path}?{urlencode(query)}"
        with ExitStack() as stack:
            response = stack.enter_context(answered(asked, own, self.ca))
            if response.status == http.client.TEMPORARY_REDIRECT:
                asked = urljoin(asked, response.headers["Location"])
                check_safe(self.url, asked)
                response = stack.enter_context(answered(asked, {}, self.ca))  # it has a ticket
            told, _, _ = asked.partition("?")
            if response.status != http.client.OK:
                refuse(response, f"GET {told}")
            yield told.removesuffix(path), response

    def plan(
        self, topic: str, first: str, end: str, splits: int, isolation: str, topic_id: str = ""
    ) -> Any:
        """Its `url` is where the data is."""
        path = f"/export/v1/topics/{quote(topic, safe='')}/plan"
        url, found = self._get(path, {"from": first, "to": end, "splits": splits,
                                      "isolation": isolation, **meant(topic_id)})  # fmt: skip
        return {**found, "url": url}

    def topics(self) -> list[str]:
        """Without internal ones."""
        found: list[str] = self.get("/export/v1/topics")["topics"]
        return found

    def kafka_address(self) -> str:
        """The appliance's own address; if it listens on all interfaces, the host of the URL."""
        url, health = self._get("/api/v1/health", {})
        host, _, port = str(health["listeners"]["kafka"]).rpartition(":")
        if host in ("0.0.0.0", "[::]", "::", ""):
            host = urlsplit(url).hostname or host
        return f"{host}:{port}"


@contextmanager
def answered(
    url: str, headers: Mapping[str, str], ca: str
) -> Iterator[http.client.HTTPResponse]:
    parts = urlsplit(url)
    assert parts.hostname
    with closing(connection_to(parts.scheme, parts.hostname, parts.port, ca)) as connection:
        connection.request("GET", f"{parts.path}?{parts.query}", headers=dict(headers))
        yield connection.getresponse()


def connection_to(
    scheme: str, host: str, port: int | None, ca: str
) -> http.client.HTTPConnection:
    if scheme == "https":
        context = tls_client.trusting(ca)
        return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)
    return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)


def check_trust(url: str, error: Exception) -> None:
    """Another try would find the same certificate, and the same port."""
    if told := tls_client.explained(error):
        raise Refused(0, f"{url}: {told}") from error


def check_safe(url: str, there: str) -> None:
    """From TLS to none anybody on the way could send us."""
    if urlsplit(url).scheme == "https" and urlsplit(there).scheme != "https":
        told, _, _ = there.partition("?")
        text = f"{url} sends to {told}, which has no TLS (export.tls, admin.behind.tls)"
        raise Refused(http.client.TEMPORARY_REDIRECT, text)


def meant(topic_id: str) -> dict[str, str]:
    """The id of the intended topic; "" is the present one, for offsets without an id."""
    return {"topic_id": topic_id} if topic_id else {}


def pause(attempt: int) -> None:
    time.sleep(min(BACKOFF_S * 2**attempt, BACKOFF_MAX_S))


def refuse(response: http.client.HTTPResponse, asked: str) -> None:
    text = response.read(64 << 10).decode("utf-8", "replace")
    told = f"{asked}: {response.status} {response.reason}: {text}"
    is_passing = response.status in (TOO_MANY, http.client.MISDIRECTED_REQUEST)  # no leader now
    if is_passing or response.status >= http.client.INTERNAL_SERVER_ERROR:
        raise Busy(told)
    if response.status == http.client.UNAUTHORIZED:
        told += ' (set .option("tokenFile", ...) to a file with what `appliance user token` makes)'
    raise Refused(response.status, told)
