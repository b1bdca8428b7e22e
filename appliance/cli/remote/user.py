"""`appliance user ...`: users of Kafka and the console, tokens and sessions of the console.

With `--data-dir` users are those of a stopped broker, without it those of a running one, over REST.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Protocol

import click

from appliance import config
from appliance.cli.remote.access import access_of, admin_option
from appliance.cli.remote.api import Answer, Api, asks_a_broker, part, shows_an_answer, sure
from appliance.cli.remote.output import put_json, table
from appliance.cli.remote.topic import YES
from appliance.process.exit_codes import FAILED, Command, Failed
from appliance.process.spoken import duration, moment

ROLES = click.Choice(["none", "viewer", "operator", "admin"])
TOKEN_ROLES = click.Choice(["viewer", "operator", "admin"])
ROLE = click.option("--role", type=TOKEN_ROLES, default="viewer", show_default=True)
PASSWORD_BYTES_MAX = 4096

# `--admin` has two meanings where a user is made: alone it is the role, and before HOST:PORT the
# address of the admin port, as in every other command.
ALONE = "admin"
ADMIN_OR_ADDRESS = admin_option(
    is_flag=False, flag_value=ALONE, metavar="[HOST:PORT]",
    help="Alone: an administrator of the console and of Kafka, as --role admin. With HOST:PORT: "
    "the address of the admin port.",
)  # fmt: skip
MESSAGES = "Whether the user may read messages in the console."


class Users(Protocol):
    """Of a running broker, or of a stopped one."""

    def all(self) -> list[dict[str, Any]]: ...
    def create(self, name: str, role: str, password: str, may_read: bool) -> None: ...
    def change(
        self, name: str, role: str | None, password: str | None, may_read: bool | None
    ) -> None: ...
    def confirm(self, name: str) -> None: ...
    def delete(self, name: str) -> None: ...


class RestUsers:
    def __init__(self, api: Api) -> None:
        self._api = api

    def all(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._api.get("/users")["users"]
        return found

    def create(self, name: str, role: str, password: str, may_read: bool) -> None:
        body = {"name": name, "role": role, "may_read": may_read, "password": password}
        self._api.post("/users", body)

    def change(
        self, name: str, role: str | None, password: str | None, may_read: bool | None
    ) -> None:
        body = {"role": role, "may_read": may_read, "password": password}
        given = {key: value for key, value in body.items() if value is not None}
        self._api.ask("PATCH", f"/users/{part(name)}", given)

    def confirm(self, name: str) -> None:
        self._api.post(f"/users/{part(name)}/confirmation")

    def delete(self, name: str) -> None:
        self._api.ask("DELETE", f"/users/{part(name)}")


@contextmanager
def users_at(api: Api, data_dir: Path | None, makes: bool) -> Iterator[Users]:
    if data_dir is None:
        yield RestUsers(api)
        return
    # it imports the hash of passwords, which no other command needs
    from appliance.cli.offline_users import offline_users

    with offline_users(data_dir, makes=makes) as found:
        yield found


def of_users(
    *, makes: bool = False, is_stopped: bool = False, admin: Any = None
) -> Callable[[Callable[..., Answer]], Callable[..., Any]]:
    """A command that gets `users`, those of a data directory or of a running broker. `is_stopped`:
    always of a directory, the one of the settings if none is told. `admin` is its option `--admin`,
    if that is another than usual."""

    def decorated(command: Callable[..., Answer]) -> Callable[..., Any]:
        @wraps(command)
        def shown(api: Api, as_json: bool, data_dir: Path | None, **options: Any) -> None:
            if api.access.address == ALONE:
                options["is_admin"] = True
                given = os.environ.get("APPLIANCE_ADMIN_ADDRESS")
                api = Api(access_of(given, api.access.token, api.access.ca_file))
            if is_stopped and data_dir is None:
                data_dir = config.load(None, os.environ).data_dir
            with users_at(api, data_dir, makes) as found:
                answer = command(users=found, **options)
                for_programs = next(answer)
                if as_json:
                    put_json(for_programs)
                for line in answer:  # also does what comes behind what programs read
                    if not as_json:
                        click.echo(line)

        option = click.option(
            "--data-dir", metavar="DIR", type=click.Path(file_okay=False, path_type=Path),
            help="Directory of a stopped broker (data.dir): no login is needed.",
        )  # fmt: skip
        return option(asks_a_broker(shown, admin))

    return decorated


def with_password(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--password-file", type=click.Path(allow_dash=True, dir_okay=False),
                     metavar="FILE", help="File whose first line is the password; - is stdin."),
        click.option("--password", "told", hidden=True),
    ):
        command = option(command)
    return command


def password_of(file: str | None, told: str | None = None) -> str:
    """Others on this machine can see a command line, so a password does not belong there."""
    if told is not None:
        click.echo("--password: others can see it in the list of processes; use --password-file, "
                   "or let the command ask", err=True)  # fmt: skip
        return told
    if file is None:
        asked: str = click.prompt("Password", hide_input=True, confirmation_prompt=True)
        return asked
    with click.open_file(file, "rb") as opened:
        line = opened.readline(PASSWORD_BYTES_MAX)
    try:
        found = str(line, "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise Failed(f"{file}: the password is not UTF-8", FAILED) from error
    if not found:
        raise Failed(f"{file}: got an empty first line, wanted a password", FAILED)
    return found


@click.group()
def user() -> None:
    """Users of Kafka and the console; tokens and sessions of the console."""


@user.command("list", cls=Command)
@of_users()
def list_users(users: Users) -> Answer:
    """List the users."""
    found = users.all()
    yield {"users": found}
    yield table(
        ("user", "role", "messages", "logged in", "created", "Kafka"),
        [
            (each["name"], each["role"], yes_no(each["may_read"]), each["sessions"],
             moment(each["created_ms"]), ", ".join(each["kafka"]) or "no")
            for each in found
        ],
    )  # fmt: skip


def yes_no(is_so: bool) -> str:
    return "yes" if is_so else "no"


@user.command("create", cls=Command)
@click.argument("name")
@click.option("--role", type=ROLES, default="none", show_default=True,
              help="none: the user may do what access rules allow.")
@click.option("--messages/--no-messages", "may_read", default=True, show_default=True,
              help=MESSAGES)
@with_password
@of_users(makes=True, admin=ADMIN_OR_ADDRESS)
def create_user(
    users: Users, name: str, role: str, may_read: bool, password_file: str | None,
    told: str | None, is_admin: bool = False,
) -> Answer:  # fmt: skip
    """Create a user, who logs in to Kafka and the console with one password."""
    role = "admin" if is_admin else role
    users.create(name, role, password_of(password_file, told), may_read)
    yield {"users": users.all()}
    yield f"{name} created, {role}" if role != "none" else f"{name} created, for Kafka"


@user.command("change", cls=Command)
@click.argument("name")
@click.option("--role", type=ROLES)
@click.option("--messages/--no-messages", "may_read", default=None, help=MESSAGES)
@click.option("--password", "is_asked", is_flag=True, help="Ask for a new password.")
@of_users()
def change_user(
    users: Users, name: str, role: str | None, may_read: bool | None, is_asked: bool
) -> Answer:
    """Change the role, the right to read messages or the password. The user's sessions end."""
    if role is None and may_read is None and not is_asked:
        raise click.UsageError("nothing to change: wanted --role, --[no-]messages or --password")
    users.change(name, role, password_of(None) if is_asked else None, may_read)
    yield {"users": users.all()}
    yield f"{name} changed; all sessions of {name} ended"


@user.command("password", cls=Command)
@click.argument("name")
@with_password
@of_users()
def set_password(
    users: Users, name: str, password_file: str | None, told: str | None
) -> Answer:
    """Set a new password. The user's sessions end."""
    users.change(name, None, password_of(password_file, told), None)
    yield {"changed": name}
    yield f"{name} has a new password"


@user.command("role", cls=Command)
@click.argument("name")
@click.argument("role", type=ROLES)
@of_users()
def set_role(users: Users, name: str, role: str) -> Answer:
    """Set the role in the console. An admin is an administrator for Kafka, too."""
    users.change(name, role, None, None)
    yield {"changed": name, "role": role}
    yield f"{name} is now {role}"


@user.command("confirm", cls=Command)
@click.argument("name")
@of_users()
def confirm_user(users: Users, name: str) -> Answer:
    """Let NAME log in to Kafka with a password that was set when everybody could set it."""
    users.confirm(name)
    yield {"confirmed": name}
    yield f"{name} may log in to Kafka"


@user.command("delete", cls=Command)
@click.argument("name")
@YES
@of_users()
def delete_user(users: Users, name: str, is_sure: bool) -> Answer:
    """Delete a user. Certificates and tokens of that name from before open nothing any more."""
    sure(f"Delete user {name}?", is_sure)
    users.delete(name)
    yield {"deleted": name}
    yield f"{name} deleted"


@user.command("reset", cls=Command)
@click.argument("name")
@with_password
@of_users(is_stopped=True)
def reset_user(
    users: Users, name: str, password_file: str | None, told: str | None
) -> Answer:
    """Set the password of NAME when nobody can log in. The broker must be stopped.

    Anyone who can write the data directory can do this, because it holds all data of the broker."""
    users.change(name, None, password_of(password_file, told), None)
    yield {"reset": name}
    yield f"{name} has a new password"


@user.command("token", cls=Command)
@click.argument("name")
@ROLE
@click.option("--messages/--no-messages", "may_read", default=True, show_default=True,
              help="Whether the program may read messages.")
@click.option("--days", type=click.IntRange(1, 3650), help="Days until it expires; or never.")
@shows_an_answer
def make_token(api: Api, name: str, role: str, may_read: bool, days: int | None) -> Answer:
    """Create a token for a program. It is printed only once."""
    body: dict[str, Any] = {"name": name, "role": role, "may_read": may_read}
    if days is not None:
        body["days"] = days
    answer = api.post("/tokens", body)
    yield answer
    yield answer["token"]


@user.command("tokens", cls=Command)
@shows_an_answer
def list_tokens(api: Api) -> Answer:
    """List the programs that have a token. The tokens are not shown."""
    answer = api.get("/tokens")
    yield answer
    yield table(
        ("token", "role", "messages", "created", "expires", "last used"),
        [
            (each["name"], each["role"], yes_no(each["may_read"]), moment(each["created_ms"]),
             moment(each["expires_ms"]), moment(each["used_ms"]))
            for each in answer["tokens"]
        ],
    )  # fmt: skip


@user.command("revoke", cls=Command)
@click.argument("name")
@YES
@shows_an_answer
def revoke_token(api: Api, name: str, is_sure: bool) -> Answer:
    """Revoke a token at once."""
    sure(f"Revoke token {name}?", is_sure)
    api.ask("DELETE", f"/tokens/{part(name)}")
    yield {"revoked": name}
    yield f"{name} revoked"


@user.command("sessions", cls=Command)
@shows_an_answer
def list_sessions(api: Api) -> Answer:
    """List the sessions: who is logged in, and from where."""
    answer = api.get("/sessions")
    yield answer
    yield table(
        ("session", "user", "from", "for", "not used for", "with"),
        [
            (each["session"], each["name"], each["peer"], duration(each["age_s"]),
             duration(each["unused_s"]), each["software"])
            for each in answer["sessions"]
        ],
    )  # fmt: skip


@user.command("logout", cls=Command)
@click.argument("name")
@shows_an_answer
def end_sessions(api: Api, name: str) -> Answer:
    """End all sessions of a user."""
    api.ask("DELETE", f"/users/{part(name)}/sessions")
    yield {"logged_out": name}
    yield f"{name} is logged out"
