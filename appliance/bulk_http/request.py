"""A request of the bulk port, as its handlers and the guard look at it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import h11
from multidict import CIMultiDict
from yarl import URL

from appliance.admin import bulk_tickets


@dataclass(frozen=True)
class Request:
    """Its names are aiohttp's."""

    method: str
    url: URL
    headers: Mapping[str, str]
    remote: str
    transport: asyncio.BaseTransport  # tells where it arrived, and nothing else
    match_info: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return self.url.path

    @property
    def query(self) -> Mapping[str, str]:
        return {name: text for name, text in self.url.query.items() if name != bulk_tickets.NAME}

    @property
    def has_ticket(self) -> bool:
        return bulk_tickets.NAME in self.url.query

    @property
    def cookies(self) -> Mapping[str, str]:
        parts = self.headers.get("Cookie", "").split(";")
        found = (each.strip().partition("=") for each in parts)
        return {name: value for name, _, value in found}

    def at(self, match_info: Mapping[str, str]) -> Request:
        return replace(self, match_info=match_info)


def request_of(head: h11.Request, remote: str, arrived: tuple[str, int]) -> Request:
    """ValueError: its target is no path."""
    target = head.target.decode("ascii")
    if not target.startswith("/"):
        raise ValueError(f"got target {target[:40]!r}, wanted a path")
    headers = CIMultiDict(
        (name.decode("ascii"), value.decode("utf-8", "surrogateescape"))
        for name, value in head.headers
    )
    transport = asyncio.BaseTransport({"sockname": arrived})
    url = URL("http://bulk" + target, encoded=True)
    return Request(head.method.decode("ascii"), url, headers, remote, transport)
