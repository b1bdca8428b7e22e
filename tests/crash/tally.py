"""The results of a teller's transactions (`torture.py`), and the allowed refusals."""

from __future__ import annotations

import re
from collections import Counter

from confluent_kafka import KafkaError

TIMEOUT_MS = 5000  # of a transaction, and of its records in the producer's queue

# Why librdkafka may give up a transaction here; anything else is a fault of the broker.
#
# A record is dropped if the broker does not accept it within the transaction's timeout, while it is
# down or its disk is full: the commit or another call reports it. An abort of records that never
# arrived is fatal (docs/compatibility.md). Offset requests are repeated until then, and the
# last error is reported.
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
# A member that is silent for a session, as while the broker is down, leaves its group.
REBALANCED = frozenset({
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
})  # fmt: skip
# Other records reuse the numbers of records that an abort removed from the queue, and the broker
# may have the first ones (test_lost_answers.py).
USED_AGAIN = KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER


class Refused(Exception):
    """The reason why a transaction did not commit; `is_over`: its producer cannot continue."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(str(error))
        self.code = error.code()
        self.is_over = not error.txn_requires_abort()


class Tally:
    """Counts of results by name, shared by all threads."""

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
