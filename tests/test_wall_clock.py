from __future__ import annotations

import pytest

from appliance.wall_clock import SETTLE_MS, STEP_MAX_MS, WallClock

START = 1_000_000_000
YEAR_MS = 365 * 86_400_000


class FakeClocks:
    """A wall clock that anybody may set, and a monotonic one that nobody can."""

    def __init__(self) -> None:
        self.wall = START
        self.monotonic = 0
        self.clock = WallClock(lambda: self.wall, lambda: self.monotonic)

    def after(self, elapsed_ms: int, wall_jumps_ms: int = 0) -> int:
        self.monotonic += elapsed_ms
        self.wall += elapsed_ms + wall_jumps_ms
        return self.clock.now_ms()


@pytest.fixture
def clocks() -> FakeClocks:
    return FakeClocks()


def test_an_ordinary_clock_is_believed(clocks: FakeClocks) -> None:
    assert [clocks.after(500), clocks.after(YEAR_MS)] == [START + 500, START + 500 + YEAR_MS]


@pytest.mark.parametrize("step", [1, STEP_MAX_MS, -1, -YEAR_MS])
def test_a_small_step_and_any_step_back_is_believed_at_once(clocks: FakeClocks, step: int) -> None:
    assert clocks.after(10, step) == START + 10 + step
    assert clocks.after(10) == START + 20 + step


@pytest.mark.parametrize("step", [STEP_MAX_MS + 1, YEAR_MS])
def test_a_jump_forward_is_not_believed_at_once(clocks: FakeClocks, step: int) -> None:
    assert clocks.after(10, step) == START + 10
    assert clocks.after(1000) == START + 1010


def test_a_jump_forward_that_lasts_is_believed(clocks: FakeClocks) -> None:
    clocks.after(10, YEAR_MS)
    assert clocks.after(SETTLE_MS - 1) == START + 10 + SETTLE_MS - 1
    assert clocks.after(1) == START + 10 + SETTLE_MS + YEAR_MS


def test_time_goes_on_while_a_jump_settles(clocks: FakeClocks) -> None:
    seen = [clocks.after(10, YEAR_MS)] + [clocks.after(1000) for _ in range(5)]
    assert seen == [START + 10 + 1000 * i for i in range(6)]


def test_a_jump_that_is_put_right_is_forgotten(clocks: FakeClocks) -> None:
    clocks.after(10, YEAR_MS)
    assert clocks.after(SETTLE_MS // 2, -YEAR_MS) == START + 10 + SETTLE_MS // 2
    # The next jump has to last as long as the first had to.
    clocks.after(10, YEAR_MS)
    assert clocks.after(SETTLE_MS // 2) == START + 20 + SETTLE_MS // 2 * 2


def test_two_small_steps_in_a_row_are_two_small_steps(clocks: FakeClocks) -> None:
    assert clocks.after(10, STEP_MAX_MS) == START + 10 + STEP_MAX_MS
    assert clocks.after(10, STEP_MAX_MS) == START + 20 + 2 * STEP_MAX_MS


def test_a_jump_back_then_forward_to_the_truth_takes_the_time_to_settle(clocks: FakeClocks) -> None:
    clocks.after(10, -YEAR_MS)
    assert clocks.after(10, YEAR_MS) == START - YEAR_MS + 20
    assert clocks.after(SETTLE_MS) == START + 20 + SETTLE_MS
