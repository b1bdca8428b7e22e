"""What a load test may be told, beside locust's own options."""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import Any

from appliance.record import compression
from loadtest import payload, slo
from loadtest.curves import SHAPES


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
        raise ArgumentTypeError(f"{text}: {payload.SIZE_MIN} bytes say whose record it is")
    return int(text)


def goals(text: str) -> str:
    try:
        slo.parse(text)
    except slo.GoalInvalid as error:
        raise ArgumentTypeError(str(error)) from None
    return text


def add_to(parser: Any) -> None:
    add = parser.add_argument_group("Appliance").add_argument
    add("--topic", default="loadtest", help="made where it is not there; users add -e2e and others")
    add("--partitions", type=positive, default=8, help="of topics that are made")
    add("--records", type=positive, default=10, help="of each batch")
    add("--record-size", type=record_size, default=200, help="bytes of each record")
    add("--rate", type=rate, default=1.0, help="batches a second of each user that produces")
    add("--codec", choices=compression.NAMES, default="none")
    add("--acks", choices=("all", "1"), default="all")
    add("--fetch-min-bytes", type=positive, default=64 << 10)
    add("--fetch-wait-ms", type=positive, default=500)
    add("--fetch-bytes", type=positive, default=1 << 20, help="of one answer")
    add("--group-size", type=positive, default=8, help="members of a group")
    add("--give-up", type=float, default=120.0, help="seconds for which a request is tried again")
    add("--admin", default="", help="host:port of the console: metrics, and AdminUser")
    parser.add_argument("--token", default="", is_secret=True, help="of the console's REST API")
    add("--shape", choices=sorted(SHAPES), default=None, help="of the load over time")
    add("--shape-period", type=rate, default=60.0, help="seconds, of spike and sawtooth")
    add("--slo", type=goals, default="", help="like p99=20ms,loss=0; breached: exit code 1")
    add("--no-read-back", action="store_true", help="do not look for what was acknowledged")
    add("--report", default="", help="file for a summary in JSON")
