"""Lives of logs with retention and compaction."""

from __future__ import annotations

from typing import Any

from appliance.record import _batch_builder

from .session import START_MS, Session, offsets_of


def retention(session: Session) -> None:
    session.open()
    size, time = session.create("size"), session.create("time")
    for _ in range(8):
        for log in (size, time):
            session.append(log, session.records(3, 200), durable=False)
    for log in (size, time):
        session.wait(log)
    session.checkpoint()
    session.change("retain", size, lambda: size.retain(START_MS))
    session.change("retain", time, lambda: time.retain(START_MS + 10_000_000))
    for log in (size, time):
        session.append(log, session.records(3, 200))
    session.change("delete_before", size, lambda: size.delete_before(size.log_end_offset - 2))
    session.append(size, session.records(1))
    session.append(size, session.records(3, 300), durable=False)
    session.recorder.kill()


def retention_again(session: Session) -> None:
    session.open()
    size, time = session.log("size"), session.log("time")
    for _ in range(3):
        session.append(time, session.records(3, 250))
    session.change("delete_before", time, lambda: time.delete_before(time.log_end_offset))
    session.append(time, session.records(1))
    session.append(size, session.records(2))
    session.close()


def compact(session: Session, log: Any, now_ms: int) -> None:
    """A checkpoint comes first, because only segments that recovery need not read are compacted.
    The first pass makes segments smaller, the next one merges small ones."""
    session.checkpoint()
    before = len(offsets_of(log))
    session.change("compact", log, lambda: log.compact(now_ms))
    assert len(offsets_of(log)) < before, "compaction took nothing away"


def compaction(session: Session) -> None:
    """Overwrites keys repeatedly, so that compaction merges segments."""
    session.open()
    log = session.create("k")
    for turn in range(6):
        for key in ("red", "blue", "green"):
            batch = session.records(1, 150, key=f"{key}{turn % 2}")
            session.append(log, batch, durable=False)
        session.append(log, session.records(2, 100, key="same"), durable=False)
    session.append(log, _batch_builder.batch([(START_MS + 900, b"red0", None)]))
    log.roll()
    session.append(log, session.records(1, key="last"))
    compact(session, log, START_MS + 1000)
    for key in ("blue0", "blue1", "red1"):
        session.append(log, session.records(1, 150, key=key))
        log.roll()
    session.append(log, session.records(1, 150, key="blue1"))
    compact(session, log, START_MS + 10_000_000)
    session.append(log, session.records(1, key="blue0"), durable=False)
    session.recorder.kill()


def compaction_again(session: Session) -> None:
    session.open()
    log = session.log("k")
    for key in ("green0", "same", "red1"):
        session.append(log, session.records(2, 200, key=key))
        log.roll()
    session.append(log, session.records(1, 200, key="red1"))
    compact(session, log, START_MS + 20_000_000)
    session.close()
