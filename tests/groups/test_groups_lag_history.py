"""Lag over time."""

from __future__ import annotations

from appliance.groups.lag_history import History, LagSample


def test_samples_of_a_group_come_by_topic_oldest_first() -> None:
    history = History(10, 10)
    history.add(1000, {("g", "a"): (5, 1.5), ("g", "b"): (0, 0.0), ("other", "a"): (9, 9.0)})
    history.add(2000, {("g", "a"): (7, None), ("g", "b"): (1, 0.25), ("other", "a"): (9, 9.0)})
    assert history.of_group("g") == {
        "a": (LagSample(1000, 5, 1.5), LagSample(2000, 7, None)),
        "b": (LagSample(1000, 0, 0.0), LagSample(2000, 1, 0.25)),
    }
    assert history.of_group("nobody") == {}


def test_the_oldest_samples_make_room() -> None:
    history = History(3, 10)
    for at_ms in range(10):
        history.add(at_ms, {("g", "t"): (at_ms, 0.0)})
    assert [each.at_ms for each in history.of_group("g")["t"]] == [7, 8, 9]


def test_a_series_beyond_the_limit_is_counted_and_comes_in_when_another_is_gone() -> None:
    history = History(3, 2)
    history.add(1, {("a", "t"): (1, 0.0), ("b", "t"): (1, 0.0), ("c", "t"): (1, 0.0)})
    assert history.left_out == 1
    assert not history.of_group("c")
    history.add(2, {("b", "t"): (2, 0.0), ("c", "t"): (2, 0.0)})
    assert history.left_out == 0
    assert not history.of_group("a")
    assert [each.at_ms for each in history.of_group("b")["t"]] == [1, 2]
    assert [each.at_ms for each in history.of_group("c")["t"]] == [2]
