"""Transactions that move an amount from one account to another, each account in its own partition:
all that is seen is of whole transactions that were not aborted, and the accounts always balance.

A producer may be refused for good in three cases that are nobody's fault. Its transaction was
never known to the coordinator, since all that said so was lost on the way, and librdkafka ends it
all the same; its end was decided, the answer was lost, and librdkafka asked for the other end; or
it took longer than `transaction.timeout.ms`. The first two are known by what is there afterwards:
nothing that was acknowledged, or the whole of it.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from tests.replication.histories.ledger import Anomalies, Ledger
from tests.replication.histories.site import Site

TOPIC = "accounts"
ACCOUNTS = 3
ASK_S = 20.0
TIMEOUT_MS = 30_000
ABORTED, COMMITTED, UNKNOWN = "aborted", "committed", "unknown"


@dataclass
class Transfer:
    outcome: str = UNKNOWN
    acked: int = 0  # of its two records, before it ended
    was_to_commit: bool = False  # whether the coordinator may have been asked for that
    is_refused: bool = False  # for good: INVALID_TXN_STATE
    began_s: float = field(default_factory=time.monotonic)
    age_s: float = 0.0  # when it was refused


class Transferring:
    def __init__(self, site: Site, ledger: Ledger, name: str, seed: int) -> None:
        self.name = name
        self.transfers: dict[str, Transfer] = {}
        self._site, self._ledger, self._random = site, ledger, random.Random(f"{name} {seed}")
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_ending.is_set():
            producer = Producer({
                "bootstrap.servers": self._site.bootstrap, "transactional.id": self.name,
                "transaction.timeout.ms": TIMEOUT_MS, "log_level": 2, "linger.ms": 0,
                "reconnect.backoff.max.ms": 1000, "socket.timeout.ms": 15_000,
            })  # fmt: skip
            try:
                producer.init_transactions(ASK_S)
                while not self._is_ending.is_set():
                    self._transfer(producer)
            except (KafkaException, SystemError) as error:
                self._note_refusal(_cause(error))
                time.sleep(0.2)  # another producer with this name: it finds out how it ended

    def _note_refusal(self, error: Any) -> None:
        if self.transfers and error.code() == KafkaError.INVALID_TXN_STATE:
            last = [*self.transfers.values()][-1]
            last.is_refused = last.outcome == UNKNOWN
            last.age_s = time.monotonic() - last.began_s

    def _transfer(self, producer: Producer) -> None:
        """Raises what only another producer can mend."""
        name = f"{self.name}:{len(self.transfers)}"
        found = self.transfers[name] = Transfer()
        giver, taker = self._random.sample(range(ACCOUNTS), 2)
        amount, wants_abort = self._random.randint(1, 100), self._random.random() < 0.2
        producer.begin_transaction()
        try:
            for account, change in ((giver, -amount), (taker, amount)):
                producer.produce(TOPIC, f"{name}:{change}", partition=account,
                                 on_delivery=partial(_note, found))  # fmt: skip
            producer.flush(ASK_S)
            if wants_abort:
                producer.abort_transaction(ASK_S)
                found.outcome = ABORTED
            else:
                self._commit(producer, found)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(ASK_S)
            found.outcome = ABORTED

    def _commit(self, producer: Producer, found: Transfer) -> None:
        found.was_to_commit = True
        while True:
            try:
                producer.commit_transaction(ASK_S)
                found.outcome = COMMITTED
                return
            except KafkaException as error:
                if not error.args[0].retriable() or self._is_ending.is_set():
                    raise

    def end(self) -> None:
        self._is_ending.set()
        self._thread.join()


def _cause(error: BaseException) -> Any:
    """A fatal error that comes while a report is being heard is wrapped into a SystemError."""
    found = error.__cause__ if isinstance(error, SystemError) else error
    assert isinstance(found, KafkaException), repr(found)
    return found.args[0]


def _note(transfer: Transfer, error: Any, message: Any) -> None:
    transfer.acked += error is None


def check(
    anomalies: Anomalies, transfers: dict[str, Transfer], accounts: Iterable[Iterable[str]]
) -> int:
    """What the accounts have at the end. Returns how many transactions were committed."""
    changes: dict[str, list[int]] = {}
    for values in accounts:
        for value in values:
            name, _, change = value.rpartition(":")
            changes.setdefault(name, []).append(int(change))
    for name, found in changes.items():
        transfer = transfers.get(name)
        if transfer is None:
            anomalies.add("never sent", f"{name}: {found}")
        elif transfer.outcome == ABORTED:
            anomalies.add("aborted read", f"{name} was aborted, and {found} is seen")
        if len(found) != 2 or sum(found) != 0:
            anomalies.add("torn", f"{name}: {found}")
    for name, transfer in transfers.items():
        if transfer.outcome == COMMITTED and name not in changes:
            anomalies.add("lost", f"transaction {name}")
        if transfer.is_refused and not _may_be_refused(transfer, name in changes):
            anomalies.add("refused", f"the end of {name} after {transfer.age_s:.1f} s, of which "
                                     f"{transfer.acked} records were acknowledged; "
                                     f"{changes.get(name, 'nothing')} is seen")  # fmt: skip
    if total := sum(sum(each) for each in changes.values()):
        anomalies.add("balance", f"the accounts sum up to {total}")
    return len([each for each in transfers.values() if each.outcome == COMMITTED])


def _may_be_refused(transfer: Transfer, is_seen: bool) -> bool:
    if transfer.age_s * 1000 >= TIMEOUT_MS:
        return True
    return transfer.was_to_commit if is_seen else transfer.acked == 0
