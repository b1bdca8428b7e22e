"""Reports the progress to an appliance's admin pages: `PUT /api/v1/mirrors/NAME`.

A failed report does not affect the mirror; it is logged once until a report succeeds again.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any

from appliance.client.connection import Address
from appliance.client.errors import ConfigInvalid
from appliance.mirror.mirror import Mirror
from appliance.process import event_log
from appliance.process.tls_client import explained, trusting

log = event_log.named("mirror")

TIMEOUT_S = 5.0
ANSWER_BYTES_MAX = 4096


def base_of(address: str) -> str:
    """The URL of an admin port, which is given as one or as HOST:PORT."""
    scheme, separator, rest = address.rpartition("://")
    if separator and scheme not in ("http", "https"):
        raise ConfigInvalid(f"address {address!r}: wanted host:port or https://host:port")
    where = Address.parse(rest.rstrip("/"))
    return f"{scheme or 'http'}://{where}"


class Reporter:
    def __init__(self, address: str, token: str | None, mirror: Mirror, ca: str = "") -> None:
        """`ca`: PEM of the authorities that are trusted; "": the system's."""
        self._ca = ca
        self.url = f"{base_of(address)}/api/v1/mirrors/{mirror.config.name}"
        self._token, self._mirror = token, mirror
        self._trouble = ""

    def report(self, state: str, interval_s: float) -> None:
        """The answer says whether the mirror is to be suspended; without one it stays as it is."""
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        body = json.dumps(self._body(state, interval_s)).encode()
        request = urllib.request.Request(self.url, body, headers, method="PUT")
        trouble = ""
        try:
            trust = trusting(self._ca) if self.url.startswith("https:") else None
            with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=trust) as answer:
                self._heed(answer.read(ANSWER_BYTES_MAX))
        except urllib.error.HTTPError as error:
            with error:
                trouble = f"{error.code} {error.read(300).decode('utf-8', 'replace')}"
        except (OSError, HTTPException) as error:
            trouble = explained(getattr(error, "reason", error)) or str(error)
        if trouble and trouble != self._trouble:
            log.warning("no report", to=self.url, error=trouble)
        self._trouble = trouble

    def _heed(self, answer: bytes) -> None:
        """A broker of an older version answers nothing."""
        try:
            found = json.loads(answer)
        except (ValueError, RecursionError):
            return
        if isinstance(found, dict) and isinstance(found.get("is_paused"), bool):
            self._mirror.suspend(found["is_paused"])

    def _body(self, state: str, interval_s: float) -> dict[str, Any]:
        progress = self._mirror.progress
        totals = progress.totals()
        taken = ("records", "bytes", "failures", "last_failure", "refused")
        return {
            "source": self._mirror.config.source,
            "state": state,
            "interval_s": interval_s,
            **{name: totals[name] for name in taken},
            "rows": progress.rows(),
        }
