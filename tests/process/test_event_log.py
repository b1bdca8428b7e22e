"""Lines of the log: how long they may be, whoever chose what stands in them."""

from __future__ import annotations

import gc
import logging
import sys
import weakref
from typing import Any

import pytest

from appliance.process.event_log import FACT_MAX, LINE_MAX, TRACE_MAX, Keep, Lines, named, recent


def record(text: str, exc_info: Any = None, **facts: object) -> logging.LogRecord:
    made = logging.LogRecord("appliance.test", logging.INFO, "", 0, text, (), exc_info)
    made.facts = facts
    return made


def test_a_short_line_is_whole() -> None:
    line = Lines().format(record("a topic", name="t", error="two words"))
    assert line.endswith(' info appliance.test: a topic name=t error="two words"')


def test_a_long_fact_is_cut_and_what_follows_it_is_there() -> None:
    line = Lines().format(record("a topic", name="x" * 2_000_000, partitions=3))
    assert f"{'x' * FACT_MAX}... ({2_000_000 - FACT_MAX} characters more)" in line
    assert line.endswith("partitions=3")


def test_a_line_of_many_facts_is_cut() -> None:
    facts = {f"fact{i}": "y" * FACT_MAX for i in range(100)}
    assert LINE_MAX < len(Lines().format(record("much", **facts))) < LINE_MAX + 200
    assert len(Lines().format(record("z" * 1_000_000))) < LINE_MAX + 200


def test_a_line_that_is_kept_keeps_nothing_of_where_its_error_came_from(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Held:
        pass

    def fail(held: Held) -> None:
        try:
            raise OSError("no")
        except OSError as error:
            named("test").warning("it failed", error=error, held=1)

    held = Held()
    gone = weakref.ref(held)
    fail(held)
    del held
    gc.collect()
    assert len(caplog.records) == 1
    assert Lines().format(caplog.records[0]).endswith("it failed error=no held=1")
    assert gone() is None


def test_a_trace_keeps_its_ends() -> None:
    try:
        raise ValueError("begin " + "v" * 1_000_000 + " end")
    except ValueError:
        line = Lines().format(record("failed", exc_info=sys.exc_info()))
    assert len(line) < TRACE_MAX + LINE_MAX
    assert "Traceback" in line
    assert line.endswith(" end")


def test_what_is_kept_in_memory_is_cut_as_well() -> None:
    Keep().emit(record("kept", name="w" * 2_000_000))
    assert len(recent()[-1].text) < LINE_MAX + 200
