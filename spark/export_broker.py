"""An export's requests to the broker's admin port. `batches` reads the records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from typing import Any, cast
from urllib.parse import quote

from appliance.cli.remote.access import Access
from appliance.cli.remote.rest import Rest, RestRefused, RestUnreached
from appliance.record._batch import BatchInfo, headers
from appliance_spark.export_layout import ExportFailed


class BrokerRefused(ExportFailed):
    """The broker answered with an error."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class BrokerUnreachable(ExportFailed):
    """The broker did not answer."""


@contextmanager
def told() -> Iterator[None]:
    """What comes back, as a failure of the export."""
    try:
        yield
    except RestRefused as error:
        raise BrokerRefused(str(error), error.status) from error
    except RestUnreached as error:
        raise BrokerUnreachable(str(error)) from error


@dataclass(frozen=True)
class AdminPort(Access):
    @property
    def url(self) -> str:
        return Rest(self.address).url

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        with told():
            return self.rest.ask(method, path, body, query)

    def bulk_url(self) -> str:
        """Where workers read: they need no way to the admin port."""
        path = "/export/v1/topics"
        with told(), self.rest.open("GET", path, None, {}) as answer:
            found = cast(HTTPResponse, answer).geturl()
        return found.partition("?")[0].removesuffix(path)

    def plan(self, topic: str, begin: Any, end: Any, splits: int, isolation: str) -> Any:
        path = f"/export/v1/topics/{quote(topic, safe='')}/plan"
        bounds = {"from": _bound(begin), "to": _bound(end)}
        return self.ask("GET", path, splits=splits, isolation=isolation, **bounds)

    def batch_at(
        self, topic: str, topic_id: str, partition: int, offset: int, end: int | None = None
    ) -> BatchInfo | None:
        """The one with this offset, or the first behind it and before `end`; committed or not. None
        if the log has none, or no more."""
        from appliance_spark.fetching import read_frame

        path = f"/export/v1/topics/{quote(topic, safe='')}/partitions/{partition}/batches"
        end = offset + 1 if end is None else end
        query = {"start": offset, "end": end, "isolation": "read_uncommitted",
                 "topic_id": topic_id}
        try:
            with told(), self.rest.open("GET", path, None, query) as answer:
                found = headers(read_frame(cast(HTTPResponse, answer)))
        except BrokerRefused as error:
            if error.status != HTTPStatus.GONE:
                raise
            return None
        except (OSError, HTTPException) as error:
            raise BrokerUnreachable(f"{self.url}{path}: the answer broke off: {error!r}") from error
        return next((b for b in found if b.base_offset < end and b.last_offset >= offset), None)

    def check_topic(self, topic: str) -> None:
        """Raises if the topic does not exist."""
        self.is_compacted(topic)

    def is_compacted(self, topic: str) -> bool:
        """The present config."""
        answer = self.ask("GET", f"/api/v1/topics/{quote(topic, safe='')}")
        return "compact" in answer["cleanup_policy"].split(",")

    def topics(self) -> list[str]:
        """Without internal ones."""
        found: list[str] = self.ask("GET", "/export/v1/topics")["topics"]
        return found

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

    def define(self, name: str, definition: dict[str, Any], version: str | None) -> dict[str, Any]:
        """Replaces this version only."""
        path = f"/api/v1/exports/{quote(name, safe='')}"
        found: dict[str, Any] = self.ask("PUT", path, definition, version=version)
        return found

    def delete(self, name: str) -> None:
        """What it has exported stays."""
        self.ask("DELETE", f"/api/v1/exports/{quote(name, safe='')}")

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
