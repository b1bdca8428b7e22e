"""A way out of the box: mail, or a webhook."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from appliance.alerts.alert import Alert, Box
from appliance.config import NO_FILE
from appliance.errors import ApplianceError

Result = TypeVar("Result")


class NotSent(ApplianceError):
    """One attempt has failed; the text says why, and has no secret in it."""

    kafka_code = -1


class Channel(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def target(self) -> str: ...  # for people: without what is secret in it

    async def check(self) -> None:
        """Raises NotSent for what would fail before anything is sent."""

    async def send(self, alert: Alert, box: Box) -> str:
        """One attempt, of bounded time. Raises NotSent. What is to be said though it was sent; "":
        nothing."""


# Its own: those of the loop may all wait for a disk that hangs, which is to be told of.
THREADS = ThreadPoolExecutor(2, "alerts")


async def aside(job: Callable[..., Result], *given: object) -> Result:
    """What reads files, on a thread."""
    return await asyncio.get_running_loop().run_in_executor(THREADS, partial(job, *given))


def trust(ca_file: Path) -> ssl.SSLContext:
    """Whom we believe that he is the mail server, or the webhook. Reads files: for a thread."""
    try:
        return ssl.create_default_context(cafile=None if ca_file == NO_FILE else str(ca_file))
    except OSError as error:
        raise NotSent(f"alerts.ca.file: {ca_file}: {error.strerror or error}") from error
