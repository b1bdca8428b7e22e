"""Lines that repeat are counted, and told of once a minute."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from appliance.process import event_log
from appliance.process.log_repeats import KINDS_MAX, SIMILAR_MAX, WINDOW_S, Repeats


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(record)

    @property
    def texts(self) -> list[str]:
        return [each.getMessage() for each in self.seen]


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def repeats(clock: Clock) -> Repeats:
    return Repeats(clock)


@pytest.fixture
def lines(repeats: Repeats) -> Iterator[Lines]:
    logger = logging.getLogger("appliance.repeating")
    handler = Lines()
    logger.setLevel(logging.INFO)
    logger.addFilter(repeats)
    logger.addHandler(handler)
    yield handler
    logger.removeFilter(repeats)
    logger.removeHandler(handler)


@pytest.fixture
def log(lines: Lines) -> event_log.Named:
    return event_log.Named(logging.getLogger("appliance.repeating"))


def test_the_same_line_is_written_once_and_counted_at_the_end_of_its_minute(
    log: event_log.Named, lines: Lines, clock: Clock, repeats: Repeats
) -> None:
    for _ in range(15_900):
        log.warning("a group was not stored", group="g", error="no descriptor is free")
    assert lines.texts == ["a group was not stored"]
    clock.now += WINDOW_S
    repeats.flush()
    assert lines.texts[1:] == ["a group was not stored: 15,899 times more in 60 s"]
    last = lines.seen[-1]
    assert last.levelno == logging.WARNING
    assert vars(last)["facts"] == {"group": "g", "error": "no descriptor is free"}
    repeats.flush()
    assert len(lines.seen) == 2


def test_after_its_minute_a_line_is_written_again(
    log: event_log.Named, lines: Lines, clock: Clock
) -> None:
    log.error("no room")
    clock.now += WINDOW_S - 0.1
    log.error("no room")
    clock.now += 0.1
    log.error("no room")
    assert lines.texts == ["no room", "no room: 1 times more in 60 s", "no room"]


def test_a_line_that_came_once_is_not_told_of_again(
    log: event_log.Named, lines: Lines, clock: Clock, repeats: Repeats
) -> None:
    log.info("topic created", topic="a")
    clock.now += WINDOW_S
    repeats.flush()
    assert lines.texts == ["topic created"]


def test_lines_with_other_facts_are_other_lines(log: event_log.Named, lines: Lines) -> None:
    log.info("topic created", topic="a")
    log.info("topic created", topic="b")
    log.warning("topic created", topic="b")
    assert len(lines.seen) == 3


def test_of_one_text_with_ever_other_facts_a_bounded_number_is_written(
    log: event_log.Named, lines: Lines, clock: Clock, repeats: Repeats
) -> None:
    for number in range(SIMILAR_MAX + 50):
        log.warning("a batch was refused", offset=number)
    assert len(lines.seen) == SIMILAR_MAX
    clock.now += WINDOW_S
    repeats.flush()
    assert lines.texts[SIMILAR_MAX:] == ["a batch was refused: 50 times more in 60 s"]


def test_what_is_counted_at_once_is_bounded_and_what_gives_way_is_told(
    log: event_log.Named, lines: Lines
) -> None:
    log.warning("the first")
    log.warning("the first")
    for number in range(KINDS_MAX):
        log.warning(f"kind {number}")
    assert "the first: 1 times more in 60 s" in lines.texts
    assert all(f"kind {number}" in lines.texts for number in (0, KINDS_MAX - 1))


def test_lines_below_info_are_nobody_s_flood(log: event_log.Named, lines: Lines) -> None:
    logger = logging.getLogger("appliance.repeating")
    logger.setLevel(logging.DEBUG)
    logger.debug("detail")
    logger.debug("detail")
    assert lines.texts == ["detail", "detail"]


def test_every_logger_of_ours_counts_and_so_do_the_lines_kept_in_memory() -> None:
    log = event_log.named("flood")
    with event_log.kept():
        for _ in range(1000):
            log.error("nothing can be written", error="EMFILE")
    kept = [each for each in event_log.recent() if each.name == "appliance.flood"]
    assert [each.text for each in kept] == ["nothing can be written error=EMFILE"]
