"""`appliance user ...`: users, tokens and sessions of the admin pages."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from appliance import config
from appliance.catalog import catalog
from appliance.cli.remote.api import Answer, Api, part, shows_an_answer, sure
from appliance.cli.remote.output import put_json, table
from appliance.cli.remote.topic import YES
from appliance.data_dir import log_files
from appliance.errors import ResourceUnknown
from appliance.process.exit_codes import NOT_FOUND, REFUSED, Command, Failed
from appliance.process.spoken import duration, moment

ROLES = click.Choice(["viewer", "operator", "admin"])
ROLE = click.option("--role", type=ROLES, default="viewer", show_default=True)


@click.group()
def user() -> None:
    """Users, tokens and sessions of the admin pages."""


@user.command("list", cls=Command)
@shows_an_answer
def list_users(api: Api) -> Answer:
    """List the users."""
    answer = api.get("/users")
    yield answer
    yield table(
        ("user", "role", "messages", "logged in", "created"),
        [
            (each["name"], each["role"], yes_no(each["may_read"]), each["sessions"],
             moment(each["created_ms"]))
            for each in answer["users"]
        ],
    )  # fmt: skip


def yes_no(is_so: bool) -> str:
    return "yes" if is_so else "no"


@user.command("create", cls=Command)
@click.argument("name")
@ROLE
@click.option("--messages/--no-messages", "may_read", default=True, show_default=True,
              help="Whether the user may read messages.")
@click.password_option(help="The command asks for it if not given.")
@shows_an_answer
def create_user(api: Api, name: str, role: str, may_read: bool, password: str) -> Answer:
    """Create a user."""
    body = {"name": name, "role": role, "may_read": may_read, "password": password}
    answer = api.post("/users", body)
    yield answer
    yield f"{name} created, {role}"


@user.command("change", cls=Command)
@click.argument("name")
@click.option("--role", type=ROLES)
@click.option("--messages/--no-messages", "may_read", default=None,
              help="Whether the user may read messages.")
@click.option("--password", is_flag=True, help="Ask for a new password.")
@shows_an_answer
def change_user(
    api: Api, name: str, role: str | None, may_read: bool | None, password: bool
) -> Answer:
    """Change the role, the right to read messages or the password. The user's sessions end."""
    body: dict[str, Any] = {"role": role, "may_read": may_read}
    body = {key: value for key, value in body.items() if value is not None}
    if password:
        body["password"] = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    if not body:
        raise click.UsageError("nothing to change: wanted --role, --[no-]messages or --password")
    answer = api.ask("PATCH", f"/users/{part(name)}", body)
    yield answer
    yield f"{name} changed; all sessions of {name} ended"


@user.command("delete", cls=Command)
@click.argument("name")
@YES
@shows_an_answer
def delete_user(api: Api, name: str, is_sure: bool) -> Answer:
    """Delete a user."""
    sure(f"Delete user {name}?", is_sure)
    api.ask("DELETE", f"/users/{part(name)}")
    yield {"deleted": name}
    yield f"{name} deleted"


@user.command("reset", cls=Command)
@click.argument("name")
@click.option("--data-dir", metavar="DIR", help="Directory of the stopped broker (data.dir).")
@click.password_option(help="The command asks for it if not given.")
@click.option("--json", "as_json", is_flag=True, help="JSON, for programs.")
def reset_user(name: str, data_dir: str | None, password: str, as_json: bool) -> None:
    """Set the password of NAME when nobody can log in. The broker must be stopped.

    Anyone who can read the data directory can do this, because it holds all data of the broker."""
    # it imports the password hash, which no other command needs
    from appliance.admin.user_rows import UserRows
    from appliance.admin.users import reset_password

    settings = config.load(None, os.environ, (), {"data.dir": data_dir})
    directory = Path(settings.data_dir)
    path = directory / catalog.NAME
    if not path.exists():
        raise Failed(f"{path} does not exist; --data-dir names the broker's directory", NOT_FOUND)
    try:
        with log_files.held(directory):
            opened = catalog.Catalog.open(path)
            try:
                reset_password(UserRows(opened), name, password)
            finally:
                opened.close()
    except log_files.DirectoryInUse as error:
        raise Failed(
            f"{error}. While the broker runs, an admin sets a password in the console, or with "
            f"`appliance user change {name} --password`",
            REFUSED,
        ) from error
    except ResourceUnknown as error:
        raise Failed(str(error), NOT_FOUND) from error
    if as_json:
        return put_json({"reset": name})
    click.echo(f"{name} has a new password")


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
