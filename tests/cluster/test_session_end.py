"""Until when a session lasts for sure, by our own clock."""

from __future__ import annotations

import threading
from collections import deque

from appliance.cluster.session import Heartbeats

TIMEOUT = 6000  # of any unit


class Session:
    ends = 0, 0


def heartbeats(connected: int) -> Heartbeats:
    """Without its thread and its client, right after the connection was made."""
    made = Heartbeats.__new__(Heartbeats)
    made._session = Session()  # type: ignore[assignment]
    made._ended, made._sent, made._number = threading.Event(), deque(), 7
    made._timeout_ns, made._heard_ns = TIMEOUT, connected
    made._tell()
    return made


def ends_after(connected: int, *answered: int) -> int:
    """`answered`: when heartbeats that were answered had been sent."""
    made = heartbeats(connected)
    for sent in answered:
        made._beaten(sent)
    assert made._session.ends[0] == 7
    return made._session.ends[1]


def test_a_connection_counts_from_its_beginning() -> None:
    assert ends_after(100) == 100 + TIMEOUT


def test_an_answer_is_the_word_for_those_before_it() -> None:
    """The server may have been cut off from its leader just after it passed this one on."""
    assert ends_after(0, 600, 1200) == TIMEOUT
    assert ends_after(0, 600, 1200, 1800) == TIMEOUT
    assert ends_after(0, 600, 1200, 1800, 2400) == 600 + TIMEOUT
    assert ends_after(0, *range(600, 6001, 600)) == 4200 + TIMEOUT


def test_after_a_long_silence_an_old_answer_is_worth_what_it_was() -> None:
    assert ends_after(0, 600, 5900) == 600 + TIMEOUT


def test_it_never_goes_back() -> None:
    made = heartbeats(1000)
    made._beaten(10)
    made._beaten(5000)
    assert made._session.ends == (7, 1000 + TIMEOUT)


def test_a_closed_session_has_no_end() -> None:
    made = heartbeats(0)
    made.stop()
    made._session.ends = 0, 0
    made._beaten(3000)
    assert made._session.ends == (0, 0)
