"""The states of a transactional id, as tables: what follows what, and how a transaction ended.

    Empty              a producer has the id, and no transaction
    Ongoing            partitions were added; their records are being written
    PrepareCommit      it is decided, and on disk: the partitions get their markers
    PrepareAbort       the same, the other way
    CompleteCommit     every partition has its marker
    CompleteAbort      the same
    Dead               expired: nobody finds it any more
    PrepareEpochFence  to be aborted behind its producer's back: the moment between the decision and
                       its record, never on disk

The functions of `transaction.py` that make each transition:

    Empty, CompleteCommit, CompleteAbort -> Empty           Transaction.taken_over
    Empty, CompleteCommit, CompleteAbort -> Ongoing         Transaction.joined
    Ongoing -> PrepareCommit, PrepareAbort                  Transaction.prepared
    Empty, CompleteCommit, CompleteAbort -> PrepareAbort    Transaction.prepared, TV2 only: an abort
                                                            of nothing still moves the epoch
    Ongoing -> PrepareEpochFence -> PrepareAbort            Transaction.fenced
    PrepareCommit -> CompleteCommit, PrepareAbort -> CompleteAbort   Transaction.completed
    Empty, CompleteCommit, CompleteAbort -> Dead            the coordinator, when the id expires
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from appliance.errors import Refused


class State(Enum):
    """The values are the names that clients see."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


# The number of each in the records of `__transaction_state` is its place here, as in Kafka.
NUMBERS: Mapping[State, int] = {state: number for number, state in enumerate(State)}

SETTLED = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})
PREPARED = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})

_BEGUN = frozenset({State.EMPTY, State.ONGOING, State.PREPARE_ABORT, State.DEAD})

TRANSITIONS: Mapping[State, frozenset[State]] = {
    State.EMPTY: _BEGUN,
    State.ONGOING: PREPARED | {State.ONGOING, State.PREPARE_EPOCH_FENCE},
    State.PREPARE_COMMIT: frozenset({State.COMPLETE_COMMIT}),
    State.PREPARE_ABORT: frozenset({State.COMPLETE_ABORT}),
    State.COMPLETE_COMMIT: _BEGUN,
    State.COMPLETE_ABORT: _BEGUN,
    State.DEAD: frozenset(),
    State.PREPARE_EPOCH_FENCE: frozenset({State.PREPARE_ABORT}),
}

# Whether it was, or will be, committed; a state that is not here has no outcome yet.
IS_COMMIT: Mapping[State, bool] = {
    State.PREPARE_COMMIT: True,
    State.COMPLETE_COMMIT: True,
    State.PREPARE_ABORT: False,
    State.COMPLETE_ABORT: False,
}


class TransactionRefused(Refused):
    """What was asked of a transaction may not be, or not now."""
