"""`appliance alert ...`: what left the box by mail and webhook, and a test."""

from __future__ import annotations

from typing import Any

import click

from appliance.cli.remote.api import Answer, Api, asks_a_broker, shows_an_answer
from appliance.cli.remote.output import put_json, table
from appliance.process.exit_codes import FAILED, Command, Failed
from appliance.process.spoken import moment

NOWHERE = "Alerts go nowhere: set alerts.mail.server or alerts.webhook.url."


@click.group()
def alert() -> None:
    """Alerts by mail and webhook."""


@alert.command("list", cls=Command)
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1000))
@shows_an_answer
def list_alerts(api: Api, limit: int) -> Answer:
    """List where alerts go, and the last that were sent or wait, the newest first."""
    answer = api.get("/alerts", limit=limit)
    yield answer
    yield channels(answer["channels"]) if answer["channels"] else NOWHERE
    if answer["alerts"]:
        yield ""
        yield alerts(answer["alerts"])


def channels(rows: list[dict[str, Any]]) -> str:
    return table(
        ("channel", "to", "waiting", "sent", "given up", "fault"),
        [
            (each["channel"], each["target"], each["waiting"], each["sent"], each["given_up"],
             each["fault"] or None)
            for each in rows
        ],
    )  # fmt: skip


def alerts(rows: list[dict[str, Any]]) -> str:
    return table(
        ("at", "what", "delivered"),
        [(moment(each["at_ms"]), each["subject"], delivered(each)) for each in rows],
    )


def delivered(row: dict[str, Any]) -> str:
    return ", ".join(
        f"{each['channel']} {each['state']}" + (f": {each['error']}" if each["error"] else "")
        for each in row["deliveries"]
    )


@alert.command("test", cls=Command)
@asks_a_broker
def send_test(api: Api, as_json: bool) -> None:
    """Send a test alert by each channel, once. Exit code 1: one did not take it."""
    answer = api.post("/alerts/test")
    if as_json:
        put_json(answer)
    failed = [each for each in answer["deliveries"] if each["state"] != "sent"]
    if not as_json:
        for each in answer["deliveries"]:
            click.echo(f"{each['channel']}: {each['error'] or 'sent'}")
    if failed:
        names = " and ".join(each["channel"] for each in failed)
        raise Failed(f"the test did not go out by {names}", FAILED)
