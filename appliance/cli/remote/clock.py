"""`appliance clock ...`: whether the broker trusts the machine's clock."""

from __future__ import annotations

import click

from appliance.cli.remote.api import Answer, Api, shows_an_answer, sure
from appliance.cli.remote.topic import YES
from appliance.process.exit_codes import Command
from appliance.process.spoken import moment


@click.group()
def clock() -> None:
    """The machine's clock, and whether the broker trusts it."""


@clock.command("show", cls=Command)
@shows_an_answer
def show(api: Api) -> Answer:
    """Show the machine's clock, the time that the broker believes, and why they differ."""
    answer = api.get("/clock")
    yield answer
    yield (
        f"the clock   {moment(answer['wall_ms'])}\n"
        f"believed    {moment(answer['believed_ms'])}\n{answer['text']}"
    )


@clock.command("confirm", cls=Command)
@YES
@shows_an_answer
def confirm(api: Api, is_sure: bool) -> Answer:
    """Confirm that the machine's clock is right. Then records that are too old by it are
    deleted."""
    answer = api.get("/clock")
    if answer["doubt"] is not None:
        click.echo(answer["text"], err=True)
        sure(f"Is it {moment(answer['wall_ms'])} now?", is_sure)
        answer = api.post("/clock/confirm")
    yield answer
    yield f"{answer['text']}: it is {moment(answer['wall_ms'])}"
