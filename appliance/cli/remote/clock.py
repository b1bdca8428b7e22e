"""`appliance clock ...`: whether the broker trusts the machine's clock."""

from __future__ import annotations

import click

from appliance.cli.remote.api import Api, asks_a_broker, sure
from appliance.cli.remote.output import put_json
from appliance.cli.remote.topic import YES
from appliance.process.command import Command
from appliance.process.spoken import moment


@click.group()
def clock() -> None:
    """The machine's clock, and whether the broker trusts it."""


@clock.command("show", cls=Command)
@asks_a_broker
def show(api: Api, as_json: bool) -> None:
    """Show the machine's clock, the time that the broker believes, and why they differ."""
    answer = api.get("/clock")
    if as_json:
        return put_json(answer)
    click.echo(f"the clock   {moment(answer['wall_ms'])}")
    click.echo(f"believed    {moment(answer['believed_ms'])}")
    click.echo(answer["text"])


@clock.command("confirm", cls=Command)
@YES
@asks_a_broker
def confirm(api: Api, as_json: bool, is_sure: bool) -> None:
    """Confirm that the machine's clock is right. Then records that are too old by it are
    deleted."""
    answer = api.get("/clock")
    if answer["doubt"] is not None:
        click.echo(answer["text"], err=True)
        sure(f"Is it {moment(answer['wall_ms'])} now?", is_sure)
        answer = api.post("/clock/confirm")
    if as_json:
        return put_json(answer)
    click.echo(f"{answer['text']}: it is {moment(answer['wall_ms'])}")
