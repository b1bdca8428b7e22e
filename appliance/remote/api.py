"""The REST API of a running broker, for commands."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any
from urllib.parse import quote, urlencode

import click

from appliance.command import FAILED, NOT_FOUND, REFUSED, UNREACHABLE, Failed

EXITS = {401: REFUSED, 403: REFUSED, 404: NOT_FOUND, 409: REFUSED, 421: REFUSED, 429: REFUSED}
TIMEOUT_S = 60.0
PREFIX = "/api/v1"


@dataclass(frozen=True)
class Api:
    address: str  # HOST:PORT, or a URL
    token: str | None

    @property
    def url(self) -> str:
        return self.address if "://" in self.address else f"http://{self.address}"

    def open(self, method: str, path: str, body: Any = None, **query: Any) -> IO[bytes]:
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
                raise self._failed(error) from error
        except (urllib.error.URLError, OSError) as error:
            reason = getattr(error, "reason", error)
            raise Failed(
                f"{self.url} is not reached: {reason}. Does the broker run? Another address is "
                "given by --admin or APPLIANCE_ADMIN_ADDRESS",
                UNREACHABLE,
            ) from error

    def _failed(self, error: urllib.error.HTTPError) -> Failed:
        try:
            told = json.loads(error.read())["error"]
            text = f"{told['message']} ({told['code']})"
        except (ValueError, KeyError, TypeError):
            text = f"{self.url} answered {error.code} {error.reason}"
        if error.code == 401:
            text += ". A token is given by --token or APPLIANCE_TOKEN"
        return Failed(text, EXITS.get(error.code, FAILED))

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        with self.open(method, PREFIX + path, body, **query) as answer:
            data = answer.read()
        return json.loads(data) if data else None

    def get(self, path: str, **query: Any) -> Any:
        return self.ask("GET", path, **query)

    def post(self, path: str, body: Any = None) -> Any:
        return self.ask("POST", path, body)


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def part(text: str) -> str:
    """As one part of a path."""
    return quote(text, safe="")


def asks_a_broker(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every such command; it is given `api` and `as_json`."""

    def with_api(admin: str, token: str | None, **options: Any) -> Any:
        return command(api=Api(admin, token), **options)

    with_api.__name__, with_api.__doc__ = command.__name__, command.__doc__
    found: Callable[..., Any] = with_api
    vars(found)["__click_params__"] = getattr(command, "__click_params__", [])
    for option in (
        click.option("--json", "as_json", is_flag=True, help="JSON, for programs."),
        click.option("--token", envvar="APPLIANCE_TOKEN", help="Of the admin pages, if it has a "
                     "password. Rather in the environment: APPLIANCE_TOKEN."),
        click.option("--admin", envvar="APPLIANCE_ADMIN_ADDRESS", default="127.0.0.1:8780",
                     show_default=True, metavar="HOST:PORT", help="Where the broker's pages are."),
    ):
        found = option(found)
    return found


def sure(question: str, is_sure: bool) -> None:
    """Asks before what cannot be taken back."""
    if not is_sure and not click.confirm(question, err=True):
        raise Failed("nothing was done", FAILED)
