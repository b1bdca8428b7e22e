"""`appliance quota ...`: how much users, clients and addresses may write, read and connect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from appliance.cli.remote.api import Answer, Api, shows_an_answer
from appliance.cli.remote.output import table
from appliance.process.exit_codes import NOT_FOUND, Command, Failed

NONE = "There are no quotas: every client may write and read as fast as it can."
NO_EFFECT = " (has no effect)"
OPTIONS = {"user": "--user", "client_id": "--client", "ip": "--address"}
WANTED = (
    "wanted whom it is for: --user, --client, both, or --address; or --every-user, --every-client, "
    "--every-address for each that has no quota of its own"
)


@click.group()
def quota() -> None:
    """Quotas of users, client ids and addresses."""


def of_whom(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--user", metavar="NAME", help="Who the client logged in as, or ANONYMOUS."),
        click.option("--every-user", is_flag=True, help="Each user without a quota of its own."),
        click.option("--client", "client_id", metavar="ID", help="The client.id of clients."),
        click.option("--every-client", "every_client_id", is_flag=True,
                     help="Each client id without a quota of its own."),
        click.option("--address", "ip", metavar="IP", help="Where connections come from."),
        click.option("--every-address", "every_ip", is_flag=True,
                     help="Each address without a quota of its own."),
    ):  # fmt: skip
        command = option(command)
    return command


def entity(whom: dict[str, Any]) -> dict[str, str | None]:
    """None: every one."""
    found: dict[str, str | None] = {}
    for name, option in OPTIONS.items():
        if whom[name] is not None and whom[f"every_{name}"]:
            every = option.replace("--", "--every-")
            raise click.UsageError(f"{option} and {every}: wanted one of them")
        if whom[name] is not None or whom[f"every_{name}"]:
            found[name] = whom[name]
    if not found or ("ip" in found and len(found) > 1):
        raise click.UsageError(WANTED)
    return found


def quotas(rows: list[dict[str, Any]]) -> str:
    return table(
        ("for", "quota", "value"),
        [
            (row["who"], each["name"], each["words"] + NO_EFFECT * (not each["has_effect"]))
            for row in rows
            for each in row["values"]
        ],
    )


@quota.command("list", cls=Command)
@shows_an_answer
def list_quotas(api: Api) -> Answer:
    """List all quotas."""
    answer = api.get("/quotas")
    yield answer
    yield quotas(answer["quotas"]) if answer["quotas"] else NONE


@quota.command("set", cls=Command)
@click.argument("values", nargs=-1, required=True, metavar="NAME=VALUE...")
@of_whom
@shows_an_answer
def set_quotas(api: Api, values: tuple[str, ...], **whom: Any) -> Answer:
    """Set quotas, such as `producer_byte_rate=10MiB`, `consumer_byte_rate=50MB` for a user or a
    client, or `connection_creation_rate=5` for an address."""
    wanted: dict[str, str | None] = {}
    for each in values:
        name, sign, value = each.partition("=")
        if not (name and sign and value):
            raise click.UsageError(f"got {each!r}, wanted NAME=VALUE: producer_byte_rate=10MiB")
        if name in wanted:
            raise click.UsageError(f"{name} is given twice, wanted once")
        wanted[name] = value
    yield from changed(api, entity(whom), wanted)


@quota.command("remove", cls=Command)
@click.argument("names", nargs=-1, metavar="[NAME...]")
@of_whom
@shows_an_answer
def remove_quotas(api: Api, names: tuple[str, ...], **whom: Any) -> Answer:
    """Remove quotas; without NAME all of that user, client or address."""
    asked = entity(whom)
    known = [one["name"] for each in rows_of(api.get("/quotas"), asked) for one in each["values"]]
    missing = [each for each in names if each not in known]
    if missing or not known:
        has = f"has {', '.join(known)}" if known else "has no quota"
        raise Failed(f"{', '.join(missing) or 'nothing to remove'}: it {has}", NOT_FOUND)
    yield from changed(api, asked, dict.fromkeys(names or known))


def changed(api: Api, asked: dict[str, str | None], values: dict[str, str | None]) -> Answer:
    answer = api.post("/quotas", {"entity": asked, "values": values})
    own = rows_of(answer, asked)
    yield {"quotas": own}
    yield quotas(own) if own else "It has no quota any more."


def rows_of(answer: dict[str, Any], asked: dict[str, str | None]) -> list[dict[str, Any]]:
    return [each for each in answer["quotas"] if each["entity"] == asked]
