"""An export's requests to the broker's admin port. `batches` reads the records."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from appliance.cli.remote.rest import Rest, RestRefused, RestUnreached
from appliance_spark.export_layout import ExportFailed

TOPICS_AT_ONCE = 1000


class BrokerRefused(ExportFailed):
    """The broker answered with an error."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class BrokerUnreachable(ExportFailed):
    """The broker did not answer."""


@dataclass(frozen=True)
class AdminPort:
    address: str  # HOST:PORT or a URL
    token: str | None = None

    @property
    def url(self) -> str:
        return Rest(self.address).url

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        try:
            return Rest(self.address, self.token).ask(method, path, body, query)
        except RestRefused as error:
            raise BrokerRefused(str(error), error.status) from error
        except RestUnreached as error:
            raise BrokerUnreachable(str(error)) from error

    def plan(self, topic: str, begin: Any, end: Any, splits: int, isolation: str) -> Any:
        path = f"/export/v1/topics/{quote(topic, safe='')}/plan"
        bounds = {"from": _bound(begin), "to": _bound(end)}
        return self.ask("GET", path, splits=splits, isolation=isolation, **bounds)

    def check_topic(self, topic: str) -> None:
        """Raises if the topic does not exist."""
        self.is_compacted(topic)

    def is_compacted(self, topic: str) -> bool:
        """The present config."""
        answer = self.ask("GET", f"/api/v1/topics/{quote(topic, safe='')}")
        return "compact" in answer["cleanup_policy"].split(",")

    def topics(self) -> list[str]:
        """Topics without internal ones."""
        names: list[str] = []
        while True:
            page = self.ask("GET", "/api/v1/topics", offset=len(names), limit=TOPICS_AT_ONCE)
            names += [each["name"] for each in page["topics"]]
            if not page["topics"] or len(names) >= page["total"]:
                return names

    def unserved(self) -> dict[str, str]:
        """Topics that exist and cannot be opened, with the reason."""
        found: dict[str, str] = self.ask("GET", "/api/v1/topics", offset=0, limit=1)["unavailable"]
        return found

    def hold(self, name: str, topic: str, offsets: dict[int, int], max_bytes: int) -> None:
        body = {"topic": topic, "offsets": {str(p): o for p, o in offsets.items()},
                "max_bytes": max_bytes}
        self.ask("PUT", f"/export/v1/holds/{quote(name, safe='')}", body)

    def definitions(self) -> list[dict[str, Any]]:
        answer = self.ask("GET", "/api/v1/exports")
        found: list[dict[str, Any]] = answer["exports"] if isinstance(answer, dict) else answer
        return found

    def definition(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", f"/api/v1/exports/{quote(name, safe='')}")
        return found

    def report(self, name: str, run: dict[str, Any]) -> None:
        self.ask("POST", f"/api/v1/exports/{quote(name, safe='')}/runs", run)

    def next_run(self, name: str, at_ms: int) -> None:
        self.ask("PUT", f"/api/v1/exports/{quote(name, safe='')}/next", {"next_run_ms": at_ms})


def _bound(bound: Any) -> str | None:
    if bound is None or isinstance(bound, str):
        return bound
    if isinstance(bound, dict):
        return json.dumps({str(partition): offset for partition, offset in bound.items()})
    return str(bound)
