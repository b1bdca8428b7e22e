"""`appliance acl ...`"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from appliance.cli.remote.api import Answer, Api, asks_a_broker, shows_an_answer, sure
from appliance.cli.remote.output import put_json, table
from appliance.cli.remote.topic import YES
from appliance.process.exit_codes import NOT_FOUND, Command, Failed
from appliance.process.spoken import some

HEADS = ("principal", "may", "operation", "resource", "name", "pattern", "host")
RESOURCES = {
    "topic": "A rule for this topic.",
    "group": "A rule for this group.",
    "transactional_id": "A rule for this transactional id.",
    "user": "A rule for this user's tokens.",
}


class AclCommands(click.Group):
    """`import` needs the client library, which is only imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), "import"])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "import":
            from appliance.cli.remote.acl_import import import_acls

            return import_acls
        return super().get_command(ctx, cmd_name)


@click.group(cls=AclCommands)
def acl() -> None:
    """Access rules of Kafka clients, enforced as soon as one listener has a login."""


def about_rules(command: Callable[..., Any]) -> Callable[..., Any]:
    for name, text in RESOURCES.items():
        command = click.option(f"--{name.replace('_', '-')}", name, metavar="NAME", help=text)(
            command
        )
    for option in (
        click.option("--cluster", is_flag=True, help="A rule for the cluster."),
        click.option("--prefixed", is_flag=True, help="NAME is a prefix."),
        click.option("--principal", metavar="User:NAME", help="Whom the rule is for."),
        click.option("--operation", metavar="OPERATION", help="read, write, describe, all, ..."),
        click.option("--host", metavar="ADDRESS", help="Client address; * is any."),
        click.option("--deny", "permission", flag_value="deny", help="The rule denies."),
        click.option("--allow", "permission", flag_value="allow", help="The rule allows."),
    ):
        command = option(command)
    return command


def rule(options: dict[str, Any]) -> dict[str, Any]:
    named = [name for name in RESOURCES if options[name] is not None]
    if len(named) + options["cluster"] > 1:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in RESOURCES)
        raise click.UsageError(f"wanted one of {flags} and --cluster")
    given = {key: options[key] for key in ("principal", "operation", "host", "permission")}
    fields = {key: value for key, value in given.items() if value is not None}
    if options["cluster"]:
        fields |= {"resource_type": "cluster", "resource_name": "kafka-cluster"}
    elif named:
        fields |= {"resource_type": named[0], "resource_name": options[named[0]]}
    if options["prefixed"]:
        fields["pattern_type"] = "prefixed"
    return fields


def table_of(rows: list[dict[str, Any]]) -> str:
    return table(
        HEADS,
        [
            (each["principal"], each["permission"], each["operation"], each["resource_type"],
             each["resource_name"], each["pattern_type"], each["host"])
            for each in rows
        ],
    )  # fmt: skip


def warn(answer: dict[str, Any]) -> None:
    if answer["warning"]:
        click.echo(answer["warning"], err=True)


@acl.command("list", cls=Command)
@shows_an_answer
def list_acls(api: Api) -> Answer:
    """List all rules."""
    answer = api.get("/acls")
    yield answer
    yield table_of(answer["acls"])
    if answer["waiting"]:
        yield f"\nwaiting for `appliance acl confirm`: {len(answer['waiting'])}"
        yield table_of(answer["waiting"])
    warn(answer)


@acl.command("add", cls=Command)
@about_rules
@shows_an_answer
def add_acl(api: Api, **options: Any) -> Answer:
    """Add a rule. It allows, or denies with --deny.

    \b
    appliance acl add --principal User:anna --operation read --topic orders"""
    wanted = rule(options)
    for field, flag in (("resource_type", "--topic, --group, ... or --cluster"),
                        ("principal", "--principal"), ("operation", "--operation")):  # fmt: skip
        if field not in wanted:
            raise click.UsageError(f"missing {flag}")
    answer = api.post("/acls", {"acls": [wanted]})
    yield answer
    yield f"added; rules now: {len(answer['acls'])}"
    warn(answer)


@acl.command("remove", cls=Command)
@about_rules
@click.option("--dry-run", is_flag=True, help="Only show the rules.")
@YES
@asks_a_broker
def remove_acl(api: Api, as_json: bool, dry_run: bool, is_sure: bool, **options: Any) -> None:
    """Remove all rules that match the options."""
    wanted = rule(options)
    if not wanted:
        raise click.UsageError(
            "no option given, which would match all rules; wanted --principal, ..."
        )
    plan = api.post("/acls/remove", {**wanted, "dry_run": True})
    if not plan["acls"]:
        raise Failed("no rule matches; `appliance acl list` shows all rules", NOT_FOUND)
    if not as_json:
        click.echo(table_of(plan["acls"]))
    if not dry_run:
        sure(f"Remove {some(len(plan['acls']), 'rule')}?", is_sure)
        plan = api.post("/acls/remove", {**wanted, "dry_run": False})
    if as_json:
        return put_json(plan)
    click.echo(f"{'would remove' if dry_run else 'removed'} {len(plan['acls'])}")


@acl.command("confirm", cls=Command)
@about_rules
@click.option("--drop", is_flag=True, help="Delete them instead of taking them over.")
@click.option("--dry-run", is_flag=True, help="Only show the rules.")
@YES
@asks_a_broker
def confirm_acls(
    api: Api, as_json: bool, drop: bool, dry_run: bool, is_sure: bool, **options: Any
) -> None:
    """Take over, or drop, rules from before they were enforced.

    Anybody could write them then, so they decide nothing until an administrator has seen them. The
    options choose among them; without any, all are meant."""
    wanted = {**rule(options), "drop": drop}
    plan = api.post("/acls/confirm", {**wanted, "dry_run": True})
    if not plan["acls"]:
        raise Failed("no rule that waits matches; `appliance acl list` shows all", NOT_FOUND)
    if not as_json:
        click.echo(table_of(plan["acls"]))
    if not dry_run:
        what = "Drop" if drop else "Take over"
        sure(f"{what} {some(len(plan['acls']), 'rule')}?", is_sure)
        plan = api.post("/acls/confirm", {**wanted, "dry_run": False})
    if as_json:
        return put_json(plan)
    done = "dropped" if drop else "confirmed"
    click.echo(f"{'would be ' if dry_run else ''}{done}: {len(plan['acls'])}")


@acl.command("explain", cls=Command)
@click.argument("principal", metavar="PRINCIPAL")
@click.option("--host", metavar="ADDRESS", help="Address of the client.")
@click.option("--operation", metavar="OPERATION", help="Try this: read, write, describe, ...")
@click.option("--resource", metavar="TYPE:NAME", help="On this: topic:orders, cluster, ...")
@shows_an_answer
def explain(
    api: Api, principal: str, host: str | None, operation: str | None, resource: str | None
) -> Answer:
    """Show all that a principal may do, and by which rule; or try one request.

    \b
    appliance acl explain User:anna
    appliance acl explain User:anna --operation write --resource topic:orders"""
    if (operation is None) != (resource is None):
        raise click.UsageError("wanted --operation and --resource together")
    if resource is None:
        answer = api.get("/acls/explain", principal=principal, host=host)
        yield answer
        yield from _all_of(answer)
        return
    kind, _, name = resource.partition(":")
    answer = api.get("/acls/try", principal=principal, host=host, operation=operation,
                     resource_type=kind, resource_name=name or None)  # fmt: skip
    yield answer
    yield f"{'allowed' if answer['is_allowed'] else 'refused'}: {answer['why']}"
    if answer["rule"]:
        yield table_of([answer["rule"]])


def _all_of(answer: dict[str, Any]) -> Answer:
    if answer["may_do_everything"]:
        yield f"{answer['principal']} may do everything: {answer['may_do_everything']}"
    rows = answer["deny"] + answer["allow"]
    if rows:
        yield table_of(rows)
    else:
        yield f"no rule is about {answer['principal']}"
