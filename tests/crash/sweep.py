"""Repeats one story, each time with one failing call; in one recorded process.

`python -m crash.sweep CLASS ROOT TRACE STEP` prints one JSON line with the number of stories and
the faults. Each call fails once, and each STEP-th call fails with all calls after it. The story
contains every act of a log. After any failure the process continues; a failed act raises a stated
exception; a stopped log and health give the reason; and after the fault all acknowledged records
are there.
"""

from __future__ import annotations

import errno
import faulthandler
import gc
import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from appliance.errors import ApplianceError, LogClosed, LogFailed, TimedOut

from .checks import judge, observe, open_logs
from .facts import Facts
from .producer_lives import end
from .session import START_MS, Session, config_of, offsets_of, read_batches
from .told import told
from .trace import NEVER, Note, Recorder, read_entries

SHORT = 0  # instead of an errno: half the bytes are written
STORY_SECONDS_MAX = 60
WAIT_SECONDS = 5.0
NTH_MAX = 200
ERRORS = {
    "open": (errno.EIO, errno.EMFILE, errno.EINTR),
    "create": (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EMFILE),
    "write": (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EINTR, SHORT),
    "pwrite": (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EINTR, SHORT),
    "fsync": (errno.EIO, errno.ENOSPC, errno.EDQUOT),
    "fdatasync": (errno.EIO, errno.ENOSPC, errno.EDQUOT),
    "syncfs": (errno.EIO, errno.ENOSPC),
    "rename": (errno.EIO, errno.ENOSPC),
    "ftruncate": (errno.EIO, errno.EINTR),
    "fallocate": (errno.EIO, errno.ENOSPC, errno.EINTR),
    "unlink": (errno.EIO,),
    "mkdir": (errno.EIO, errno.ENOSPC, errno.EDQUOT),
}
HARMLESS = (errno.EINTR, SHORT)  # a write continues after these, invisibly


class Notes:
    """A fake of the recorder's notes: one story's, in memory, for judging it afterwards."""

    def __init__(self) -> None:
        self.notes: list[Note] = []

    def note(self, facts: dict[str, Any], payload: bytes = b"") -> None:
        self.notes.append(Note(len(self.notes), json.loads(json.dumps(facts)), payload))


@dataclass
class Sweep:
    what: str
    root: Path
    recorder: Recorder
    steps: tuple[int, int]  # between failing calls: of one that fails once, and from then on
    stories: int = 0
    problems: list[str] = field(default_factory=list)

    def run(self) -> None:
        for number, error in enumerate(ERRORS[self.what]):
            for times, longest in zip((1, 1_000_000), self.steps, strict=True):
                if times > 1 and error in HARMLESS:
                    continue  # kernels do not interrupt a call for ever
                step = min(longest, len(ERRORS[self.what]))  # so that each call fails once
                for nth in range(1 + number % step, NTH_MAX, step):
                    if not self._story(nth, times, error):
                        break

    def _story(self, nth: int, times: int, error: int) -> bool:
        """False if the story ends before the nth call of this class."""
        faulthandler.dump_traceback_later(STORY_SECONDS_MAX, exit=True)
        place = self.root / str(self.stories)
        place.mkdir()
        self.stories += 1
        label, wrong, fired = self._tell(place, nth, times, error)
        wrong += still_open(place)
        self.problems += [f"{label}: {problem}" for problem in wrong]
        shutil.rmtree(place)
        return fired > 0

    def _tell(self, place: Path, nth: int, times: int, error: int) -> tuple[str, list[str], int]:
        session = Session(place, 0)
        notes = Notes()
        session.recorder = notes  # type: ignore[assignment]
        session.wait_seconds = WAIT_SECONDS
        self.recorder.fail(self.what, nth, error, times=times, is_short=error == SHORT)
        failed, wrong = tell(session)
        fired = self.recorder.fired()
        self.recorder.heal()
        lasting = "once" if times == 1 else "from then on"
        label = f"{self.what} {nth} {errno.errorcode.get(error, 'short')} {lasting}"
        return label, wrong + self._judge(session, notes, failed, fired, error), fired

    def _judge(
        self, session: Session, notes: Notes, failed: list[BaseException], fired: int, error: int
    ) -> list[str]:
        wrong = [f"not a stated error: {one!r}" for one in failed if not is_stated(one)]
        is_harmless = error in HARMLESS and self.what in ("write", "pwrite")
        if failed and (not fired or is_harmless):
            wrong.append(f"failed although it could go on: {failed[0]!r}")
        if session.dir:
            wrong += stopped(session)
            wrong += self._open_again(session)
            wrong += finish(session)
        self.recorder.note({"do": "verify", "place": str(session.root)})
        if not (session.root / "checkpoint.0").exists():
            open_logs(session.root).close()
        seen = observe(session.root, needs_notes=False)
        return wrong + seen.problems + judge(seen, Facts(notes.notes), NEVER - 1)


    def _open_again(self, session: Session) -> list[str]:
        """What failed for want of room, as a timer does: the fault is over."""
        waiting = [log for log in session.dir.logs().values() if log.waits_for_room]
        if not waiting:
            return []
        self.recorder.note({"do": "open"})
        wrong = []
        for log in waiting:
            error = session.attempt(partial(reopen, session, log))
            wrong += [f"{log.name} is not opened again: {error!r}"] if error else []
        return wrong


def reopen(session: Session, log: Any) -> None:
    """What was not durable goes with it, as in a truncation."""
    place = (log.topic, log.partition)
    facts = {"log": log.name, "to": log.durable_offset}
    session.note(do="truncate", end=log.log_end_offset, **facts)
    fresh = session.dir.reopen(*place, config_of(*place))
    offsets = offsets_of(fresh)
    session.note(did="truncate", start=fresh.log_start_offset, offsets=offsets, **facts)


def still_open(place: Path) -> list[str]:
    """After any failure, no descriptor of a closed directory stays open."""
    gc.collect()
    with os.scandir("/proc/self/fd") as entries:
        links = [each.path for each in entries]
    targets = [os.readlink(each) for each in links if os.path.islink(each)]
    return [f"{each} is still open" for each in targets if Path(each).is_relative_to(place)]


def is_stated(error: BaseException) -> bool:
    """Whether the error states a fact of the machine or the log; a timeout does not."""
    return isinstance(error, ApplianceError) and not isinstance(error, TimedOut)


def tell(session: Session) -> tuple[list[BaseException], list[str]]:
    """Runs the story. Returns its failures and faults. An act without its log is skipped."""
    failed: list[BaseException] = []
    wrong: list[str] = []

    def attempt(act: Callable[[], Any]) -> bool:
        error = session.attempt(act)
        if error:
            failed.append(error)
        return error is None

    if not attempt(session.open):
        return failed, wrong
    for topic in ("a", "k"):
        if attempt(partial(session.create, topic)):
            for act in acts_of(session, session.log(topic), topic):
                attempt(act)
                wrong += shown_too_early(session.log(topic))
        attempt(session.checkpoint)
    if ("a", 0) in session.dir.logs():
        attempt(lambda: session.delete("a"))
    return failed, wrong


def shown_too_early(log: Any) -> list[str]:
    visible, durable = log.high_watermark, log.durable_offset
    return [f"visible up to {visible}, durable up to {durable}"] if visible > durable else []


def acts_of(session: Session, log: Any, topic: str) -> list[Callable[[], Any]]:
    def append(count: int, size: int, **more: Any) -> Callable[[], Any]:
        return lambda: session.append(log, session.records(count, size), **more)

    if topic == "k":
        keyed = [
            lambda key=key: session.append(log, session.records(1, 200, key=key)) for key in "xyxyx"
        ]
        return [
            *keyed,
            log.roll,
            *keyed[:1],
            lambda: session.change("compact", log, lambda: log.compact(START_MS * 2)),
        ]
    batch = session.records(1, producer_id=4, producer_epoch=0, base_sequence=0, transactional=True)

    def transaction() -> None:
        first = session.append(log, batch).base_offset
        end(session, log, 4, first, "abort")

    return [
        append(2, 200),
        append(2, 200, durable=False),
        append(3, 250),
        append(1, 100, durable=False),
        log.flush,
        transaction,
        log.roll,
        append(2, 300),
        session.checkpoint,
        lambda: session.change(
            "truncate", log, lambda: log.truncate(log.log_end_offset - 2), to=log.log_end_offset - 2
        ),
        append(2, 100),
        lambda: session.change("delete_before", log, lambda: log.delete_before(3)),
        append(3, 200),
    ]


def stopped(session: Session) -> list[str]:
    wrong = []
    for log in session.dir.logs().values():
        if log.failed is None:
            continue
        wrong += [] if log.failed.strip() else ["a log stopped without a reason"]
        if not any(log.name in each for each in told(session.dir)):
            wrong.append(f"{log.name} stopped, and health says {told(session.dir)}")
        error = session.attempt(partial(append_one, session, log))
        if not isinstance(error, LogFailed):
            wrong.append(f"a log that stopped answered an append with {error!r}")
    return wrong


def finish(session: Session) -> list[str]:
    """The fault is over: a log that did not stop accepts records again; then all is closed."""
    wrong = []
    session.dir.engine.poll()  # the work of a timer: writes resume by themselves
    for log in session.dir.logs().values():
        if log.failed is not None:
            continue
        error = session.attempt(partial(append_one, session, log))
        is_half_deleted = isinstance(error, LogClosed)
        if error and not is_half_deleted:
            wrong.append(
                f"after the fault an append still fails, and the log did not stop: {error!r}"
            )
        read_batches(log, "visible")
    for name in session.dir.unopened.values():
        if not any(str(name) in each for each in told(session.dir)):
            wrong.append(f"not opened: {name}; and health says {told(session.dir)}")
    session.attempt(session.dir.close)  # may fail because of the fault; only later results count
    return wrong


def append_one(session: Session, log: Any) -> Any:
    return session.append(log, session.records(1))


def second_syncs(trace: Path) -> list[str]:
    """Files that were synced again in the same life after one of their syncs had failed."""
    wrong: list[str] = []
    failed: dict[str, str] = {}
    for entry in read_entries(trace):
        if entry.operation == "note":
            failed.clear()  # "verify", "open": a new life
        name = Path(entry.path).name
        if entry.operation == "write" and entry.offset == 0 and name.startswith("checkpoint."):
            failed.pop(entry.path, None)  # another generation: no byte of the lost ones counts
        if entry.operation in ("sync", "sync_all"):
            is_data_dir = name.isdigit()  # a name made after a failed sync is a write of its own
            is_kept = name.endswith(".log") or name.startswith("checkpoint.")
            key = entry.path if is_kept else str(entry.handle)
            if key in failed and not is_data_dir:
                wrong.append(
                    f"{entry.path}: synced again after a failed sync: {failed[key]} then {entry}"
                )
            if entry.is_injected:
                failed[key] = str(entry)
    return wrong


def main(what: str, root: str, trace: str, once: str, lasting: str) -> None:
    sweep = Sweep(what, Path(root), Recorder(), (int(once), int(lasting)))
    sweep.run()
    problems = sweep.problems + second_syncs(Path(trace))
    print(
        json.dumps({"stories": sweep.stories, "failed": len(problems), "problems": problems[:12]})
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
