"""The options of a load test, beside locust's own."""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import Any

from appliance.client.errors import ConfigInvalid
from appliance.client.security_config import SecurityConfig, of_pairs
from appliance.record import compression
from loadtest import payload, slo
from loadtest.shape_curves import SHAPES

LOOPBACK = "127.0.0.1"


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise ArgumentTypeError(f"{text!r}, wanted a whole number above 0")
    return int(text)


def rate(text: str) -> float:
    if not float(text) > 0:
        raise ArgumentTypeError(f"{text}, wanted more than 0")
    return float(text)


def record_size(text: str) -> int:
    if positive(text) < payload.SIZE_MIN:
        raise ArgumentTypeError(f"{text}: {payload.SIZE_MIN} bytes identify the record")
    return int(text)


def goals(text: str) -> str:
    try:
        slo.parse(text)
    except slo.GoalInvalid as error:
        raise ArgumentTypeError(str(error)) from None
    return text


def security_of(given: Any) -> SecurityConfig:
    """Of the options. A worker gets those of its master."""
    return of_pairs(given.security, "--set ")


def check(given: Any) -> None:
    """What locust's parser does not check by itself: options that only fit together."""
    try:
        security_of(given)
    except ConfigInvalid as error:
        raise SystemExit(str(error)) from None


def add_to(parser: Any) -> None:
    parser.set_defaults(web_host=LOOPBACK)  # locust's own is every interface, without a login
    add = parser.add_argument_group("Appliance").add_argument
    add("--topic", default="loadtest", help="created if missing; users add -e2e and others")
    add("--partitions", type=positive, default=8, help="partitions of created topics")
    add("--records", type=positive, default=10, help="records per batch")
    add("--record-size", type=record_size, default=200, help="bytes per record")
    add("--rate", type=rate, default=1.0, help="batches a second per producing user")
    add("--codec", choices=compression.NAMES, default="none")
    add("--acks", choices=("all", "1"), default="all")
    add("--fetch-min-bytes", type=positive, default=64 << 10)
    add("--fetch-wait-ms", type=positive, default=500)
    add("--fetch-bytes", type=positive, default=1 << 20, help="bytes per response")
    add("--group-size", type=positive, default=8, help="members of a group")
    add("--give-up", type=float, default=120.0, help="seconds during which a request is retried")
    add("--admin", default="", help="host:port or URL of the console, for metrics and AdminUser")
    parser.add_argument("--token", default="", is_secret=True, help="token of the REST API")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="security",
        include_in_web_ui=False, help="login and TLS, such as security.protocol=SASL_SSL",
    )  # fmt: skip
    add("--shape", choices=sorted(SHAPES), default=None, help="load over time")
    add("--shape-period", type=rate, default=60.0, help="period of spike and sawtooth in seconds")
    add("--slo", type=goals, default="", help="such as p99=20ms,loss=0; a breach exits with 1")
    add("--no-read-back", action="store_true", help="do not check the log for acknowledged records")
    add("--report", default="", help="file for a summary in JSON")
