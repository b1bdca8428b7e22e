"""`appliance login` and `appliance logout`: a session of the admin port, for all other commands."""

from __future__ import annotations

from http.client import HTTPResponse
from http.cookies import SimpleCookie
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import click

from appliance.cli.remote import kept_logins
from appliance.cli.remote.access import CA_FILE, FILE, HERE, Access, secret_in
from appliance.cli.remote.api import PREFIX, explaining
from appliance.cli.remote.kept_logins import Login
from appliance.cli.remote.output import put_json
from appliance.cli.remote.rest import Rest, RestRefused
from appliance.process.exit_codes import NOT_FOUND, REFUSED, Command, Failed

COOKIE = "appliance_session"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
JSON = click.option("--json", "as_json", is_flag=True, help="JSON, for programs.")


@click.command(cls=Command)
@click.argument("url", default=HERE)
@click.option("--user", prompt=True, help="The command asks for it if not given.")
@click.option("--password-file", metavar="FILE", type=FILE,
              help="A file with the password. The command asks for it if not given.")
@CA_FILE
@JSON
def login(
    url: str, user: str, password_file: Path | None, ca_file: Path | None, as_json: bool
) -> None:
    """Log in to the broker at URL, https://HOST:PORT. Other commands use the login until it ends.

    It is kept in a file that only you can read. The password is not."""
    access = Access(url, None, ca_file.absolute() if ca_file else None)
    rest = access.rest
    warn_without_tls(rest.url)
    password = (
        secret_in(password_file) if password_file else click.prompt("Password", hide_input=True)
    )
    kept = kept_logins.load()
    made = Login(rest.url, user, session_of(rest, user, password), str(access.ca_file or ""))
    path = kept_logins.store(kept.with_one(made))
    if as_json:
        return put_json({"url": made.url, "user": user, "file": str(path)})
    click.echo(f"logged in to {made.url} as {user}; kept in {path}")


def session_of(rest: Rest, user: str, password: str) -> str:
    with explaining():
        try:
            body = {"name": user, "password": password}
            with rest.open("POST", f"{PREFIX}/login", body, {}) as answer:
                headers = cast(HTTPResponse, answer).headers.get_all("Set-Cookie") or []
        except RestRefused as error:
            if error.status == 401:
                raise Failed(f"{error}: {user} at {rest.url}", REFUSED) from error
            raise
    cookies = SimpleCookie()
    for each in headers:
        cookies.load(each)
    if COOKIE not in cookies:
        raise Failed(f"{rest.url} began no session: is it an appliance?", REFUSED)
    return str(cookies[COOKIE].value)


def warn_without_tls(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in LOOPBACK:
        click.echo(f"{url}: without TLS everybody on the way can read the password "
                   "(docs/operations.md, TLS)", err=True)  # fmt: skip


@click.command(cls=Command)
@click.argument("url", default="")
@JSON
def logout(url: str, as_json: bool) -> None:
    """End the session at URL, or the last one, and forget it."""
    kept = kept_logins.load()
    found = kept.of(Rest(url).url if url else kept.last)
    if found is None:
        raise Failed(f"there is no login at {url or 'any broker'}", NOT_FOUND)
    kept_logins.store(kept.without(found.url))  # first: whatever the broker says, it is forgotten
    access = Access(found.url, None, Path(found.ca_file) if found.ca_file else None)
    shown = {"Cookie": f"{COOKIE}={found.secret}"}
    with explaining(), access.rest.open("POST", f"{PREFIX}/logout", None, {}, shown):
        pass
    if as_json:
        return put_json({"url": found.url, "user": found.user})
    click.echo(f"logged out of {found.url}")
