"""One request to a broker's admin port: its answer, or the reason why there is none."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPMessage
from typing import IO, Any
from urllib.parse import urlencode, urlsplit

from appliance.process.tls_client import explained, trusting

TIMEOUT_S = 60.0
SECRET_HEADERS = ("Authorization", "Cookie")


class RestRefused(Exception):
    """The broker answered, with an error."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class RestUnreached(Exception):
    """The broker did not answer."""


class Redirects(urllib.request.HTTPRedirectHandler):
    """To the port of bulk data. It has a ticket for it, and gets nothing else of ours."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        here, there = urlsplit(req.full_url), urlsplit(newurl)
        if here.scheme == "https" and there.scheme != "https":
            raise RestUnreached(
                f"{here.scheme}://{here.netloc} sends to {there.scheme}://{there.netloc}, which "
                "has no TLS (export.tls, admin.behind.tls)"
            )
        made = super().redirect_request(req, fp, code, msg, headers, newurl)
        if made is not None and here.netloc != there.netloc:
            for name in SECRET_HEADERS:
                made.remove_header(name)
        return made


@dataclass(frozen=True)
class Rest:
    address: str  # HOST:PORT, or a URL
    token: str | None = None  # or the secret of a session
    ca: str = ""  # PEM of the authorities that are trusted; "": the system's

    @property
    def url(self) -> str:
        return (self.address if "://" in self.address else f"http://{self.address}").rstrip("/")

    def open(
        self, method: str, path: str, body: Any, query: Mapping[str, Any],
        more: Mapping[str, str] | None = None,
    ) -> IO[bytes]:  # fmt: skip
        """`more`: headers."""
        given = {name: _word(value) for name, value in query.items() if value is not None}
        url = f"{self.url}{path}" + (f"?{encoded(given)}" if given else "")
        headers = {"Content-Type": "application/json", **(more or {})}
        if self.token:
            headers["Authorization"] = f"Bearer {sendable(self.token)}"
        data = None if body is None else json.dumps(body).encode()
        try:
            request = urllib.request.Request(url, data, headers, method=method)
            answer: IO[bytes] = self._opener().open(request, timeout=TIMEOUT_S)
            return answer
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(error) from error
        except (OSError, http.client.HTTPException) as error:
            raise self._unreached(error) from error
        except ValueError as error:  # of an address that is none
            raise RestUnreached(f"address {self.address!r} cannot be used: {error}") from error

    def _opener(self) -> urllib.request.OpenerDirector:
        if not self.url.startswith("https:"):
            return urllib.request.build_opener(Redirects)
        trust = urllib.request.HTTPSHandler(context=trusting(self.ca))
        return urllib.request.build_opener(Redirects, trust)

    def ask(self, method: str, path: str, body: Any, query: Mapping[str, Any]) -> Any:
        with self.open(method, path, body, query) as answer:
            try:
                data = answer.read()
            except (OSError, http.client.HTTPException) as error:
                raise self._unreached(error) from error
        return json.loads(data) if data else None

    def _refused(self, error: urllib.error.HTTPError) -> RestRefused:
        try:
            told = json.loads(error.read())["error"]
            text = f"{told['message']} ({told['code']})"
        except (ValueError, KeyError, TypeError):
            text = f"{self.url} answered {error.code} {error.reason}"
        return RestRefused(text, error.code)

    def _unreached(self, error: Exception) -> RestUnreached:
        reason: object = error
        if isinstance(error, urllib.error.URLError):
            reason = error.reason
        why = explained(reason) or reason
        return RestUnreached(f"{self.url} cannot be reached: {why}")


def encoded(query: Mapping[str, str]) -> str:
    """Words of a command line need not be UTF-8."""
    return urlencode(query, errors="surrogateescape")


def sendable(token: str) -> str:
    """Here, because the error of who sends a header has its value."""
    if not (token.isascii() and token.isprintable()):
        raise RestUnreached("the token has characters that no token has: is it the right one?")
    return token


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
