"""The REST API of a running broker, for commands."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import IO, Any
from urllib.parse import quote

import click

from appliance.cli.remote.access import Access, with_access
from appliance.cli.remote.output import put_json
from appliance.cli.remote.rest import RestRefused, RestUnreached
from appliance.process.exit_codes import FAILED, NOT_FOUND, REFUSED, UNREACHABLE, Failed

EXITS = {401: REFUSED, 403: REFUSED, 404: NOT_FOUND, 409: REFUSED, 421: REFUSED, 429: REFUSED}
PREFIX = "/api/v1"
Answer = Iterator[Any]  # first what `--json` prints, then the lines for people


@dataclass(frozen=True)
class Api:
    access: Access

    @contextmanager
    def open(self, path: str, **query: Any) -> Iterator[IO[bytes]]:
        """An answer that is read in parts, and may break off."""
        with explaining(), self.access.rest.open("GET", path, None, query) as answer:
            try:
                yield answer
            except (http.client.HTTPException, ConnectionResetError, TimeoutError) as error:
                told = f"the answer of {self.access.address} broke off: {error}"
                raise RestUnreached(told) from error

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        with explaining():
            return self.access.rest.ask(method, PREFIX + path, body, query)

    def get(self, path: str, **query: Any) -> Any:
        return self.ask("GET", path, **query)

    def post(self, path: str, body: Any = None) -> Any:
        return self.ask("POST", path, body)


@contextmanager
def explaining() -> Iterator[None]:
    try:
        yield
    except RestRefused as error:
        raise refused(error, error.status) from error
    except RestUnreached as error:
        raise unreached(error) from error


def refused(error: Exception, status: int) -> Failed:
    """The error of a command whose request the broker refused."""
    hint = ". Log in with `appliance login`, or give a token with --token-file or APPLIANCE_TOKEN"
    return Failed(f"{error}{hint if status == 401 else ''}", EXITS.get(status, FAILED))


def unreached(error: Exception) -> Failed:
    """The error of a command that got no answer."""
    return Failed(
        f"{error}. Is the broker running (appliance serve)? Give another address with --admin or "
        "APPLIANCE_ADMIN_ADDRESS, or log in there once (appliance login URL)",
        UNREACHABLE,
    )


def part(text: str) -> str:
    """Quoted as one segment of a path."""
    return quote(text, safe="", errors="surrogateescape")  # it need not be UTF-8


def asks_a_broker(
    command: Callable[..., Any], admin: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Adds the options of a command that asks a broker. The command gets `api` and `as_json`."""

    @wraps(command)  # also the options that it has already
    def with_api(access: Access, **options: Any) -> Any:
        return command(api=Api(access), **options)

    as_json = click.option("--json", "as_json", is_flag=True, help="JSON, for programs.")
    return with_access(as_json(with_api), admin)


def shows_an_answer(command: Callable[..., Answer]) -> Callable[..., Any]:
    """As `asks_a_broker`, for a command that yields its answer. What people read is only made for
    them."""

    @wraps(command)
    def shown(as_json: bool, **options: Any) -> None:
        answer = command(**options)
        for_programs = next(answer)
        if as_json:
            return put_json(for_programs)
        for line in answer:
            click.echo(line)

    return asks_a_broker(shown)


def sure(question: str, is_sure: bool) -> None:
    """Asks for confirmation before a change that cannot be undone."""
    if not is_sure and not click.confirm(question, err=True):
        raise Failed("nothing was done", FAILED)
