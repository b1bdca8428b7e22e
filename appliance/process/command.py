"""The way in which our commands end when something is wrong. Exit codes are part of the interface:

    0 done   1 failed   2 wrong command line   3 not found   4 refused   5 not reached
    10 unhealthy, damaged
"""

from __future__ import annotations

import select
import sys
from typing import Any

import click

from appliance.config import SettingInvalid
from appliance.errors import ApplianceError

FAILED, NOT_FOUND, REFUSED, UNREACHABLE, UNHEALTHY = 1, 3, 4, 5, 10


class Failed(click.ClickException):
    """One line on stderr, and an exit code that tells what it is."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.exit_code = code  # type: ignore[misc]


class Command(click.Command):
    """Facts stated by the broker end a command with one line and exit code 1, not with a trace."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except SettingInvalid as error:
            raise click.UsageError(str(error)) from error
        except BrokenPipeError as error:
            if not _is_unread():
                raise click.ClickException(str(error)) from error
            raise  # `| head` has seen enough: click ends the command without a word
        except (ApplianceError, OSError) as error:
            raise click.ClickException(str(error)) from error


def _is_unread() -> bool:
    """Whether who read our output has gone: a socket may break as well, and that is told."""
    poll = select.poll()
    for stream in (sys.stdout, sys.stderr):
        poll.register(stream.fileno(), 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


class CommandGroup(Command, click.Group):
    """A command that has commands of its own."""
