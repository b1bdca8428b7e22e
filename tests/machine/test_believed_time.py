"""A clock that is set while we run, and one that is wrong when we start."""

from __future__ import annotations

import pytest

from appliance.machine.believed_time import (
    DAY_MS,
    OFF_MAX_MS,
    OFF_SYNCHRONISED_MAX_MS,
    SETTLE_MS,
    SETTLE_SYNCHRONISED_MS,
    STEP_MAX_MS,
    Remembered,
    WallClock,
)

START = 1_700_000_000_000
HOUR_MS = 3_600_000
YEAR_MS = 365 * DAY_MS


class FakeClocks:
    """A wall clock that anybody may set, and a steady one that nobody can."""

    def __init__(self, remembered: Remembered | None = None, boot_id: str = "a boot") -> None:
        self.wall = START
        self.steady = 1_000_000
        self.is_synchronised = False
        self._boot_id = boot_id
        self.clock = self._begun(remembered)

    def _begun(self, remembered: Remembered | None) -> WallClock:
        return WallClock(
            lambda: self.wall, lambda: self.steady, lambda: self.is_synchronised, remembered,
            self._boot_id,
        )  # fmt: skip

    def after(self, elapsed_ms: int, wall_jumps_ms: int = 0) -> int:
        self.steady += elapsed_ms
        self.wall += elapsed_ms + wall_jumps_ms
        return self.clock.now_ms()

    def restart(self, off_ms: int = 0, wall_jumps_ms: int = 0, *, is_reboot: bool = False) -> None:
        remembered = self.clock.remember()
        self.wall += off_ms + wall_jumps_ms
        self.steady += off_ms
        if is_reboot:
            self.steady, self._boot_id = 20_000, "another boot"
        self.clock = self._begun(remembered)

    @property
    def span(self) -> tuple[int, int]:
        """Earliest and latest, against what the machine's clock says."""
        found = self.clock.look()
        return found.earliest_ms - self.wall, found.latest_ms - self.wall

    @property
    def way(self) -> str | None:
        doubt = self.clock.doubt()
        return doubt and doubt.way


NO_DOUBT = (0, 0)


@pytest.fixture
def clocks() -> FakeClocks:
    return FakeClocks()


# While we run


def test_an_ordinary_clock_is_believed(clocks: FakeClocks) -> None:
    assert [clocks.after(500), clocks.after(YEAR_MS)] == [START + 500, START + 500 + YEAR_MS]
    assert (clocks.span, clocks.way) == (NO_DOUBT, None)


@pytest.mark.parametrize("step", [1, STEP_MAX_MS, -1, -STEP_MAX_MS])
def test_a_small_step_is_believed_at_once(clocks: FakeClocks, step: int) -> None:
    assert clocks.after(10, step) == START + 10 + step
    assert clocks.after(10) == START + 20 + step
    assert clocks.span == NO_DOUBT


@pytest.mark.parametrize("step", [STEP_MAX_MS + 1, HOUR_MS, 8 * DAY_MS, 10 * YEAR_MS])
def test_a_jump_forward_is_not_believed_at_once(clocks: FakeClocks, step: int) -> None:
    assert clocks.after(10, step) == START + 10
    assert clocks.after(1000) == START + 1010
    assert (clocks.span, clocks.way) == ((-step, 0), "ahead")


@pytest.mark.parametrize("step", [STEP_MAX_MS + 1, HOUR_MS, 8 * DAY_MS, 10 * YEAR_MS])
def test_after_a_jump_back_nothing_is_older_and_nothing_of_before_is_of_the_future(
    clocks: FakeClocks, step: int
) -> None:
    assert clocks.after(10, -step) == START + 10 - step
    assert (clocks.span, clocks.way) == ((0, step), "behind")


@pytest.mark.parametrize("step", [HOUR_MS, 8 * DAY_MS, OFF_MAX_MS])
def test_a_jump_forward_within_one_boot_is_not_believed_by_waiting(
    clocks: FakeClocks, step: int
) -> None:
    """The time that passed is known: the machine was not off."""
    clocks.after(10, step)
    clocks.after(SETTLE_MS)
    clocks.restart(1_000)
    clocks.after(20 * DAY_MS)
    assert clocks.span == (-step, 0)
    doubt = clocks.clock.doubt()
    assert doubt is not None
    assert (doubt.settles_in_ms, doubt.has_gap, doubt.by_a_person) == (None, False, False)


def test_a_jump_forward_over_a_reboot_is_believed_when_it_lasts(clocks: FakeClocks) -> None:
    clocks.restart(8 * DAY_MS, is_reboot=True)
    believed = clocks.clock.look().earliest_ms
    assert clocks.after(SETTLE_MS - 1) == believed + SETTLE_MS - 1
    assert clocks.after(1) == believed + SETTLE_MS + 8 * DAY_MS
    assert clocks.span == NO_DOUBT


@pytest.mark.parametrize("step", [HOUR_MS, 8 * DAY_MS, -HOUR_MS, -300 * DAY_MS])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_daemon_that_contradicts_itself_needs_a_person(
    clocks: FakeClocks, step: int, restarts: bool
) -> None:
    """The kernel said that the time before was kept right, and now says the same of another."""
    clocks.is_synchronised = True
    clocks.after(1_000)
    clocks.after(SETTLE_SYNCHRONISED_MS)
    if restarts:
        clocks.restart(5_000)
    clocks.after(10, step)
    for _ in range(50):
        clocks.after(SETTLE_MS)
    if restarts:
        clocks.restart(5_000)
        clocks.after(SETTLE_MS)
    assert clocks.way == ("ahead" if step > 0 else "behind")
    doubt = clocks.clock.doubt()
    assert doubt is not None
    assert doubt.by_a_person
    clocks.clock.confirm()
    assert clocks.way is None
    # and what a person said, the daemon may correct
    clocks.after(10, -step)
    clocks.after(1_000)
    clocks.after(SETTLE_SYNCHRONISED_MS)
    assert clocks.way is None


def test_a_clock_without_a_battery_is_right_once_it_is_kept_right(clocks: FakeClocks) -> None:
    """It begins years back, and is set by a daemon that asked others."""
    clocks.is_synchronised = True
    clocks.after(1_000)
    clocks.after(SETTLE_SYNCHRONISED_MS)
    clocks.is_synchronised = False
    clocks.restart(3 * DAY_MS, -10 * YEAR_MS - 3 * DAY_MS, is_reboot=True)
    assert clocks.way == "behind"
    clocks.after(30_000, 10 * YEAR_MS + 3 * DAY_MS)
    clocks.is_synchronised = True
    clocks.after(1_000)
    assert clocks.way == "ahead"
    clocks.after(SETTLE_SYNCHRONISED_MS)
    assert (clocks.span, clocks.way) == (NO_DOUBT, None)


def test_no_machine_is_off_for_years_so_that_must_be_confirmed(clocks: FakeClocks) -> None:
    clocks.restart(OFF_MAX_MS + HOUR_MS, is_reboot=True)
    clocks.after(10 * SETTLE_MS)
    doubt = clocks.clock.doubt()
    assert doubt is not None
    assert (doubt.way, doubt.settles_in_ms, doubt.by_ms) == ("ahead", None, OFF_MAX_MS + HOUR_MS)
    ended = clocks.clock.confirm()
    assert ended is not None
    assert ended.by_ms == OFF_MAX_MS + HOUR_MS
    assert (clocks.span, clocks.clock.confirm()) == (NO_DOUBT, None)


def test_a_clock_that_is_behind_does_not_become_right_by_waiting(clocks: FakeClocks) -> None:
    clocks.after(10, -HOUR_MS)
    clocks.after(YEAR_MS)
    assert (clocks.span, clocks.way) == ((0, HOUR_MS), "behind")
    clocks.clock.confirm()
    assert clocks.span == NO_DOUBT


@pytest.mark.parametrize("step", [HOUR_MS, 8 * DAY_MS, 300 * DAY_MS, -HOUR_MS, -10 * YEAR_MS])
def test_a_clock_that_is_kept_right_is_believed_soon(clocks: FakeClocks, step: int) -> None:
    clocks.is_synchronised = True
    clocks.after(10, step)
    clocks.after(SETTLE_SYNCHRONISED_MS - 1)
    assert clocks.way is not None
    clocks.after(1)
    assert (clocks.span, clocks.way) == (NO_DOUBT, None)


def test_a_clock_that_is_kept_right_at_some_looks_only_is_not(clocks: FakeClocks) -> None:
    clocks.after(10, 8 * DAY_MS)
    for _ in range(20):
        clocks.is_synchronised = not clocks.is_synchronised
        clocks.after(SETTLE_SYNCHRONISED_MS - 1)
    assert clocks.way == "ahead"


def test_daemons_that_are_decades_ahead_are_not_believed(clocks: FakeClocks) -> None:
    clocks.is_synchronised = True
    clocks.after(10, OFF_SYNCHRONISED_MAX_MS + 1)
    clocks.after(SETTLE_MS)
    assert clocks.way == "ahead"


def test_time_goes_on_while_a_jump_settles(clocks: FakeClocks) -> None:
    seen = [clocks.after(10, 8 * DAY_MS)] + [clocks.after(1000) for _ in range(5)]
    assert seen == [START + 10 + 1000 * i for i in range(6)]


def test_a_jump_that_is_put_right_is_forgotten(clocks: FakeClocks) -> None:
    clocks.after(10, 8 * DAY_MS)
    assert clocks.after(SETTLE_MS // 2, -8 * DAY_MS) == START + 10 + SETTLE_MS // 2


def test_another_jump_begins_to_settle_anew(clocks: FakeClocks) -> None:
    clocks.restart(DAY_MS, is_reboot=True)
    clocks.after(SETTLE_MS - 10, 5 * DAY_MS)
    clocks.after(SETTLE_MS - 10)
    assert clocks.way == "ahead"
    clocks.after(10)
    assert clocks.way is None


def test_two_small_steps_in_a_row_are_two_small_steps(clocks: FakeClocks) -> None:
    assert clocks.after(10, STEP_MAX_MS) == START + 10 + STEP_MAX_MS
    assert clocks.after(10, STEP_MAX_MS) == START + 20 + 2 * STEP_MAX_MS


def test_a_jump_back_then_forward_to_the_truth_is_over(clocks: FakeClocks) -> None:
    clocks.after(10, -YEAR_MS)
    assert clocks.after(10, YEAR_MS) == START + 20
    assert clocks.span == NO_DOUBT


# When we start


@pytest.mark.parametrize("is_reboot", [False, True], ids=["same boot", "after a reboot"])
@pytest.mark.parametrize("jump", [HOUR_MS, 8 * DAY_MS, 10 * YEAR_MS, -HOUR_MS, -10 * YEAR_MS])
def test_a_start_with_a_wrong_clock_goes_on_from_what_was_believed(
    clocks: FakeClocks, jump: int, is_reboot: bool
) -> None:
    clocks.restart(5_000, jump, is_reboot=is_reboot)
    assert clocks.way == ("ahead" if jump > 0 else "behind")
    off = 5_000 if is_reboot else 0  # how long a machine was off nobody knows
    assert clocks.span == ((-jump - off, 0) if jump > 0 else (0, -jump - off))


def test_a_broker_that_was_stopped_for_weeks_on_a_running_machine_has_no_doubt(
    clocks: FakeClocks,
) -> None:
    clocks.restart(50 * DAY_MS)
    assert (clocks.span, clocks.way) == (NO_DOUBT, None)


def test_a_machine_that_was_off_for_a_week_is_believed_after_an_hour(clocks: FakeClocks) -> None:
    clocks.restart(8 * DAY_MS, is_reboot=True)
    assert clocks.way == "ahead"
    clocks.after(SETTLE_MS)
    assert clocks.way is None


def test_a_reboot_within_minutes_is_no_doubt(clocks: FakeClocks) -> None:
    clocks.restart(STEP_MAX_MS, is_reboot=True)
    assert clocks.way is None


def test_a_doubt_survives_restarts(clocks: FakeClocks) -> None:
    clocks.after(10, 10 * YEAR_MS)
    for _ in range(3):
        clocks.restart(1_000)
        assert (clocks.span, clocks.way) == ((-10 * YEAR_MS, 0), "ahead")


def test_a_restart_does_not_forget_that_the_machine_may_have_been_off(clocks: FakeClocks) -> None:
    clocks.restart(8 * DAY_MS, is_reboot=True)
    clocks.restart(60_000)
    assert clocks.way == "ahead"
    clocks.after(SETTLE_MS)
    assert clocks.way is None


def test_a_steady_clock_of_another_machine_says_nothing() -> None:
    remembered = Remembered(START, 900 * DAY_MS, "a boot")
    assert FakeClocks(remembered).way is None


def test_without_a_memory_the_machine_is_believed() -> None:
    assert FakeClocks(None).span == NO_DOUBT
