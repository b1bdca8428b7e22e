"""Alerts by a webhook: a POST of JSON, signed if there is a secret.

    X-Appliance-Timestamp: 1764100000
    X-Appliance-Signature: sha256=HEX      HMAC-SHA256 of "1764100000." and the body

Who gets it compares the signature, and refuses what is old. The same alert may come twice; its `id`
is the same then. Redirects are not followed, and of the answer nothing but its status is told, so
that nobody reads by it what only this machine reaches.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from urllib.parse import urlsplit

import aiohttp

from appliance.alerts.alert import Alert, Box, shortened
from appliance.alerts.channel import NotSent, aside, trust
from appliance.config import NO_FILE, AlertsConfig, SettingInvalid
from appliance.config.alerts import check_url
from appliance.process import secret_file

URL_FILE, SECRET_FILE = "alerts.webhook.address.file", "alerts.webhook.secret.file"
REDIRECTS = range(300, 400)
ERROR_MAX = 300


class Webhook:
    name = "webhook"

    def __init__(self, config: AlertsConfig) -> None:
        self._config = config

    @property
    def target(self) -> str:
        """Its host: the rest may be a secret."""
        if not self._config.webhook_url:
            return f"the address in {self._config.webhook_url_file}"
        return place_of(self._config.webhook_url)

    async def check(self) -> None:
        await aside(self._secrets)

    def _secrets(self) -> tuple[str, str]:
        """The address, and the secret of the signature. Reads files."""
        config = self._config
        url, secret = config.webhook_url, ""
        try:
            if config.webhook_url_file != NO_FILE:
                url = secret_file.read(URL_FILE, config.webhook_url_file)
                check_url(URL_FILE, url)
            if config.webhook_secret_file != NO_FILE:
                secret = secret_file.read(SECRET_FILE, config.webhook_secret_file)
        except (secret_file.SecretUnusable, SettingInvalid) as error:
            raise NotSent(str(error)) from error
        return url, secret

    async def send(self, alert: Alert, box: Box) -> str:
        url, secret = await aside(self._secrets)
        body = json.dumps(alert.body(box), ensure_ascii=False).encode()
        try:
            status = await self._post(url, body, headers_of(body, secret, int(time.time())))
        except asyncio.TimeoutError:
            seconds = self._config.timeout_ms / 1000
            raise NotSent(f"{place_of(url)} did not answer in {seconds:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # an InvalidURL names the address, which may be a secret
            why = "" if isinstance(error, ValueError) else f": {error}"
            told = f"{type(error).__name__}{why}"
            raise NotSent(f"{place_of(url)}: {shortened(told, ERROR_MAX)}") from None
        if status in REDIRECTS:
            raise NotSent(f"{place_of(url)} answered {status}, and redirects are not followed")
        if not 200 <= status < 300:
            raise NotSent(f"{place_of(url)} answered {status}")
        return ""

    async def _post(self, url: str, body: bytes, headers: dict[str, str]) -> int:
        context = await aside(trust, self._config.ca_file)
        timeout = aiohttp.ClientTimeout(total=self._config.timeout_ms / 1000)
        async with (
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=context),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=timeout,
                trust_env=False,
            ) as session,
            session.post(url, data=body, headers=headers, allow_redirects=False) as answer,
        ):
            return answer.status


def headers_of(body: bytes, secret: str, at_s: int) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "User-Agent": "appliance"}
    if secret:
        signed = hmac.new(secret.encode(), f"{at_s}.".encode() + body, hashlib.sha256).hexdigest()
        headers |= {"X-Appliance-Timestamp": str(at_s), "X-Appliance-Signature": f"sha256={signed}"}
    return headers


def place_of(url: str) -> str:
    found = urlsplit(url)
    return f"{found.scheme}://{found.netloc}"
