"""What must be true in every state, whatever happened before."""

from __future__ import annotations

from functools import cache
from typing import NoReturn

from tests.replication.state import LEADER, Broker, Records, State

INVARIANTS = {
    "nothing committed is lost": "the leader of now begins with all that some leader has shown",
    "what was seen stays": "below a watermark a log is the same as what was shown there before",
    "one leader an epoch": "no epoch has two leaders, or one that lost its memory in between",
    "logs agree": "two logs with the same epoch at an offset are the same up to there, and so are "
    "all logs below the smaller watermark",
    "offsets never go back": "the end offset that the leader tells is not below one that was told",
}


class Violated(Exception):
    def __init__(self, invariant: str, what: str) -> None:
        assert invariant in INVARIANTS, invariant
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant


def violated(invariant: str, what: str) -> NoReturn:
    raise Violated(invariant, what)


def check_begins_to_lead(state: State, number: int) -> None:
    broker = state.brokers[number]
    if broker.topic != state.tree.topic:
        return
    if state.led >> broker.epoch & 1:
        violated("one leader an epoch", f"{number} leads epoch {broker.epoch}, which was led")
    is_deposed = broker.epoch < state.tree.epoch  # and hears late that it was elected
    if broker.log[: len(state.committed)] != state.committed and not is_deposed:
        what = f"{number} leads epoch {broker.epoch} with {broker.log}"
        violated("nothing committed is lost", f"{what}, and {state.committed} was committed")


def check_broker(state: State, number: int, bug: str) -> None:
    """After a change of this one. What becomes of a topic that was deleted is no matter."""
    broker = state.brokers[number]
    if broker.topic != state.tree.topic:
        return
    _check_shown(state, number, broker)
    _check_told(state, broker, bug)
    for other, peer in enumerate(state.brokers):
        if other != number and peer.topic == broker.topic:
            what = _what_differs(broker.log, broker.watermark, peer.log, peer.watermark)
            if what:
                violated("logs agree", f"{number} and {other} {what}")


def _check_shown(state: State, number: int, broker: Broker) -> None:
    """Notes what a leader shows for the first time."""
    shown, committed = broker.log[: broker.watermark], state.committed
    shared = min(len(shown), len(committed))
    if shown[:shared] != committed[:shared]:
        violated("what was seen stays", f"{number} shows {shown}, and {committed} was committed")
    if len(shown) > len(committed):
        if broker.role != LEADER:
            violated("what was seen stays", f"{number} follows, and shows {shown} before a leader")
        state.committed = shown


def _check_told(state: State, broker: Broker, bug: str) -> None:
    """By the leader of now: a deposed one may lag behind, and clients know that by the epoch."""
    if broker.role != LEADER or broker.epoch != state.tree.epoch:
        return
    if broker.watermark < broker.start and bug != "watermark is told too early":
        return  # OFFSET_NOT_AVAILABLE
    if broker.watermark < len(state.committed):
        what = f"end offset {broker.watermark} is told after {len(state.committed)}"
        violated("offsets never go back", what)


@cache
def _what_differs(one: Records, one_shows: int, other: Records, other_shows: int) -> str:
    shown = min(one_shows, other_shows)
    if one[:shown] != other[:shown]:
        return f"show {one[:one_shows]} and {other[:other_shows]}"
    for offset in range(min(len(one), len(other)) - 1, -1, -1):
        if one[offset][0] == other[offset][0] and one[: offset + 1] != other[: offset + 1]:
            return f"have {one} and {other}"
    return ""
