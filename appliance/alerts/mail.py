"""Alerts by mail: one connection for each, on the event loop."""

from __future__ import annotations

import asyncio
import base64
import ssl
from datetime import datetime, timezone
from email.message import EmailMessage
from email.utils import format_datetime

import aiosmtplib

from appliance.alerts import secret_file
from appliance.alerts.alert import Alert, Box, shortened
from appliance.alerts.channel import NotSent, trust
from appliance.config import AlertsConfig
from appliance.config.alerts import STARTTLS, TLS

ERROR_MAX = 300  # characters of what a server says


class Mail:
    name = "mail"

    def __init__(self, config: AlertsConfig) -> None:
        self._config = config

    @property
    def target(self) -> str:
        return f"{self._config.mail_to} by {self._config.mail_server}"

    async def check(self) -> None:
        await asyncio.to_thread(self._needs)

    def _needs(self) -> tuple[str, ssl.SSLContext | None]:
        """The password, and whom to trust. Reads files."""
        config, password = self._config, ""
        if config.mail_user:
            try:
                password = secret_file.read("alerts.mail.password.file", config.mail_password_file)
            except secret_file.SecretUnusable as error:
                raise NotSent(str(error)) from error
        is_encrypted = config.mail_security in (STARTTLS, TLS)
        return password, trust(config.ca_file) if is_encrypted else None

    async def send(self, alert: Alert, box: Box) -> None:
        password, context = await asyncio.to_thread(self._needs)
        seconds = self._config.timeout_ms / 1000
        try:
            await asyncio.wait_for(self._give(self._message(alert, box), password, context, box),
                                   seconds)  # fmt: skip
        except asyncio.TimeoutError:
            raise NotSent(f"{self._config.mail_server} did not answer in {seconds:g} s") from None
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:
            told = without(password, f"{type(error).__name__}: {error}")
            raise NotSent(f"{self._config.mail_server}: {told}") from None

    async def _give(
        self, message: EmailMessage, password: str, context: ssl.SSLContext | None, box: Box
    ) -> None:
        config = self._config
        server = aiosmtplib.SMTP(
            hostname=config.mail_server.host,
            port=config.mail_server.port,
            local_hostname=box.host,  # else it asks the name service, and the loop waits
            timeout=config.timeout_ms / 1000,
            use_tls=config.mail_security == TLS,
            start_tls=config.mail_security == STARTTLS,
            tls_context=context,
        )
        async with server:
            if config.mail_user:
                await server.login(config.mail_user, password)
            refused, _ = await server.send_message(message)
        if refused:
            names = ", ".join(sorted(refused))
            raise NotSent(f"{config.mail_server} took it for others, but refused {names}")

    def _message(self, alert: Alert, box: Box) -> EmailMessage:
        message = EmailMessage()
        message["From"] = self._config.mail_from
        message["To"] = ", ".join(self._config.mail_to.all)
        message["Subject"] = shortened(f"[{box.host}] {alert.subject}")
        message["Date"] = format_datetime(datetime.fromtimestamp(alert.at_ms / 1000, timezone.utc))
        # The same for each attempt: a server that took it and could not say so makes no second one.
        message["Message-ID"] = f"<{alert.id}.{box.cluster_id}@appliance.invalid>"
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(alert.text(box))
        return message


def without(password: str, text: str) -> str:
    """A server may repeat what it was sent."""
    if password:
        for each in (password, base64.b64encode(password.encode()).decode()):
            text = text.replace(each, "...")
    return shortened(text, ERROR_MAX)
