"""`appliance top`: one look, looks for programs, and the live screen at a real terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from appliance.cli.remote.top import as_object
from appliance.cli.remote.top_screen import DIM, RED, Look, Screen
from appliance.process.spoken import trend
from appliance.testing import running_broker
from tests.support.shell import Shell

ROOT = Path(__file__).parents[2]
COLUMNS, LINES = 80, 24
WAIT_S = 30.0


@pytest.fixture
def busy(shell: Shell) -> Shell:
    for name in ("orders", "a-topic-with-a-name-that-is-longer-than-its-column-is-wide"):
        shell.out(f"topic create {name} -p 2")
        shell.out(f"produce {name}", text="x" * 500 + "\n")
    shell.out("consume orders --group billing")
    return shell


def test_one_look_fits_80_columns_and_has_what_there_is(busy: Shell) -> None:
    text = busy.out("top --once")
    lines = text.splitlines()
    assert lines[0].startswith("Healthy: ")
    assert max(map(len, lines)) <= COLUMNS
    assert re.search(r"^in +\S+ \S+/s", text, re.MULTILINE)
    assert re.search(r"^disk +\d+%  [█-]{24}  .* free of ", text, re.MULTILINE)
    counts = r"^ +\d connections?, \d topics with \d+ partitions, 1 group$"
    assert re.search(counts, text, re.MULTILINE)
    assert re.search(r"^orders +\S+ .*/s", text, re.MULTILINE)
    assert re.search(r"^a-topic-with-a-name-that-i\S*\.\.\. ", text, re.MULTILINE)
    assert re.search(r"^billing .* Empty +0 +\d", text, re.MULTILINE)


def test_a_broker_without_anything_says_the_next_step(shell: Shell) -> None:
    text = shell.out("top --once")
    assert "none yet: appliance topic create NAME" in text
    assert "none: no consumer has joined one" in text


def test_programs_get_all_of_it(busy: Shell) -> None:
    found = busy.json("top --once")
    assert found["health"]["status"] == "ok"
    assert {"orders"} <= {each["name"] for each in found["topics"]}
    assert [each["group"] for each in found["groups"]] == ["billing"]
    assert abs(found["at_ms"] / 1000 - time.time()) < WAIT_S


def command(admin: str, *words: str) -> dict[str, Any]:
    return {
        "args": [sys.executable, "-m", "appliance", "top", "--admin", admin, *words],
        "env": {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "PYTHONUTF8": "1"},
    }


def test_programs_get_a_line_a_look_until_the_broker_is_away(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as broker:
        asked = subprocess.Popen(**command(broker.admin, "--json", "--every", "0.2"),
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert asked.stdout is not None
        lines = [asked.stdout.readline() for _ in range(2)]
    told, errors = asked.communicate(timeout=WAIT_S)
    times = [json.loads(each)["at_ms"] for each in (*lines, *told.splitlines())]
    assert times == sorted(times)
    assert asked.returncode == 5
    assert "cannot be reached" in errors


class Terminal:
    """What a terminal of 80 columns shows."""

    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        self._master, self.process, self.all = master, process, ""

    def until(self, is_there: Callable[[str], Any]) -> str:
        """The text of the newest whole screen, when it is as wanted."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            try:
                self.all += os.read(self._master, 1 << 16).decode(errors="replace")
            except OSError:  # the program has ended
                break
            for each in self.all.split("\x1b[H")[1:]:
                if each.count("\x1b[J") and is_there(plain(each)):
                    return plain(each)
        raise AssertionError(self.all[-3000:])


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).replace("\r", "")


@contextmanager
def at_a_terminal(admin: str) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    process = subprocess.Popen(**command(admin, "--every", "0.2"), stdin=slave, stdout=slave,
                               stderr=slave, start_new_session=True)
    os.close(slave)
    try:
        yield Terminal(master, process)
    finally:
        process.kill()
        process.wait()
        os.close(master)


def test_the_live_screen_follows_and_greys_what_is_old(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as broker:
        shell = Shell(broker.admin)
        shell.out("topic create orders")
        with at_a_terminal(broker.admin) as terminal:
            before = terminal.until(lambda text: "orders" in text)
            assert max(map(len, before.splitlines())) <= COLUMNS
            assert len(before.splitlines()) <= LINES
            shell.out("topic create later")
            terminal.until(lambda text: re.search("^later ", text, re.MULTILINE))
            broker.stop()
            away = terminal.until(lambda text: text.startswith("No answer since "))
            assert "cannot be reached" in away
            assert "orders" in away, "the last look stays"
            terminal.process.send_signal(signal.SIGINT)
            assert terminal.process.wait(WAIT_S) == 0
            with pytest.raises(AssertionError):
                terminal.until(lambda text: False)  # the rest of what it wrote
            assert terminal.all.count("\x1b[?1049h") == terminal.all.count("\x1b[?1049l") == 1
            assert terminal.all.rindex("\x1b[?25h") > terminal.all.rindex("\x1b[?25l")
            assert "Traceback" not in terminal.all


def test_the_last_look_is_grey_below_its_age(busy: Shell) -> None:
    found = busy.json("top --once")
    look = Look(found["at_ms"] / 1000, found["health"], found["topics"], found["groups"])
    assert as_object(look) == found
    first, *others = Screen(COLUMNS, LINES).lines(look, "it is away", now=look.at + 90)
    assert (first.text, first.style) == ("No answer since 90.0 s: it is away", RED)
    assert {each.style for each in others} == {DIM}


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 10), (20, 5), (200, 60)])
def test_it_fits_whatever_terminal(busy: Shell, width: int, height: int) -> None:
    found = busy.json("top --once")
    groups = [{**found["groups"][0], "group": f"g\x1b[2J{each}"} for each in range(100)]
    health = {**found["health"], "sentence": "Bad: " + "x" * 300, "traffic": None}
    lines = Screen(width, height).lines(Look(0.0, health, found["topics"] * 50, groups))
    assert len(lines) <= height
    assert max(len(each.text) for each in lines) <= width
    assert not any("\x1b" in each.text for each in lines)


def test_a_trend_shows_what_is_small_and_what_is_nothing() -> None:
    assert trend([0.0, 1.0, 500.0, 1000.0], 6) == "   ▁▄█"
    assert trend([9000.0, 1.0, 2.0], 2) == "▄█", "what is out of sight makes nothing small"
    assert trend([], 3) == "   "
