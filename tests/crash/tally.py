"""What became of a teller's transactions (`torture.py`), and whether it may have been refused."""

from __future__ import annotations

import re
from collections import Counter

from confluent_kafka import KafkaError

TIMEOUT_MS = 5000  # of a transaction; its records wait as long to be taken

# Why librdkafka may give up a transaction here; anything else is a fault of the broker.
#
# A record that is not taken within the transaction's timeout is no longer sent, for the broker was
# away, or its disk full: the commit says so, or what it asked for meanwhile. What is then aborted
# may never have arrived, and that is fatal (docs/compatibility.md). Offsets are asked for again and
# again until then, and the last answer is told.
OUTLASTED = frozenset({
    KafkaError._TIMED_OUT,
    KafkaError._INCONSISTENT,
    KafkaError._STATE,
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.CONCURRENT_TRANSACTIONS,
    KafkaError.INVALID_TXN_STATE,
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
})  # fmt: skip
# Whoever is silent for a session, as while the broker is away, is out of its group.
REBALANCED = frozenset({
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
})  # fmt: skip
# The numbers of records that an abort took out of the queue are used again for others; the broker
# may have the first (test_lost_answers.py).
USED_AGAIN = KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER


class Refused(Exception):
    """Why a transaction did not commit; `is_over`: its producer can do nothing more."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(str(error))
        self.code = error.code()
        self.is_over = not error.txn_requires_abort()


class Tally:
    """What happened, by name; shared by all threads."""

    def __init__(self) -> None:
        self.committed: set[str] = set()
        self.aborted: set[str] = set()
        self.told: Counter[str] = Counter()
        self.unexplained: list[str] = []

    def refuse(self, refused: Refused, lasted_s: float, gave_up_before: bool) -> None:
        text, code = str(refused), refused.code
        self.told[re.sub(r"\d+", "n", text)] += 1
        is_explained = (
            code in REBALANCED
            or (code in OUTLASTED and lasted_s >= TIMEOUT_MS / 1000)
            or (code == USED_AGAIN and gave_up_before)
        )
        if not is_explained:
            self.unexplained.append(f"{text}, {lasted_s:.1f} s after the transaction began")
