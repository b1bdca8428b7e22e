"""One transactional id: who may use it, and what it becomes. No clock, no I/O.

Nothing here changes. Each method answers what the id is to be next, and that is so once its record
is on disk (`transaction_table.py`); a method that may not be called now says why not.

Epochs. A producer is an id and an epoch; each new owner of a transactional id gets the next epoch,
and whoever has an older one is fenced. There are two protocols, by what a client speaks:

    TV1   partitions are added before they are written to; the epoch stays from one transaction to
          the next
    TV2   the first write adds a partition; each end of a transaction moves the epoch, so that what
          is late, a batch or an EndTxn, can never count for the next transaction (KIP-890)

A transaction that is aborted behind its producer's back moves the epoch in both. Before the epochs
of a producer id run out, a new producer id takes its place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from appliance.protocol import ErrorCode
from appliance.txn.states import (
    IS_COMMIT,
    PREPARED,
    SETTLED,
    TRANSITIONS,
    State,
    TransactionRefused,
)

NONE = -1
EPOCH_MAX = 2**15 - 1
NEVER_MS = 2**62

TV1, TV2 = 1, 2


class Partition(NamedTuple):
    topic: str
    partition: int


class Producer(NamedTuple):
    """As a client knows itself."""

    id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Transaction:
    id: str
    producer: Producer
    timeout_ms: int
    state: State = State.EMPTY
    partitions: frozenset[Partition] = frozenset()
    last_epoch: int = NONE  # of whoever may have the present one for the asking; not on disk
    previous_producer_id: int = NONE
    next_producer_id: int = NONE  # takes over when the transaction is complete
    start_ms: int = NONE  # wall clock
    changed_ms: int = NONE  # wall clock
    due_ms: int = NEVER_MS  # when it is aborted; steady clock, not on disk
    client_version: int = TV1  # of the protocol, at the last end
    term_epoch: int = NONE  # in a cluster: of who read or made it; not on disk

    # Looking

    @property
    def is_exhausted(self) -> bool:
        """Whether the next epoch must be that of a new producer id. One is kept for a fence."""
        return self.producer.epoch >= EPOCH_MAX - 1

    @property
    def is_commit(self) -> bool:
        return IS_COMMIT[self.state]

    @property
    def following(self) -> Producer:
        """Who writes the next transaction."""
        if self.next_producer_id != NONE:
            return Producer(self.next_producer_id, 0)
        return self.producer

    def is_silent(self, now_ms: int) -> bool:
        return self.state is State.ONGOING and now_ms >= self.due_ms

    def resumed(self, wall_ms: int, now_ms: int) -> Transaction:
        """As a start finds it. Its time went on while no broker ran: restarts that come more often
        than it lasts would else hold up readers for good."""
        passed_ms = min(max(0, wall_ms - self.start_ms), self.timeout_ms)
        return replace(self, due_ms=now_ms + self.timeout_ms - passed_ms)

    def is_expired(self, wall_ms: int, expiration_ms: int) -> bool:
        return self.state in SETTLED and wall_ms - self.changed_ms >= expiration_ms

    def has(self, partitions: Iterable[Partition]) -> bool:
        return self.state is State.ONGOING and self.partitions.issuperset(partitions)

    def check_has(self, place: Partition) -> None:
        if not self.has([place]):
            raise self._refused(
                ErrorCode.INVALID_TXN_STATE,
                f"{place.topic}-{place.partition} was not added; it is {self.state.value}",
            )

    def check_producer(self, producer: Producer) -> None:
        if producer.id != self.producer.id:
            raise self._refused(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                f"got producer {producer.id}, wanted {self.producer.id}",
            )
        if producer.epoch != self.producer.epoch:
            raise self._fenced(producer)

    def check_not_ending(self) -> None:
        """Only where its end is held up, by a partition that cannot be written, is it seen here."""
        if self.state in PREPARED:
            raise self._refused(
                ErrorCode.CONCURRENT_TRANSACTIONS, "its last transaction is still being ended"
            )

    # A producer

    def check_expected(self, producer: Producer) -> None:
        """Of a client that says who it was when it asks for a new epoch."""
        if producer != self.producer and not self._has_seen(producer):
            raise self._fenced(producer)

    def _has_seen(self, producer: Producer) -> bool:
        """Whether nobody had the id since this producer: the answer with the present epoch was
        lost, or the epoch moved when its transaction was aborted for its silence (KIP-588)."""
        is_own = producer.id in (self.producer.id, self.previous_producer_id)
        return is_own and producer.epoch == self.last_epoch != NONE

    def taken_over(
        self, expected: Producer | None, timeout_ms: int, new_id: int, wall_ms: int
    ) -> Transaction:
        """With the next epoch, for whoever asked. `new_id` counts only if this one is exhausted."""
        self.check_not_ending()
        changed = self._becomes(
            State.EMPTY, wall_ms, timeout_ms=timeout_ms, partitions=frozenset(), start_ms=NONE
        )
        is_waiting = expected is not None and expected != self.producer
        if is_waiting and self.producer.epoch < EPOCH_MAX:  # that one no client may have
            return changed
        last_epoch = NONE if expected is None else expected.epoch
        if self.is_exhausted:
            return replace(
                changed,
                producer=Producer(new_id, 0),
                previous_producer_id=self.producer.id,
                last_epoch=last_epoch,
            )
        return replace(changed, producer=self._bumped(), last_epoch=last_epoch)

    # A transaction

    def joined(self, partitions: Iterable[Partition], wall_ms: int, now_ms: int) -> Transaction:
        """With these partitions in it; begun, if it was not."""
        self.check_not_ending()
        added = frozenset(partitions)
        if self.state is State.ONGOING:
            return self._becomes(State.ONGOING, wall_ms, partitions=self.partitions | added)
        return self._becomes(
            State.ONGOING,
            wall_ms,
            partitions=added,
            start_ms=wall_ms,
            due_ms=now_ms + self.timeout_ms,
        )

    def is_ended(self, producer: Producer, is_commit: bool, version: int) -> bool:
        """Whether this very end was asked for before, so that it need only be answered again.
        Whoever is not the producer, or asks for another end, is refused."""
        if version < TV2:
            self.check_producer(producer)
            is_again = self.state in IS_COMMIT
        else:
            is_again = self._is_before(producer) and self.state in IS_COMMIT
            if not is_again:
                self.check_producer(producer)
        if is_again:
            return self._ended_before(is_commit)
        may_be_nothing = version >= TV2 and not is_commit
        if self.state is not State.ONGOING and not (may_be_nothing and self.state in SETTLED):
            raise self._wrong_state(is_commit)
        return False

    def outcome(self, producer: Producer) -> bool | None:
        """Whether the transaction that this producer has open somewhere was committed: its end is
        complete, so its marker there was lost. None: that is not known, or it is no such one. In
        TV1 many transactions have one epoch, and only how the last of them ended is known."""
        if self.state not in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
            return None
        is_known = self.client_version >= TV2 and self._is_before(producer)
        return self.is_commit if is_known else None

    def is_first(self, producer: Producer) -> bool:
        """Whether no transaction of this id and epoch has ended, so that what it has open is of the
        present one, whatever markers were lost."""
        return producer == self.producer and (
            self.client_version >= TV2 or self.state is State.EMPTY
        )

    def _is_before(self, producer: Producer) -> bool:
        """Whether this was the producer until the last end moved the epoch."""
        if self.next_producer_id != NONE or self.producer.epoch > 0:
            return producer == Producer(self.producer.id, self.producer.epoch - 1)
        return producer == Producer(self.previous_producer_id, EPOCH_MAX - 1)

    def _ended_before(self, is_commit: bool) -> bool:
        if self.is_commit != is_commit:
            raise self._wrong_state(is_commit)
        self.check_not_ending()
        return True

    def prepared(self, is_commit: bool, version: int, new_id: int, wall_ms: int) -> Transaction:
        """Decided. In TV2 with the next epoch, which its markers have too."""
        state = State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT
        changed = self._becomes(state, wall_ms, client_version=version)
        if version < TV2:
            return changed
        return replace(
            changed,
            producer=self._bumped(),
            last_epoch=self.producer.epoch,
            next_producer_id=new_id if self.is_exhausted else NONE,
        )

    def fenced(self, wall_ms: int) -> Transaction:
        """To be aborted; whoever wrote it may do nothing before it has asked for its new epoch, and
        cannot have that once another asked for one."""
        fence = self._becomes(State.PREPARE_EPOCH_FENCE, wall_ms)
        return replace(
            fence._becomes(State.PREPARE_ABORT, wall_ms),
            producer=self._bumped(),
            last_epoch=self.producer.epoch,
        )

    def completed(self, wall_ms: int) -> Transaction:
        state = State.COMPLETE_COMMIT if self.is_commit else State.COMPLETE_ABORT
        changed = self._becomes(state, wall_ms, partitions=frozenset())
        if self.next_producer_id == NONE:
            return changed
        return replace(
            changed,
            producer=self.following,
            previous_producer_id=self.producer.id,
            next_producer_id=NONE,
        )

    # Words

    def _bumped(self) -> Producer:
        return self.producer._replace(epoch=min(self.producer.epoch + 1, EPOCH_MAX))

    def _becomes(self, state: State, wall_ms: int, **changes: object) -> Transaction:
        assert state in TRANSITIONS[self.state], f"{self.id}: {self.state} to {state}"
        # replace() takes any field; mypy cannot follow the names through `changes`
        return replace(self, state=state, changed_ms=wall_ms, **changes)  # type: ignore[arg-type]

    def _refused(self, code: ErrorCode, text: str) -> TransactionRefused:
        return TransactionRefused(code, f"transactional id {self.id}: {text}")

    def _fenced(self, producer: Producer) -> TransactionRefused:
        own = self.producer
        return self._refused(
            ErrorCode.PRODUCER_FENCED,
            f"got producer {producer.id} epoch {producer.epoch}, wanted {own.id} epoch {own.epoch}",
        )

    def _wrong_state(self, is_commit: bool) -> TransactionRefused:
        asked = "commit" if is_commit else "abort"
        return self._refused(
            ErrorCode.INVALID_TXN_STATE, f"asked to {asked} in state {self.state.value}"
        )
