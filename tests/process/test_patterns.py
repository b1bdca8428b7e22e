"""Regular expressions of others: they take their time, and end."""

from __future__ import annotations

import pytest

from appliance.process.patterns import SHOWN_MAX, PatternInvalid, compiled

# Python's `re` would be busy with each of these for longer than there is time.
FOR_EVER = ["(a+)+$", "(a|aa)+$", "(a|a?)+$", "(.*a){30}$", "(([a-z])+.)+[A-Z]([a-z])+$"]


@pytest.mark.parametrize("text", FOR_EVER)
def test_a_pattern_that_backtracks_ends(text: str) -> None:
    assert compiled(text).fullmatch("a" * 5000 + "!") is None


@pytest.mark.parametrize(
    "text", ["(", "(" * 5000, "a{1001}", r"(a)\1", "(?=a)", "a{1000}{1000}", "[z-a]", "\ud800",
             "(?:a{100}){100}{100}"]
)  # fmt: skip
def test_what_is_none_is_refused_in_short_words(text: str) -> None:
    with pytest.raises(PatternInvalid) as caught:
        compiled(text)
    assert caught.value.kafka_code == 128
    assert len(str(caught.value)) < 3 * SHOWN_MAX


def test_a_list_of_thousands_of_names_fits() -> None:
    assert compiled("|".join(f"topic-{i}" for i in range(3000))).fullmatch("topic-2999")
