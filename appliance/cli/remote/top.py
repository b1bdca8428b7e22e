"""`appliance top`: a running broker, looked at again and again."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from appliance.cli.remote.api import Api, asks_a_broker
from appliance.cli.remote.output import put_json
from appliance.cli.remote.top_screen import TREND, Line, Look, Screen
from appliance.process.exit_codes import UNREACHABLE, Command, Failed
from appliance.process.option_types import FiniteRange
from appliance.process.spoken import BLOCKS, DOTS

ROWS_MAX = 100
WIDTH, HEIGHT = 80, 24  # where there is no terminal
WIDTH_MAX = 120
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # a screen of its own, no cursor
HOME, END_OF_LINE, END_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"


@click.command(cls=Command)
@click.option("--every", "seconds", default=2.0, show_default=True, type=FiniteRange(0.2, 3600),
              help="Seconds between two looks.")  # fmt: skip
@click.option("--once", is_flag=True, help="Look once, print that, and end.")
@asks_a_broker
def top(api: Api, as_json: bool, seconds: float, once: bool) -> None:
    """Show the traffic of the broker live, until Ctrl-C: health, rates, disk, connections, the
    topics with the most bytes, the groups with the largest lag. With --json an object a line."""
    first = look(api)
    if once:
        return put_json(as_object(first)) if as_json else put_lines(first, [first])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        if as_json:
            put_objects(api, first, seconds)
        else:
            show(api, first, seconds)
    except KeyboardInterrupt:
        return None


def look(api: Api) -> Look:
    health = api.get("/health")
    topics: dict[str, dict[str, Any]] = {}
    for order in ("-received_bytes_per_s", "-sent_bytes_per_s", "-size_bytes"):
        found = api.get("/topics", order=order, limit=ROWS_MAX)["topics"]
        topics |= {each["name"]: each for each in found}
    groups = api.get("/groups", order="lag", limit=ROWS_MAX)["groups"]
    return Look(time.time(), health, sorted(topics.values(), key=busiest)[:ROWS_MAX], groups)


def busiest(topic: dict[str, Any]) -> tuple[float, float, str]:
    rates = topic["received_bytes_per_s"] or 0, topic["sent_bytes_per_s"] or 0
    return -sum(rates), -(topic["size_bytes"] or 0), topic["name"]


def as_object(found: Look) -> dict[str, Any]:
    at_ms = round(found.at * 1000)
    return {"at_ms": at_ms, "health": found.health, "topics": found.topics, "groups": found.groups}


def put_objects(api: Api, first: Look, seconds: float) -> None:
    """A program that reads them is told by the exit code that the broker is away."""
    found = first
    while True:
        click.echo(json.dumps(as_object(found), ensure_ascii=False))
        time.sleep(seconds)
        found = look(api)


def show(api: Api, first: Look, seconds: float) -> None:
    """A broker that is away is asked again: the last look stays, grey, with its age."""
    looks, trouble = deque([first], maxlen=TREND), ""
    with own_screen():
        while True:
            put_lines(looks[-1], looks, trouble)
            time.sleep(seconds)
            try:
                looks.append(look(api))
                trouble = ""
            except Failed as error:
                if error.exit_code != UNREACHABLE:
                    raise
                trouble = error.message.partition(". ")[0]


@contextmanager
def own_screen() -> Iterator[None]:
    """What was on the terminal before is there again afterwards."""
    is_terminal = sys.stdout.isatty()
    click.echo(ENTER if is_terminal else "", nl=False)
    try:
        yield
    finally:
        click.echo(LEAVE if is_terminal else "", nl=False)


def put_lines(found: Look, looks: Any, trouble: str = "") -> None:
    size = shutil.get_terminal_size((WIDTH, HEIGHT))
    is_terminal = sys.stdout.isatty()
    height = size.lines - 1 if is_terminal else HEIGHT
    rates = [each.traffic for each in looks]
    lines = Screen(
        min(size.columns, WIDTH_MAX),
        height,
        BLOCKS if speaks_utf8() else DOTS,
        [each.get("received_bytes_per_s", 0.0) for each in rates],
        [each.get("sent_bytes_per_s", 0.0) for each in rates],
    ).lines(found, trouble)
    if not is_terminal:
        click.echo("\n".join(each.text.rstrip() for each in lines) + "\n")
        return
    painted = "\n".join(painted_line(each) for each in lines)
    click.echo(f"{HOME}{painted}\n{END_OF_SCREEN}", nl=False)


def painted_line(line: Line) -> str:
    text = f"\x1b[{line.style}m{line.text}\x1b[0m" if line.style else line.text
    return f"{text}{END_OF_LINE}"


def speaks_utf8() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
