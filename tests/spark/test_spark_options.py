"""The options of the Spark data source: accepted values, refused values, and error texts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from appliance_spark import bounds, options, stream_read
from appliance_spark.options import Given, OptionInvalid, topics_of

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"


def test_the_page_has_every_option() -> None:
    found = re.search(r"<!-- options -->\n(.*)<!-- /options -->", PAGE.read_text(), re.DOTALL)
    assert found
    assert found[1] == options.as_markdown(), "print it: appliance_spark.options.as_markdown()"


def test_every_option_of_the_table_is_read_somewhere() -> None:
    folder = Path(options.__file__).parent
    code = "".join(path.read_text() for path in folder.glob("*.py") if path.stem != "options")
    here = Path(options.__file__).read_text().partition("DEFAULTS =")[2]
    kinds = ("Timestamp", "OffsetsByTimestamp", "Offsets")
    sides = [f"{side}{kind}" for side in ("starting", "ending") for kind in kinds]
    names = {row.name for row in options.ROWS} - set(sides)
    assert {name for name in names if f'"{name}"' not in code + here} == set()
    assert {row.name for row in options.ROWS} >= set(sides)


def test_names_are_case_insensitive() -> None:
    assert Given({"FAILONDATALOSS": "False"}).bool("failOnDataLoss") is False


def test_topics_are_named_once() -> None:
    assert topics_of(Given({"subscribe": "b, a,b,"})).names == ("b", "a")
    assert topics_of(Given({"assign": '{"a": [2, 0, 2]}'})).assigned == {"a": (0, 2)}


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"a": 1}', '{"a": ["0"]}', '{"a": [-1]}', '{"a": [true]}', "{"]
)
def test_what_cannot_be_assigned(text: str) -> None:
    with pytest.raises(OptionInvalid):
        topics_of(Given({"assign": text}))


@pytest.mark.parametrize("text", ["1", "[]", '{"a": 1}', '{"a": {"0": -3}}', '{"a": {"x": 1}}'])
def test_what_is_no_bound(text: str) -> None:
    with pytest.raises(OptionInvalid, match="startingOffsets"):
        bounds.starting(Given({"startingOffsets": text}), "earliest")


def test_times_win_over_offsets() -> None:
    given = {"startingOffsets": "latest"}
    assert bounds.starting(Given(given), "earliest").of("t", 0) == "latest"
    given["startingOffsetsByTimestamp"] = '{"t": {"0": 5}}'
    assert bounds.starting(Given(given), "earliest").of("t", 0) == "@5"
    given["startingTimestamp"] = "7"
    assert bounds.starting(Given(given), "earliest").of("t", 9) == "@7"


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("15m", 900), ("1 h", 3600)])
def test_times_have_units(text: str, seconds: float) -> None:
    assert Given({"maxTriggerDelay": text}).seconds("maxTriggerDelay") == seconds


@pytest.mark.parametrize("text", ["5", "m", "5 parsecs"])
def test_times_without_units_are_refused(text: str) -> None:
    with pytest.raises(OptionInvalid, match="maxTriggerDelay"):
        Given({"maxTriggerDelay": text}).seconds("maxTriggerDelay")


def test_a_batch_is_shared_out_in_proportion() -> None:
    start = {"t": {"0": 100, "1": 0}}
    end = {"t": {"0": 1000, "1": 100, "2": 0}}
    assert stream_read.shared_out(start, end, 100) == {"t": {"0": 190, "1": 10, "2": 0}}
    assert stream_read.shared_out(start, end, 5000) == end
    slow = stream_read.shared_out(start, end, 1)
    assert slow == {"t": {"0": 101, "1": 1, "2": 0}}, "every partition goes on"


def test_a_batch_waits_for_enough_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    given = Given({"minOffsetsPerTrigger": "100", "maxTriggerDelay": "10s"})
    admission = stream_read.Admission(given)
    start, few, enough = ({"t": {"0": at}} for at in (0, 99, 100))
    now[0] = 9.9
    assert admission.is_early(start, few)
    assert not admission.is_early(start, enough)
    now[0] = 10
    assert not admission.is_early(start, few)
    admission.admitted(start, few, None)
    assert admission.is_early(start, few), "the time is that since the last batch"


@pytest.mark.parametrize("url", ["127.0.0.1:8780", "ftp://h", "http://"])
def test_what_is_no_url(url: str) -> None:
    with pytest.raises(OptionInvalid, match="option url"):
        Given({"url": url}).url()
