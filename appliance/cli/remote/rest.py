"""One request to a broker's admin port: its answer, or the reason why there is none."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any
from urllib.parse import urlencode

TIMEOUT_S = 60.0


class RestRefused(Exception):
    """The broker answered, with an error."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class RestUnreached(Exception):
    """The broker did not answer."""


@dataclass(frozen=True)
class Rest:
    address: str  # HOST:PORT, or a URL
    token: str | None = None

    @property
    def url(self) -> str:
        return (self.address if "://" in self.address else f"http://{self.address}").rstrip("/")

    def open(self, method: str, path: str, body: Any, query: Mapping[str, Any]) -> IO[bytes]:
        given = {name: _word(value) for name, value in query.items() if value is not None}
        url = f"{self.url}{path}" + (f"?{urlencode(given)}" if given else "")
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, headers, method=method)
        try:
            answer: IO[bytes] = urllib.request.urlopen(request, timeout=TIMEOUT_S)
            return answer
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(error) from error
        except (OSError, http.client.HTTPException) as error:
            raise self._unreached(error) from error

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
        return RestUnreached(f"{self.url} cannot be reached: {getattr(error, 'reason', error)}")


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
