"""Alerts by mail: one connection for each, on the event loop."""

from __future__ import annotations

import asyncio
import base64
import ssl
from contextlib import suppress
from datetime import datetime, timezone
from email.message import EmailMessage
from email.utils import format_datetime

import aiosmtplib

from appliance.alerts.alert import Alert, Box, shortened
from appliance.alerts.channel import NotSent, aside, trust
from appliance.config import AlertsConfig
from appliance.config.alerts import STARTTLS, TLS
from appliance.process import secret_file

ERROR_MAX = 300  # characters of what a server says
QUIT_S = 2.0


class Mail:
    name = "mail"

    def __init__(self, config: AlertsConfig) -> None:
        self._config = config

    @property
    def target(self) -> str:
        return f"{self._config.mail_to} by {self._config.mail_server}"

    async def check(self) -> None:
        await aside(self._needs)

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

    async def send(self, alert: Alert, box: Box) -> str:
        password, context = await aside(self._needs)
        seconds, place = self._config.timeout_ms / 1000, self._config.mail_server
        server = self._server(context, box)
        transport: asyncio.BaseTransport | None = None
        handed_over = self._hand_over(server, self._message(alert, box), password)
        try:
            refused = await asyncio.wait_for(handed_over, seconds)
            transport = server.transport
            with suppress(aiosmtplib.SMTPException, OSError):
                await server.quit(timeout=QUIT_S)  # it has the mail, whatever it says to that
        except asyncio.TimeoutError:
            raise NotSent(f"{place} did not answer in {seconds:g} s") from None
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:
            raise NotSent(f"{place}: {without(password, words_of(error))}") from None
        finally:
            transport = transport or server.transport
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()  # a close of TLS would wait for the other side's goodbye
            server.close()
        # who took it would get another one for each attempt
        return f"{place} refused {', '.join(sorted(refused))}" if refused else ""

    def _server(self, context: ssl.SSLContext | None, box: Box) -> aiosmtplib.SMTP:
        config = self._config
        return aiosmtplib.SMTP(
            hostname=config.mail_server.host,
            port=config.mail_server.port,
            local_hostname=box.host,  # else it asks the name service
            timeout=2 * config.timeout_ms / 1000,  # ours is of the whole, and ends sooner
            use_tls=config.mail_security == TLS,
            start_tls=config.mail_security == STARTTLS,
            tls_context=context,
        )

    async def _hand_over(
        self, server: aiosmtplib.SMTP, message: EmailMessage, password: str
    ) -> dict[str, aiosmtplib.SMTPResponse]:
        """Who was refused, while others were not."""
        await server.connect()
        if self._config.mail_user:
            await server.login(self._config.mail_user, password)
        refused, _ = await server.send_message(message)
        return refused

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


def words_of(error: Exception) -> str:
    if isinstance(error, aiosmtplib.SMTPResponseException):
        return f"{error.code} {error.message}"
    return f"{type(error).__name__}: {error}"


def without(password: str, text: str) -> str:
    """A server may repeat what it was sent."""
    if password:
        for each in (password, base64.b64encode(password.encode()).decode()):
            text = text.replace(each, "...")
    return shortened(text, ERROR_MAX)
