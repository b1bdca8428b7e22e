"""One transactional id by a fake clock: who may use it, what it becomes, what is refused."""

from __future__ import annotations

import pytest

from appliance.protocol import ErrorCode
from appliance.txn.states import IS_COMMIT, NUMBERS, PREPARED, SETTLED, TRANSITIONS, State
from appliance.txn.states import TransactionRefused as Refused
from appliance.txn.transaction import (
    EPOCH_MAX,
    NEVER_MS,
    NONE,
    TV1,
    TV2,
    Partition,
    Producer,
    Transaction,
)

T0, T1 = Partition("t", 0), Partition("t", 1)
ID, NEW_ID = 7, 8
WALL_MS, NOW_MS, TIMEOUT_MS = 1_700_000_000_000, 5_000, 60_000


def made(epoch: int = 0) -> Transaction:
    return Transaction("tx", Producer(ID, epoch), TIMEOUT_MS, changed_ms=WALL_MS)


def ongoing(epoch: int = 0) -> Transaction:
    return made(epoch).joined([T0], WALL_MS, NOW_MS)


def ended(is_commit: bool, version: int = TV1, epoch: int = 0) -> Transaction:
    return ongoing(epoch).prepared(is_commit, version, NEW_ID, WALL_MS).completed(WALL_MS)


def every_state() -> list[Transaction]:
    return [
        made(),
        ongoing(),
        *[ongoing().prepared(each, TV1, NONE, WALL_MS) for each in (True, False)],
        *[ended(each) for each in (True, False)],
    ]


def refused(code: ErrorCode) -> object:
    return pytest.raises(Refused, check=lambda error: error.kafka_code == code)


# A lost marker


@pytest.mark.parametrize("is_commit", [True, False])
def test_how_the_last_one_was_decided_is_known_of_tv2_alone(is_commit: bool) -> None:
    assert ended(is_commit, TV2, epoch=4).outcome(Producer(ID, 4)) is is_commit
    assert ended(is_commit, TV2, epoch=4).outcome(Producer(ID, 3)) is None
    assert ended(is_commit, TV1, epoch=4).outcome(Producer(ID, 4)) is None
    assert ended(is_commit, TV1, epoch=4).outcome(Producer(ID, 3)) is None


# The tables


def test_numbers_are_kafkas() -> None:
    assert [each.value for each in sorted(NUMBERS, key=lambda each: NUMBERS[each])] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]


def test_every_state_can_be_reached_and_left_but_dead() -> None:
    assert set(TRANSITIONS) == set(State)
    reached = set().union(*TRANSITIONS.values())
    assert reached == set(State)
    assert [state for state, after in TRANSITIONS.items() if not after] == [State.DEAD]
    assert {state for state in IS_COMMIT if state in SETTLED | PREPARED} == set(IS_COMMIT)


def test_only_what_the_table_has_may_follow() -> None:
    for own in every_state():
        for state in State:
            if state not in TRANSITIONS[own.state]:
                with pytest.raises(AssertionError):
                    own._becomes(state, WALL_MS)


# A transaction and its end


def test_it_begins_with_its_first_partition_and_has_its_time() -> None:
    own = made().joined([T0], WALL_MS, NOW_MS)
    assert (own.state, own.partitions, own.start_ms) == (State.ONGOING, {T0}, WALL_MS)
    later = own.joined([T1], WALL_MS + 9, NOW_MS + 9)
    assert (later.partitions, later.start_ms, later.due_ms) == ({T0, T1}, WALL_MS, own.due_ms)
    assert not later.is_silent(NOW_MS + TIMEOUT_MS - 1)
    assert later.is_silent(NOW_MS + TIMEOUT_MS)
    assert made().due_ms == NEVER_MS


@pytest.mark.parametrize("own", every_state(), ids=lambda own: own.state.value)
def test_only_an_open_transaction_is_ever_silent_and_only_a_settled_one_expires(
    own: Transaction,
) -> None:
    assert own.is_silent(NEVER_MS - 1) == (own.state is State.ONGOING)
    assert own.is_expired(WALL_MS + 10, 10) == (own.state in SETTLED)
    assert not own.is_expired(WALL_MS + 9, 10)


@pytest.mark.parametrize("own", every_state(), ids=lambda own: own.state.value)
@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("version", [TV1, TV2])
def test_what_an_end_is_told_in_every_state(
    own: Transaction, is_commit: bool, version: int
) -> None:
    current = own.producer
    may_be_nothing = version == TV2 and own.state in SETTLED and not is_commit
    if own.state is State.ONGOING or may_be_nothing:
        assert not own.is_ended(current, is_commit, version)
    elif version == TV1 and own.state in SETTLED and IS_COMMIT.get(own.state) == is_commit:
        assert own.is_ended(current, is_commit, version)
    elif version == TV1 and own.state in PREPARED and own.is_commit == is_commit:
        with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
            own.is_ended(current, is_commit, version)
    else:
        with refused(ErrorCode.INVALID_TXN_STATE):
            own.is_ended(current, is_commit, version)
    with refused(ErrorCode.PRODUCER_FENCED):
        own.is_ended(Producer(ID, 5), is_commit, version)
    with refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING):
        own.is_ended(Producer(99, 0), is_commit, version)


def test_an_end_of_the_newer_protocol_moves_the_epoch_and_knows_its_repeat() -> None:
    own = ended(True, TV2)
    assert own.producer == Producer(ID, 1)
    assert own.is_ended(Producer(ID, 0), True, TV2)
    with refused(ErrorCode.INVALID_TXN_STATE):
        own.is_ended(Producer(ID, 0), False, TV2)
    following = own.joined([T0], WALL_MS, NOW_MS)
    for is_commit in (True, False):
        with refused(ErrorCode.PRODUCER_FENCED):
            following.is_ended(Producer(ID, 0), is_commit, TV2)


def test_a_new_owner_is_not_taken_for_a_repeat() -> None:
    own = ended(True, TV2).taken_over(None, TIMEOUT_MS, NONE, WALL_MS)
    assert own.producer == Producer(ID, 2)
    with refused(ErrorCode.PRODUCER_FENCED):
        own.is_ended(Producer(ID, 1), False, TV2)


def test_while_it_is_being_ended_nothing_else_begins() -> None:
    own = ongoing().prepared(True, TV1, NONE, WALL_MS)
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        own.joined([T1], WALL_MS, NOW_MS)
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        own.taken_over(None, TIMEOUT_MS, NONE, WALL_MS)


def test_a_fence_is_an_abort_with_the_next_epoch() -> None:
    own = ongoing().fenced(WALL_MS)
    assert (own.state, own.producer, own.partitions) == (
        State.PREPARE_ABORT,
        Producer(ID, 1),
        {T0},
    )


def test_whose_transaction_was_aborted_goes_on_unless_somebody_else_has_asked() -> None:
    old = Producer(ID, 0)
    aborted = ongoing().fenced(WALL_MS).completed(WALL_MS)
    with refused(ErrorCode.PRODUCER_FENCED):
        aborted.check_producer(old)
    aborted.check_expected(old)
    own = aborted.taken_over(old, TIMEOUT_MS, NONE, WALL_MS)
    assert own.producer == Producer(ID, 1)
    own.check_expected(old)  # the answer was lost
    assert own.taken_over(old, TIMEOUT_MS, NONE, WALL_MS).producer == Producer(ID, 1)
    others = aborted.taken_over(None, TIMEOUT_MS, NONE, WALL_MS)
    assert others.producer == Producer(ID, 2)
    with refused(ErrorCode.PRODUCER_FENCED):
        others.check_expected(old)


# Epochs


def test_epochs_that_run_out() -> None:
    last = made(EPOCH_MAX - 1)
    assert last.is_exhausted
    over = last.taken_over(None, TIMEOUT_MS, NEW_ID, WALL_MS)
    assert (over.producer, over.previous_producer_id) == (Producer(NEW_ID, 0), ID)
    fenced = ongoing(EPOCH_MAX - 1).fenced(WALL_MS)
    assert fenced.producer == Producer(ID, EPOCH_MAX)
    after = fenced.completed(WALL_MS).taken_over(None, TIMEOUT_MS, NEW_ID, WALL_MS)
    assert after.producer == Producer(NEW_ID, 0)


def test_an_end_with_the_last_epoch_hands_over_to_a_new_producer() -> None:
    prepared = ongoing(EPOCH_MAX - 1).prepared(True, TV2, NEW_ID, WALL_MS)
    assert prepared.producer == Producer(ID, EPOCH_MAX)
    assert prepared.following == Producer(NEW_ID, 0)
    own = prepared.completed(WALL_MS)
    assert (own.producer, own.previous_producer_id, own.next_producer_id) == (
        Producer(NEW_ID, 0),
        ID,
        NONE,
    )
    assert own.is_ended(Producer(ID, EPOCH_MAX - 1), True, TV2)
    assert ongoing().prepared(True, TV2, NEW_ID, WALL_MS).next_producer_id == NONE


def test_the_epoch_that_is_kept_for_a_fence_is_given_to_nobody() -> None:
    old = Producer(ID, EPOCH_MAX - 1)
    aborted = ongoing(EPOCH_MAX - 1).fenced(WALL_MS).completed(WALL_MS)
    own = aborted.taken_over(old, TIMEOUT_MS, NEW_ID, WALL_MS)
    assert own.producer == Producer(NEW_ID, 0)
    own.check_expected(old)  # the answer was lost
    assert own.taken_over(old, TIMEOUT_MS, NONE, WALL_MS).producer == Producer(NEW_ID, 0)


def test_who_asks_again_gets_the_epoch_whose_answer_was_lost() -> None:
    first = made().taken_over(Producer(ID, 0), TIMEOUT_MS, NONE, WALL_MS)
    assert first.producer == Producer(ID, 1)
    again = first.taken_over(Producer(ID, 0), TIMEOUT_MS, NONE, WALL_MS)
    assert again.producer == Producer(ID, 1)
    rotated = made(EPOCH_MAX - 1).taken_over(
        Producer(ID, EPOCH_MAX - 1), TIMEOUT_MS, NEW_ID, WALL_MS
    )
    rotated.check_expected(Producer(ID, EPOCH_MAX - 1))
    with refused(ErrorCode.PRODUCER_FENCED):
        rotated.check_expected(Producer(ID, EPOCH_MAX - 2))
