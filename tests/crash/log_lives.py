"""Lives of logs: appends, rolls, checkpoints, the journal, truncation, partitions."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

from appliance.data_dir import locked_dir
from appliance.machine.sync_guarantee import Syncs

from .producer_lives import transaction
from .session import STORAGE, Session


def produce_first(session: Session) -> None:
    session.open()
    logs = [session.create("a", partition) for partition in range(2)]
    for turn, codec in enumerate(["none", "lz4", "none", "zstd"]):
        for log in logs:
            session.append(log, session.records(1 + turn, codec=codec))
    session.append(logs[0], session.records(3, 300), durable=False)
    session.append(logs[0], session.records(2), durable=False)
    session.append(logs[1], session.records(2), durable=False)
    session.wait(logs[0])
    session.append(logs[1], session.records(4, 200))
    session.append(logs[1], session.records(1, 500), durable=False)
    session.close()


def produce_again(session: Session) -> None:
    session.open()
    for _ in range(2):
        for partition in range(2):
            session.append(session.log("a", partition), session.records(2))
    session.append(session.log("a", 0), session.records(3), durable=False)
    session.recorder.kill()


def roll(session: Session) -> None:
    """Acknowledgements that cover several segments at once."""
    session.open()
    log = session.create("r")
    for _ in range(4):
        for _ in range(4):
            session.append(log, session.records(3, 180), durable=False)
        session.wait(log)
    log.roll()
    session.append(log, session.records(1))
    session.append(log, session.records(1), durable=False)
    log.roll()
    session.append(log, session.records(1), durable=False)
    session.wait(log)
    session.recorder.kill()


def checkpoint(session: Session) -> None:
    """Recovery points in the middle of a segment, with undurable records above them."""
    session.open()
    logs = list(session.dir.logs().values())
    if not logs:
        logs = [session.create("c", partition) for partition in range(2)]
    for _ in range(4):
        for log in logs:
            session.append(log, session.records(2, 200))
            session.append(log, session.records(1, 200), durable=False)
        session.checkpoint()
        session.append(logs[0], session.records(2, 300), durable=False)
        session.checkpoint()
    session.wait(logs[0])
    session.checkpoint()
    session.append(logs[0], session.records(2, 300), durable=False)
    session.append(logs[1], session.records(2, 300), durable=False)
    session.recorder.kill()


def checkpoint_clean(session: Session) -> None:
    session.open()
    session.append(session.log("c", 0), session.records(2, 200))
    session.checkpoint()
    session.append(session.log("c", 0), session.records(2, 200), durable=False)
    session.close()


JOURNALED = ("j", "a-name-that-is-longer")  # records of two sizes


def journal_first(session: Session) -> None:
    """State that only the journal has: a log start inside a segment."""
    session.open()
    for topic in JOURNALED:
        log = session.create(topic)
        for _ in range(3):
            session.append(log, session.records(6, 30))
        session.change("delete_before", log, functools.partial(log.delete_before, 4))
    session.checkpoint()
    session.append(log, session.records(2, 200))
    session.close()


def journal_turned_over(session: Session) -> None:
    """Each start switches to the other journal file; then no more is written to it."""
    session.open()
    session.recorder.kill()


def journal_used(session: Session) -> None:
    session.open()
    session.append(session.log("j"), session.records(2, 200))
    session.checkpoint()
    for turn in range(20):  # enough journal records that some cross the end of a sector
        log = session.log(JOURNALED[turn % 2])
        start = log.log_start_offset + 1
        session.change("delete_before", log, functools.partial(log.delete_before, start))
    session.append(session.log("j"), session.records(1), durable=False)
    session.recorder.kill()


def truncate(session: Session) -> None:
    session.open()
    log = session.create("t")
    for _ in range(6):
        session.append(log, session.records(2, 200), durable=False)
    session.wait(log)
    session.checkpoint()
    session.change("truncate", log, lambda: log.truncate(8), to=8)
    session.append(log, session.records(2, 220))
    session.append(log, session.records(2, 220), durable=False)
    session.change("truncate", log, lambda: log.truncate(2), to=2)
    for _ in range(3):
        session.append(log, session.records(2, 180))
    truncate_producers(session, log)
    session.append(log, session.records(1), durable=False)
    session.recorder.kill()


def truncate_producers(session: Session, log: Any) -> None:
    """Truncates beyond the recovery point's segment: segments between must not be lost."""
    transaction(session, log, 1, 0, "abort", durable=True)
    for sequence in range(4):
        batch = session.records(1, 90, producer_id=6, producer_epoch=0, base_sequence=sequence)
        session.append(log, batch)
        if sequence == 1:
            log.roll()
    to = log.log_end_offset - 1
    session.change("truncate", log, lambda: log.truncate(to), to=to)


def truncate_again(session: Session) -> None:
    session.open()
    log = session.log("t")
    session.append(log, session.records(2, 240))
    session.change("truncate", log, lambda: log.truncate(4), to=4)
    session.append(log, session.records(1, 240))
    session.close()


def partitions(session: Session) -> None:
    """Partitions are created, filled, deleted, and created again with the same name."""
    session.open()
    for partition in range(2):
        log = session.create("p", partition)
        session.append(log, session.records(2))
        session.append(log, session.records(8, 250))
    session.checkpoint()
    session.delete("p", 0)
    log = session.create("q")
    session.append(log, session.records(1))
    log = session.create("p", 0)
    session.append(log, session.records(1, 90))
    session.append(log, session.records(1), durable=False)
    session.recorder.kill()


def partitions_again(session: Session) -> None:
    session.open()
    session.delete("q")
    session.create("empty")
    session.append(session.log("p", 0), session.records(1))
    session.close()


def creations(session: Session) -> None:
    """So many partitions at once that one sync of the file system is for all of them."""
    locked_dir.syncs_on = lambda path: Syncs("ext4", True, "")
    session.open(replace(STORAGE, sync="auto"))
    logs = session.create_new("m", "n", partitions=4)
    session.append(logs[0], session.records(2))
    session.append(logs[-1], session.records(1))
    session.create_new("o", partitions=8)
    session.recorder.kill()


def creations_again(session: Session) -> None:
    session.open()
    session.append(session.log("o", 7), session.records(1))
    session.append(session.log("m", 0), session.records(1), durable=False)
    session.close()
