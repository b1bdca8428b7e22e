"""The way in which our commands end when something is wrong."""

from __future__ import annotations

from typing import Any

import click

from appliance.config import SettingInvalid
from appliance.errors import ApplianceError


class Command(click.Command):
    """Facts stated by the broker end a command with one line and exit code 1, not with a trace."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except SettingInvalid as error:
            raise click.UsageError(str(error)) from error
        except (ApplianceError, OSError) as error:
            raise click.ClickException(str(error)) from error


class CommandGroup(Command, click.Group):
    """A command that has commands of its own."""
