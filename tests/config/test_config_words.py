"""Durations and sizes of configs in words, and what people may write for a number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.config import LONG_MAX, topic_config, topic_config_groups
from appliance.config.config_key import ConfigInvalid
from appliance.config.config_words import TEXT_MAX, in_words, plain, special


@pytest.mark.parametrize(
    ("name", "number", "words"),
    [
        ("retention.ms", 259_200_000, "3 d"),
        ("retention.ms", 129_600_000, "1 d 12 h"),
        ("retention.ms", 90_061_001, "1 d 1 h 1 min 1 s 1 ms"),
        ("retention.ms", 0, "0 s"),
        ("retention.ms", -1, "for ever"),
        ("log.retention.ms", -1, "for ever"),
        ("retention.bytes", -1, "no limit"),
        ("retention.bytes", 1 << 30, "1 GiB"),
        ("retention.bytes", 3 << 19, "1.5 MiB"),
        ("segment.bytes", 20_000, "about 19.5 KiB"),
        ("segment.bytes", 1000, "1000 B"),
        ("local.retention.ms", -2, "as retention.ms"),
        ("local.retention.bytes", -1, "no limit"),
        ("flush.messages", LONG_MAX, "never"),
        ("flush.messages", 10_000, ""),
        ("max.compaction.lag.ms", LONG_MAX, "no limit"),
        ("delete.retention.ms", -1, ""),
        ("scrub.interval.seconds", 3600, "1 h"),
        ("backup.overdue.minutes", 90, "1 h 30 min"),
        ("min.insync.replicas", 2, ""),
    ],
)
def test_a_number_is_said_in_words(name: str, number: int, words: str) -> None:
    assert in_words(name, str(number)) == words


@pytest.mark.parametrize(
    ("name", "text", "stored"),
    [
        ("retention.ms", "259200000", "259200000"),
        ("retention.ms", "3d", "259200000"),
        ("retention.ms", " 3  D ", "259200000"),
        ("retention.ms", "1 d 12h", "129600000"),
        ("retention.ms", "1.5 days", "129600000"),
        ("retention.ms", "2w", "1209600000"),
        ("retention.ms", "For ever", "-1"),
        ("retention.bytes", "no limit", "-1"),
        ("retention.bytes", "1 GB", "1000000000"),
        ("retention.bytes", "1GiB", "1073741824"),
        ("segment.bytes", "0.5 KiB", "512"),
        ("scrub.interval.seconds", "1 h", "3600"),
        # no quantity, or none that can be read: as it was, for the key to refuse
        ("retention.ms", "soon", "soon"),
        ("retention.ms", "-3d", "-3d"),
        ("retention.ms", "3 d and more", "3 d and more"),
        ("retention.ms", "1" * TEXT_MAX + "d", "1" * TEXT_MAX + "d"),
        ("cleanup.policy", "delete", "delete"),
        ("flush.messages", "3d", "3d"),
        ("delete.retention.ms", "for ever", "for ever"),
    ],
)
def test_people_may_write_units(name: str, text: str, stored: str) -> None:
    assert plain(name, text) == stored


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("retention.ms", "3 GB", "wanted units out of ms,"),
        ("retention.bytes", "3 d", "wanted units out of b,"),
        ("retention.bytes", "0.1 KiB", "wanted a whole number of bytes"),
        ("scrub.interval.seconds", "1500 ms", "wanted a whole number of seconds"),
    ],
)
def test_a_wrong_unit_is_told(name: str, text: str, told: str) -> None:
    with pytest.raises(ConfigInvalid, match=told):
        plain(name, text)


@given(st.sampled_from(["retention.ms", "segment.bytes", "a.seconds"]), st.integers(-2, LONG_MAX))
def test_words_mean_the_number_that_they_say(name: str, number: int) -> None:
    words = in_words(name, str(number))
    if words and not words.startswith("about ") and number != LONG_MAX:
        assert plain(name, words) == str(number)


def test_what_special_numbers_mean_can_be_set() -> None:
    for name, key in topic_config.KEYS.items():
        for words, number in special(name).items():
            assert key.parse(plain(name, words)) == number
            assert in_words(name, str(number)) == words


def test_every_config_has_a_group() -> None:
    assert set(topic_config_groups.ORDER) == set(topic_config.KEYS)


@pytest.mark.parametrize(
    ("name", "policy", "is_replicated", "told"),
    [
        ("retention.ms", "delete", False, ""),
        ("retention.ms", "compact", False, "No effect while cleanup.policy is compact."),
        ("delete.retention.ms", "delete", False, "No effect while cleanup.policy is delete."),
        ("delete.retention.ms", "compact,delete", False, ""),
        ("retention.bytes", "", False, "No effect while cleanup.policy is empty."),
        ("min.insync.replicas", "delete", False, topic_config_groups.ON_ONE_BOX),
        ("min.insync.replicas", "delete", True, ""),
    ],
)
def test_what_changes_nothing_is_told(
    name: str, policy: str, is_replicated: bool, told: str
) -> None:
    assert topic_config_groups.no_effect(name, policy, is_replicated) == told
