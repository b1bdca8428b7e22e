"""How our commands end after an error. Exit codes are part of the interface:

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
    """An error: one line on stderr, and an exit code for its kind."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.exit_code = code  # type: ignore[misc]


class Command(click.Command):
    """Errors of the broker end a command with one line and exit code 1, not with a trace."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except SettingInvalid as error:
            raise click.UsageError(str(error)) from error
        except BrokenPipeError as error:
            if not _is_unread():
                raise click.ClickException(str(error)) from error
            raise  # `| head` has read enough: click ends the command silently
        except UnicodeEncodeError as error:
            raise click.UsageError(f"got {error.object!r}, which is not UTF-8") from error
        except (ApplianceError, OSError) as error:
            raise click.ClickException(str(error)) from error


def _is_unread() -> bool:
    """Whether the reader of our output has closed it. A broken socket is reported instead."""
    poll = select.poll()
    for stream in (sys.stdout, sys.stderr):
        poll.register(stream.fileno(), 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


class CommandGroup(Command, click.Group):
    """A command with subcommands."""
