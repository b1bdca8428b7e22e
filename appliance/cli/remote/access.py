"""How a command comes to its broker: where it is, who asks, and whom the command trusts.

    where   --admin, APPLIANCE_ADMIN_ADDRESS, the broker of the last login, this machine
    who     --token-file, APPLIANCE_TOKEN_FILE, APPLIANCE_TOKEN, a login there
    trust   --ca-file, APPLIANCE_CA_FILE, as at the login, the system's authorities
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from appliance.cli.remote import kept_logins
from appliance.cli.remote.rest import Rest
from appliance.process.exit_codes import FAILED, Failed
from appliance.process.tls_client import CaFileInvalid, ca_in

HERE = "127.0.0.1:8780"
FILE = click.Path(path_type=Path, dir_okay=False)


@dataclass(frozen=True)
class Access:
    address: str  # HOST:PORT, or a URL
    token: str | None = None  # or the secret of a session
    ca_file: Path | None = None  # None: the system's authorities

    @property
    def ca(self) -> str:
        try:
            return ca_in(self.ca_file) if self.ca_file else ""
        except CaFileInvalid as error:
            raise Failed(str(error), FAILED) from error

    @property
    def rest(self) -> Rest:
        return Rest(self.address, self.token, self.ca)


def admin_option(**facts: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    told = {
        "metavar": "HOST:PORT",
        "help": "Address of the admin port, or its URL if it speaks TLS. Without it that of the "
        f"last login, or {HERE}.",
        **facts,
    }
    return click.option("--admin", envvar="APPLIANCE_ADMIN_ADDRESS", **told)


def with_access(
    command: Callable[..., Any], admin: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Adds the options. The command gets `access`. `admin` is its option `--admin`, if that is
    another than usual."""

    @wraps(command)  # also the options that it has already
    def found(
        admin: str | None, token: str | None, token_file: Path | None, ca_file: Path | None,
        **options: Any,
    ) -> Any:  # fmt: skip
        warn_of_token()
        secret = secret_in(token_file) if token_file else token
        return command(access=access_of(admin, secret, ca_file), **options)

    decorated: Callable[..., Any] = found
    for option in (
        CA_FILE,
        click.option("--token-file", envvar="APPLIANCE_TOKEN_FILE", metavar="FILE", type=FILE,
                     help="A file with a token for the admin port."),
        click.option("--token", envvar="APPLIANCE_TOKEN", hidden=True),
        admin or admin_option(),
    ):  # fmt: skip
        decorated = option(decorated)
    return decorated


CA_FILE = click.option(
    "--ca-file", envvar="APPLIANCE_CA_FILE", metavar="FILE", type=FILE,
    help="Authorities in PEM that are trusted instead of the system's.",
)  # fmt: skip


def warn_of_token() -> None:
    source = click.get_current_context().get_parameter_source("token")
    if source is click.core.ParameterSource.COMMANDLINE:
        click.echo("--token: everybody on this machine can see it; --token-file, APPLIANCE_TOKEN "
                   "and `appliance login` are for that", err=True)  # fmt: skip


def access_of(admin: str | None, token: str | None, ca_file: Path | None) -> Access:
    if admin and token:
        return Access(admin, token, ca_file)
    kept = kept_logins.load()
    address = admin or kept.last or HERE
    login = kept.of(Rest(address).url)
    if login is not None:
        token = token or login.secret
        ca_file = ca_file or (Path(login.ca_file) if login.ca_file else None)
    return Access(address, token, ca_file)


def secret_in(path: Path) -> str:
    """A password or a token: the file's first line. Error messages do not show it."""
    try:
        with path.open(encoding="utf-8") as file:
            found = file.readline().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        told = error.strerror if isinstance(error, OSError) else "no UTF-8"
        raise Failed(f"{path}: {told}", FAILED) from error
    if not found:
        raise Failed(f"{path}: got an empty line, wanted a secret", FAILED)
    return found
