"""The appliance's HTTP API, with the standard library alone: workers have nothing else."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

TIMEOUT_S = 60.0  # without a byte
BACKOFF_S, BACKOFF_MAX_S = 0.1, 5.0
OTHER_TOPIC, GONE, TOO_MANY = 409, 410, 429
TOPICS_AT_ONCE = 1000

# A broken connection, or a restarting or busy broker; other errors are final.
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
    url: str
    token: str
    retries: int

    def get(self, path: str, **query: Any) -> Any:
        for attempt in range(self.retries + 1):
            try:
                return self._get_once(path, query)
            except PASSING as error:
                if attempt == self.retries:
                    raise ConnectionError(
                        f"{self.url}{path}: {attempt + 1} tries, the last: {error!r}"
                    ) from error
                pause(attempt)

    def _get_once(self, path: str, query: dict[str, Any]) -> Any:
        connection = self.connect()
        try:
            return json.loads(self.ask(connection, path, **query).read())
        finally:
            connection.close()

    def connect(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        assert parts.hostname
        if parts.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=TIMEOUT_S, context=context
            )
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT_S)

    def ask(
        self, connection: http.client.HTTPConnection, path: str, **query: Any
    ) -> http.client.HTTPResponse:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        text = f"{urlsplit(self.url).path}{path}?{urlencode(query)}"
        connection.request("GET", text, headers=headers)
        response = connection.getresponse()
        if response.status != http.client.OK:
            refuse(response, f"GET {self.url}{path}")
        return response

    def plan(
        self, topic: str, first: str, end: str, splits: int, isolation: str, topic_id: str = ""
    ) -> Any:
        path = f"/export/v1/topics/{quote(topic, safe='')}/plan"
        return self.get(path, **{"from": first, "to": end, "splits": splits,
                                 "isolation": isolation}, **meant(topic_id))  # fmt: skip

    def topics(self) -> list[str]:
        """Topics without internal ones."""
        names: list[str] = []
        while True:
            page = self.get("/api/v1/topics", offset=len(names), limit=TOPICS_AT_ONCE)
            names += [each["name"] for each in page["topics"]]
            if not page["topics"] or len(names) >= page["total"]:
                return names

    def kafka_address(self) -> str:
        """The appliance's own address; if it listens on all interfaces, the host of the URL."""
        host, _, port = str(self.get("/api/v1/health")["listeners"]["kafka"]).rpartition(":")
        if host in ("0.0.0.0", "[::]", "::", ""):
            host = urlsplit(self.url).hostname or host
        return f"{host}:{port}"


def meant(topic_id: str) -> dict[str, str]:
    """The id of the intended topic; "" is the present one, for offsets without an id."""
    return {"topic_id": topic_id} if topic_id else {}


def pause(attempt: int) -> None:
    time.sleep(min(BACKOFF_S * 2**attempt, BACKOFF_MAX_S))


def refuse(response: http.client.HTTPResponse, asked: str) -> None:
    text = response.read(64 << 10).decode("utf-8", "replace")
    told = f"{asked}: {response.status} {response.reason}: {text}"
    if response.status == TOO_MANY or response.status >= http.client.INTERNAL_SERVER_ERROR:
        raise Busy(told)
    if response.status == http.client.UNAUTHORIZED:
        told += ' (set .option("token", ...), which `appliance user token` makes)'
    raise Refused(response.status, told)
