"""Lives of logs with idempotent and transactional producers."""

from __future__ import annotations

import threading
from typing import Any

from appliance.errors import SequenceOutOfOrder
from appliance.record import _batch_builder

from .session import START_MS, Session, name_of

RACING = 100  # added to the life of a second session in it


def idempotent(session: Session) -> None:
    session.open()
    log = session.create("i")
    for turn in range(5):
        for producer in (7, 8):
            batch = session.records(
                2, 200, producer_id=producer, producer_epoch=0, base_sequence=2 * turn
            )
            session.append(log, batch, durable=turn != 3)
            if turn == 2:
                assert session.append(log, batch).duplicate, "a repeat was not recognised"
        if turn == 1:
            session.append(
                log, session.records(1, producer_id=9, producer_epoch=3, base_sequence=0)
            )
            session.checkpoint()
    session.wait(log)
    session.change("retain", log, lambda: log.retain(START_MS))
    session.append(log, session.records(1, producer_id=7, producer_epoch=1, base_sequence=0))
    session.append(
        log, session.records(2, producer_id=8, producer_epoch=0, base_sequence=10), durable=False
    )
    session.recorder.kill()


def idempotent_again(session: Session) -> None:
    session.open()
    log = session.log("i")
    for sequence in (1, 2):
        session.append(
            log, session.records(1, 300, producer_id=7, producer_epoch=1, base_sequence=sequence)
        )
    try:
        log.append(session.records(1, producer_id=7, producer_epoch=1, base_sequence=9))
        raise AssertionError("a gap in the sequence was accepted")
    except SequenceOutOfOrder:
        session.note(did="refuse")
    session.append(
        log, session.records(2, producer_id=8, producer_epoch=0, base_sequence=12), durable=False
    )
    session.close()


def idempotent_racing(session: Session) -> None:
    """Checkpoints while a producer appends: a checkpoint must not be ahead of the log."""
    session.open()
    log = session.create("n")
    other = Session(session.root, session.life + RACING)

    def produce() -> None:
        for sequence in range(40):
            batch = other.records(1, producer_id=21, producer_epoch=0, base_sequence=sequence)
            other.append(log, batch, durable=sequence % 4 == 0)

    racing = threading.Thread(target=produce)
    racing.start()
    while racing.is_alive():
        session.checkpoint()
    session.recorder.kill()


def transaction(
    session: Session, log: Any, producer: int, sequence: int, kind: str, *, durable: bool
) -> None:
    """Two batches and a marker; its result is a fact once the marker is durable."""
    first = None
    for part in range(2):
        batch = session.records(
            1,
            150,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=sequence + part,
            transactional=True,
        )
        appended = session.append(log, batch, durable=False)
        first = appended.base_offset if first is None else first
    end(session, log, producer, first or 0, kind, durable=durable)


def end(
    session: Session, log: Any, producer: int, first: int, kind: str, *, durable: bool = True
) -> None:
    marker = _batch_builder.control_batch(kind, producer, 0, 0, START_MS)
    appended = session.append(log, marker, durable=durable, origin="coordinator")
    session.note(
        did="transaction",
        log=name_of(log.topic, log.partition),
        kind=kind,
        producer=producer,
        first=first,
        last=appended.last_offset,
        durable=durable,
    )


def transactions(session: Session) -> None:
    session.open()
    log = session.create("x")
    transaction(session, log, 1, 0, "commit", durable=True)
    transaction(session, log, 2, 0, "abort", durable=True)
    opened = session.append(
        log,
        session.records(1, producer_id=3, producer_epoch=0, base_sequence=0, transactional=True),
    )
    transaction(session, log, 1, 2, "abort", durable=False)
    session.append(log, session.records(2, 200))
    log.roll()
    session.append(log, session.records(1))
    session.checkpoint()
    transaction(session, log, 2, 2, "commit", durable=True)
    end(session, log, 3, opened.base_offset, "abort")
    transaction(session, log, 1, 4, "abort", durable=True)
    session.append(log, session.records(2, 900))
    session.append(log, session.records(2, 600))
    session.checkpoint()
    session.append(
        log,
        session.records(1, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True),
        durable=False,
    )
    session.recorder.kill()


def transactions_again(session: Session) -> None:
    session.open()
    log = session.log("x")
    transaction(session, log, 2, 4, "abort", durable=True)
    session.append(log, session.records(1), durable=False)
    session.close()
