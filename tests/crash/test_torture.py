"""Totals balance through kills; and the books detect planted faults.

CRASH_NIGHTLY=1 means 200 kills, 60 power cuts and 20 full disks, TORTURE_TIMES any other number.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from tests.support.release import gate_has

from . import bad_disk
from .harness import NIGHTLY
from .ledger import Books, Coin
from .tally import TIMEOUT_MS, Refused, Tally
from .test_power_cut_states import SEED
from .torture import torture

TIMES = {  # in the gate, and at night
    "kill": (4, 200),
    "power-cut-ext4": (2, 60),
    "power-cut-xfs": (3, 60),
    "full-disk": (2, 20),
}
TOTAL = 30


@pytest.mark.parametrize(
    "how", gate_has([each for each in TIMES if each != "power-cut-xfs"],
                    "power cuts on a second file system", TIMES)
)
def test_totals_balance_through(how: str, tmp_path: Path) -> None:
    if how != "kill" and (reason := bad_disk.why_not()):
        pytest.skip(reason)
    times = TIMES[how][NIGHTLY]
    torture(tmp_path, how, int(os.environ.get("TORTURE_TIMES", times)), SEED, print)


def coin(place: tuple[str, int, int], which: str, part: int, parts: int, amount: int,
         *took: tuple[str, int, int]) -> Coin:  # fmt: skip
    return Coin(place, which, part, parts, amount, took)


def sound() -> Books:
    """Two deposited coins; one is split, and one part of it moves back."""
    first, second = ("left", 0, 0), ("left", 0, 1)
    coins = [
        coin(first, "deposit", 0, 2, 10),
        coin(second, "deposit", 1, 2, 20),
        coin(("right", 0, 0), "a.1", 0, 2, 4, first),
        coin(("right", 1, 5), "a.1", 1, 2, 6, first),
        coin(("left", 0, 3), "b.1", 0, 1, 4, ("right", 0, 0)),
    ]
    return Books(coins, [*coins], {"deposit", "a.1", "b.1"}, {"a.2"},
                 {("left", 0): 1, ("right", 0): 1})  # fmt: skip


def aborted(books: Books) -> None:
    books.aborted.add("b.1")


def lost(books: Books) -> None:
    books.committed.add("b.2")


def half(books: Books) -> None:
    del books.coins[3]


def twice(books: Books) -> None:
    books.coins.append(books.coins[3]._replace(place=("right", 1, 6)))


def worth_more(books: Books) -> None:
    books.coins[4] = books.coins[4]._replace(amount=5)


def taken_twice(books: Books) -> None:
    books.coins.append(coin(("right", 1, 7), "a.3", 0, 1, 10, ("left", 0, 0)))


def offset_behind(books: Books) -> None:
    books.taken_up_to["left", 0] = 0


def offset_ahead(books: Books) -> None:
    books.taken_up_to["left", 0] = 2


def took_the_unseen(books: Books) -> None:
    books.coins[4] = books.coins[4]._replace(took=(("right", 0, 9),))


def taken_back(books: Books) -> None:
    books.seen[1] = books.seen[1]._replace(amount=21)


def seen_again(books: Books) -> None:
    books.seen.append(books.seen[4])


FAULTS = [aborted, lost, half, twice, worth_more, taken_twice, offset_behind, offset_ahead,
          took_the_unseen, taken_back, seen_again]  # fmt: skip


def test_sound_books_are_found_sound() -> None:
    assert sound().wrong(TOTAL) == []
    assert sound().wrong(TOTAL + 1) != []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_the_books_find(fault: Callable[[Books], None]) -> None:
    books = sound()
    fault(books)
    assert books.wrong(TOTAL) != []


LONG_S, SHORT_S = TIMEOUT_MS / 1000, TIMEOUT_MS / 1000 - 0.1


@pytest.mark.parametrize(
    ("code", "lasted_s", "gave_up_before", "is_explained"),
    [
        (KafkaError.INVALID_TXN_STATE, LONG_S, False, True),
        (KafkaError.INVALID_TXN_STATE, SHORT_S, True, False),
        (KafkaError._FENCED, SHORT_S, True, False),
        (KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, SHORT_S, True, True),
        (KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, LONG_S, False, False),
        (KafkaError.UNKNOWN_MEMBER_ID, SHORT_S, False, True),
        (KafkaError.KAFKA_STORAGE_ERROR, LONG_S, True, False),
    ],
)
def test_a_refusal_is_explained_or_a_fault(
    code: int, lasted_s: float, gave_up_before: bool, is_explained: bool
) -> None:
    tally = Tally()
    tally.refuse(Refused(KafkaError(code)), lasted_s, gave_up_before)
    assert (tally.unexplained == []) == is_explained
    assert tally.told.total() == 1
