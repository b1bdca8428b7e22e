"""`appliance clock ...`: whether the broker believes the machine's clock."""

from __future__ import annotations

import click

from appliance.cli.remote.api import Api, asks_a_broker, sure
from appliance.cli.remote.output import put_json
from appliance.cli.remote.topic import YES
from appliance.process.command import Command
from appliance.process.spoken import moment


@click.group()
def clock() -> None:
    """The time, as the broker believes it."""


@clock.command("show", cls=Command)
@asks_a_broker
def show(api: Api, as_json: bool) -> None:
    """What the machine's clock says, what is believed, and why they differ."""
    found = api.get("/clock")
    if as_json:
        return put_json(found)
    click.echo(f"the clock   {moment(found['wall_ms'])}")
    click.echo(f"believed    {moment(found['believed_ms'])}")
    click.echo(found["text"])


@clock.command("confirm", cls=Command)
@YES
@asks_a_broker
def confirm(api: Api, as_json: bool, is_sure: bool) -> None:
    """Say that the machine's clock is right. What is old by it is deleted from then on."""
    found = api.get("/clock")
    if found["doubt"] is not None:
        click.echo(found["text"], err=True)
        sure(f"Is it {moment(found['wall_ms'])} now?", is_sure)
        found = api.post("/clock/confirm")
    if as_json:
        return put_json(found)
    click.echo(f"{found['text']}: it is {moment(found['wall_ms'])}")
