"""The broker's figures from its /metrics."""

from __future__ import annotations

import http.client
import math
import re
import ssl
from dataclasses import dataclass, field

TIMEOUT_S = 5.0
LINE = re.compile(r"^(?P<name>\w+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)$", re.MULTILINE)
BOUND = re.compile(r'le="([^"]+)"')
COMMIT_BUCKET = "appliance_commit_seconds_bucket"
LAG = "appliance_group_lag_records"


@dataclass(frozen=True)
class Page:
    numbers: dict[str, float] = field(default_factory=dict)  # sums over all labels
    commits: dict[float, float] = field(default_factory=dict)  # by upper bound in seconds

    def since(self, before: Page, name: str) -> float:
        """The growth of a counter; a restarted broker begins at 0."""
        now, then = self.numbers.get(name, 0.0), before.numbers.get(name, 0.0)
        return now - then if now >= then else now

    def commit_quantile(self, before: Page, part: float) -> float:
        """Upper bound in seconds of the commits since `before`; NaN if there were none."""
        grown = [
            (bound, self.commits[bound] - before.commits.get(bound, 0.0))
            for bound in sorted(self.commits)
        ]
        if not grown or grown[-1][1] <= 0:
            return math.nan
        wanted = grown[-1][1] * part
        return next(bound for bound, count in grown if count >= wanted)


def parse(text: str) -> Page:
    page = Page()
    for found in LINE.finditer(text):
        value = float(found["value"])
        name = found["name"]
        page.numbers[name] = page.numbers.get(name, 0.0) + value
        bound = BOUND.search(found["labels"] or "") if name == COMMIT_BUCKET else None
        if bound:
            page.commits[float(bound[1])] = value
    return page


def url_of(admin: str) -> str:
    """`admin` is HOST:PORT, or a URL."""
    return (admin if "://" in admin else f"http://{admin}").rstrip("/")


def connection_to(admin: str) -> http.client.HTTPConnection:
    """Whom it trusts is in SSL_CERT_FILE, as for locust's own client."""
    scheme, _, place = url_of(admin).partition("://")
    if scheme == "https":
        return http.client.HTTPSConnection(
            place, timeout=TIMEOUT_S, context=ssl.create_default_context()
        )
    return http.client.HTTPConnection(place, timeout=TIMEOUT_S)


def read(admin: str, token: str) -> Page:
    """Raises OSError or HTTPException if it cannot be read: the broker may be down."""
    connection = connection_to(admin)
    try:
        connection.request(
            "GET", "/metrics", headers={"Authorization": f"Bearer {token}"} if token else {}
        )
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise http.client.HTTPException(f"{url_of(admin)}/metrics: status {answer.status}")
    return parse(body.decode())
