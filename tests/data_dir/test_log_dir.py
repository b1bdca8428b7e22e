"""The data directory: its names, its logs, their creation and deletion."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from appliance._log import Engine, Log
from appliance.catalog.loss_ledger import Damage
from appliance.config import StorageConfig
from appliance.data_dir.locked_dir import LockedDir
from appliance.data_dir.log_dir import LogDir, LogUnknown
from appliance.data_dir.partition_creation import LogExists
from appliance.data_dir.partition_names import TopicNameInvalid, directory_name
from appliance.data_dir.recovery import Recovery
from appliance.data_dir.recovery_report import RecoveryReport
from appliance.errors import ApplianceError, FilesExhausted, LogClosed, LogFailed, StorageFull
from tests.support.logs import (
    STORAGE,
    batch,
    everything,
    log_config,
    opened,
    produced,
    reopened,
    until,
    values,
)
from tests.support.open_files import open_files


def test_a_directory_is_made_with_its_parents(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    with opened(path) as log_dir:
        assert (log_dir.path, log_dir.logs()) == (path, {})
        assert log_dir.free_bytes > 0
        assert not log_dir.is_full


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"")
    with pytest.raises(ApplianceError, match="data cannot be opened as a data directory"):
        LogDir.open(tmp_path / "data", STORAGE)


def test_a_log_is_created_found_and_empty(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.create("orders", 3, log_config())
        assert (log.name, log.topic, log.partition) == ("orders-3", "orders", 3)
        assert (log.log_start_offset, log.log_end_offset, log.durable_offset) == (0, 0, 0)
        assert (log.failed, log.size, log.leader_epoch) == (None, 0, 0)
        assert log_dir.log("orders", 3) is log
        assert log_dir.logs() == {("orders", 3): log}
        assert (tmp_path / "orders-3" / f"{0:020d}.log").is_file()


def test_a_created_log_is_there_after_an_unclean_end(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log_dir.create("t", 0)
        again = reopened(log_dir, cleanly=False)
        assert list(again.logs()) == [("t", 0)]
        assert again.report.losses == []
        again.close()


def test_a_log_that_is_there_is_not_created_again(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log_dir.create("t", 0).append_durable(batch("a"))
        with pytest.raises(LogExists, match="t-0 exists"):
            log_dir.create("t", 0)
        assert values(everything(log_dir.log("t", 0))) == ["a"]


def test_an_unknown_log_is_named(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        for ask in (log_dir.log, log_dir.delete):
            with pytest.raises(LogUnknown, match="no log t-7 in"):
                ask("t", 7)


@pytest.mark.parametrize(
    "topic",
    ["", ".", "..", "a" * 250, "a/b", "../x", "a\\b", "a b", "a\0", "a\n", "ä", "a:b", "a%2fb"],
)
def test_bad_topic_names_are_refused_and_leave_nothing(topic: str, tmp_path: Path) -> None:
    with opened(tmp_path / "data") as log_dir:
        before = sorted(path.name for path in tmp_path.rglob("*"))
        with pytest.raises(TopicNameInvalid):
            log_dir.create(topic, 0)
        assert sorted(path.name for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize("partition", [-1, 100_000, 1 << 31])
def test_bad_partition_numbers_are_refused(partition: int) -> None:
    with pytest.raises(TopicNameInvalid, match=str(partition)):
        directory_name("t", partition)


@pytest.mark.parametrize(
    ("topic", "partition"),
    [("a", 0), ("a" * 249, 99_999), ("...", 0), ("a-0", 0), ("a", 10), ("-", 1), ("deleted.x", 0)],
)
def test_good_names_come_back_as_they_were(topic: str, partition: int, tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log_dir.create(topic, partition).append_durable(batch("a"))
        again = reopened(log_dir, cleanly=False)
        assert list(again.logs()) == [(topic, partition)]
        assert values(everything(again.log(topic, partition))) == ["a"]
        again.close()


def test_topics_that_look_alike_are_apart(tmp_path: Path) -> None:
    names = [("a-0", 1), ("a", 0), ("a-0-1", 0), ("A", 0), ("a.0", 1), ("a_0", 1)]
    with opened(tmp_path) as log_dir:
        for each in names:
            log_dir.create(*each).append_durable(batch(f"{each}"))
    with opened(tmp_path) as log_dir:
        found = {each: values(everything(log_dir.log(*each))) for each in log_dir.logs()}
        assert found == {each: [f"{each}"] for each in names}


# Deletion


def test_a_deleted_log_is_gone_at_once_and_for_good(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0)
        log.append_durable(batch("old"))
        log_dir.checkpoint()
        log_dir.delete("t", 0)
        assert log_dir.logs() == {}
        assert list((tmp_path / "deleted").iterdir()) == []
        assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["deleted"]
        with pytest.raises(LogClosed):
            log.append(batch("late"))
        again = reopened(log_dir, cleanly=False)
        assert (again.logs(), again.report.losses) == ({}, [])
        again.close()


@pytest.mark.parametrize("cleanly", [True, False], ids=["clean stop", "unclean end"])
def test_a_log_created_again_knows_nothing_of_the_deleted_one(
    cleanly: bool, tmp_path: Path
) -> None:
    with opened(tmp_path) as log_dir:
        old = log_dir.create("t", 0, log_config())
        for i in range(3):
            old.append_durable(produced(i), leader_epoch=6)
        old.delete_before(2)
        log_dir.checkpoint()
        log_dir.delete("t", 0)
        new = log_dir.create("t", 0, log_config())
        assert (new.log_start_offset, new.log_end_offset, new.producers()) == (0, 0, [])
        assert new.append_durable(produced(0)).base_offset == 0
        again = reopened(log_dir, cleanly)
        log = again.log("t", 0)
        assert (log.log_start_offset, values(everything(log))) == (0, ["7.0.0"])
        assert again.report.losses == []
        again.close()


class Crash(BaseException):
    """Not an error that anything handles."""


CRASH_AT = {
    "rename": "pathlib.Path.rename",
    "sync": "appliance.data_dir.durable_directories.sync_name",
    "files": "shutil.rmtree",
}


@pytest.mark.parametrize("where", CRASH_AT)
def test_a_deletion_that_was_interrupted_is_finished_or_never_happened(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object, **__: object) -> None:
        raise Crash

    with opened(tmp_path) as log_dir:
        log_dir.create("t", 0).append_durable(batch("a"))
        log_dir.create("u", 0).append_durable(batch("b"))
        log_dir.checkpoint()
        with monkeypatch.context() as patch:
            patch.setattr(CRASH_AT[where], crash)
            with pytest.raises(Crash):
                log_dir.delete("t", 0)
        log_dir.abandon()
    for _ in range(2):
        with opened(tmp_path) as log_dir:
            assert (("t", 0) in log_dir.logs()) == (where == "rename")
            assert values(everything(log_dir.log("u", 0))) == ["b"]
            assert log_dir.report.losses == []
            assert list((tmp_path / "deleted").iterdir()) == []
            log_dir.abandon()


def test_finishing_a_deletion_may_be_interrupted_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files are gone, the journal still knows the log: no loss to report at the next start."""
    with opened(tmp_path) as log_dir:
        log_dir.create("t", 0).append_durable(batch("a"))
        log_dir.checkpoint()
        log_dir.abandon()
    (tmp_path / "t-0").rename(tmp_path / "deleted" / "t-0")
    real = Recovery._miss
    with monkeypatch.context() as patch:

        def crash(*_: object) -> None:
            raise Crash

        patch.setattr(Recovery, "_miss", crash)
        with pytest.raises(Crash):
            LogDir.open(tmp_path, STORAGE)
    assert Recovery._miss is real
    with opened(tmp_path) as log_dir:
        assert (log_dir.report.losses, log_dir.logs()) == ([], {})


def test_a_log_created_again_survives_the_end_of_an_old_deletion(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log_dir.create("t", 0).append_durable(batch("new"))
        log_dir.checkpoint()
        log_dir.abandon()
    grave = tmp_path / "deleted" / "t-0"
    grave.mkdir(parents=True)
    (grave / f"{0:020d}.log").write_bytes(b"old")
    with opened(tmp_path) as log_dir:
        assert values(everything(log_dir.log("t", 0))) == ["new"]
        assert log_dir.report.scanned_bytes == 0
        assert not grave.exists()


def test_a_failed_creation_can_be_repeated(tmp_path: Path) -> None:
    """Here there are no descriptors left; on a full disk it is the same."""
    with opened(tmp_path) as log_dir:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        taken = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, taken + 1), hard))
        held: list[int] = []
        try:
            with contextlib.suppress(OSError):
                while True:
                    held.append(os.open(tmp_path / "lock", os.O_RDONLY))
            with pytest.raises(FilesExhausted):
                log_dir.create("t", 0)
        finally:
            for descriptor in held:
                os.close(descriptor)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert log_dir.create("t", 0).append_durable(batch("a")).base_offset == 0


class Watched:
    """An engine that remembers which logs it opened, cannot open one, and whose journal may take
    nothing more."""

    def __init__(self, engine: Engine, is_full: bool, refused: str) -> None:
        self._engine, self._is_full, self._refused = engine, is_full, refused
        self.logs: list[Log] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def open_log(self, *given: Any, **named: Any) -> tuple[Log, Any]:
        if given[0] == self._refused:
            raise FilesExhausted("no descriptor is free")
        log, recovered = self._engine.open_log(*given, **named)
        self.logs.append(log)
        return log, recovered

    def commit_journal(self) -> None:
        if self._is_full:
            raise StorageFull("no room in the journal")
        self._engine.commit_journal()


@contextlib.contextmanager
def watched(
    log_dir: LogDir, is_full: bool = False, refused: str = ""
) -> Iterator[Watched]:
    """All that is opened meanwhile is closed at its end."""
    where, engine = log_dir._where, log_dir.engine
    found: Any = Watched(engine, is_full, refused)
    log_dir.engine, log_dir._where = found, replace(where, engine=found)
    yield found
    log_dir.engine, log_dir._where = engine, where
    for log in found.logs:
        with pytest.raises(LogClosed):
            log.append(batch("late"))


def test_a_creation_that_fails_closes_what_it_had_opened(tmp_path: Path) -> None:
    """One of eight partitions cannot be opened: the seven others were."""
    with opened(tmp_path) as log_dir:
        with watched(log_dir, refused="t-5") as engine, pytest.raises(FilesExhausted):
            log_dir.create_all("t", range(8))
        assert len(engine.logs) == 7
        assert (log_dir.held(), [*tmp_path.glob("t-*")]) == ([], [])
        assert len(log_dir.create_all("t", range(8))) == 8


def test_a_directory_that_has_anything_is_not_taken_for_a_new_partition_s(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        (tmp_path / "t-5").mkdir()
        os.mknod(tmp_path / "t-5" / f"{0:020d}.log", stat.S_IFSOCK | 0o600)
        with pytest.raises(LogExists, match="t-5 exists but is not open"):
            log_dir.create_all("t", range(8))
        assert (log_dir.held(), [*tmp_path.glob("t-*")]) == ([], [tmp_path / "t-5"])


@pytest.mark.parametrize("act", ["create", "reopen"])
def test_a_log_that_the_journal_does_not_take_is_closed_again(act: str, tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log_dir.create("t", 0).append_durable(batch("a"))
        with watched(log_dir, is_full=True) as engine, pytest.raises(StorageFull, match="no room"):
            log_dir.reopen("t", 0) if act == "reopen" else log_dir.create_all("u", range(3))
        assert len(engine.logs) == (1 if act == "reopen" else 3)
        if act == "reopen":
            assert "no room" in log_dir.unopened["t", 0]
            assert values(log_dir.reopen("t", 0).read(0)) == ["a"]


# Upkeep, and what is set aside


@pytest.mark.parametrize("upkeep", ["retain", "compact"])
def test_a_log_that_fails_holds_up_no_other(upkeep: str, tmp_path: Path) -> None:
    class Stub:
        def __init__(self, result: int | Exception) -> None:
            self.result = result

        def retain(self, now_ms: int, kept_from: int = 0) -> int:
            if isinstance(self.result, Exception):
                raise self.result
            done.append(self.result)
            return self.result

        def compact(self, now_ms: int, latest_ms: int) -> int:
            return self.retain(now_ms)

        def rest(self, idle_ms: int) -> None:
            rested.append(idle_ms)

    done: list[int] = []
    rested: list[int] = []
    with opened(tmp_path) as log_dir:
        stubs = [Stub(1), Stub(LogFailed("first")), Stub(2), Stub(LogFailed("second")), Stub(3)]
        log_dir._logs = {("t", i): stub for i, stub in enumerate(stubs)}  # type: ignore[misc]
        with pytest.raises(LogFailed, match="first"):
            getattr(log_dir, upkeep)()
        assert done == [1, 2, 3]
        assert len(rested) == (5 if upkeep == "retain" else 0)
        log_dir._logs = {}


def test_what_is_deleted_meanwhile_is_no_failure(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log_dir.create("t", 0)
        log = log_dir.create("u", 0)

        def job(each: Log) -> int:
            if each is log:
                log_dir.delete("u", 0)
                each.append(batch("late"))
            return 1

        assert log_dir._each(job) == 1


def test_a_log_that_cannot_be_moved_is_served_as_it_was(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config())
        log.append_durable(batch("kept"))
        (tmp_path / "deleted").rmdir()
        (tmp_path / "deleted").write_bytes(b"in the way")
        with pytest.raises(ApplianceError, match="t-0 cannot be moved"):
            log_dir.delete("t", 0)
        log.append_durable(batch("more"))
        assert values(everything(log_dir.log("t", 0))) == ["kept", "more"]


def test_a_log_that_rests_does_not_fail_while_it_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody appends in the moment in which its directory has moved."""
    moves = Path.rename
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config())
        log.append_durable(batch("a"))
        log.flush()
        log_dir.checkpoint()
        log_dir.rest(0)

        def rename(path: Path, target: Path) -> Path:
            moved = moves(path, target)
            log.append_durable(batch("b"))
            return moved

        with monkeypatch.context() as patch:
            patch.setattr(Path, "rename", rename)
            log_dir.delete("t", 0)
        assert log.failed is None
        assert below(tmp_path / "deleted" / "t-0") == []


class Told:
    """Says what it is asked for, in order."""

    def __init__(self, what: Any, order: list[str]) -> None:
        self._what, self._order = what, order

    def __getattr__(self, name: str) -> Any:
        self._order.append(name)
        return getattr(self._what, name)


def test_the_journal_forgets_a_deleted_log_when_nothing_puts_it_there_any_more(
    tmp_path: Path,
) -> None:
    """A checkpoint that had begun before the log was closed is over."""
    order: list[str] = []
    with opened(tmp_path) as log_dir:
        log_dir._logs["t", 0] = cast(Any, Told(log_dir.create("t", 0), order))
        engine = log_dir.engine
        log_dir.engine = cast(Any, Told(engine, order))
        log_dir.delete("t", 0)
        log_dir.engine = engine
    assert [each for each in order if each in ("close", "settle_journal", "forget_names")] == [
        "close", "settle_journal", "forget_names"
    ]  # fmt: skip


def test_a_log_is_set_aside_with_its_files(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        for i in range(3):
            log_dir.create("t", 0).append_durable(batch(str(i)))
            place = log_dir.set_aside("t", 0)
            assert place == tmp_path / "orphans" / ("t-0", "t-0.1", "t-0.2")[i]
            assert (place / f"{0:020d}.log").stat().st_size == len(batch(str(i)))
            assert not log_dir.holds("t", 0)
        with pytest.raises(LogUnknown):
            log_dir.set_aside("t", 0)
        again = reopened(log_dir, cleanly=False)
        assert (again.logs(), again.report.losses, again.report.notes) == ({}, [], [])
        again.close()


def test_a_directory_that_cannot_be_opened_can_be_deleted_or_set_aside(tmp_path: Path) -> None:
    for i in range(2):
        (tmp_path / f"t-{i}" / f"{0:020d}.log").mkdir(parents=True)
    with opened(tmp_path) as log_dir:
        assert sorted(log_dir.unopened) == log_dir.held() == [("t", 0), ("t", 1)]
        log_dir.delete("t", 0)
        assert log_dir.set_aside("t", 1).is_dir()
        assert log_dir.held() == []
    assert sorted(each.name for each in tmp_path.glob("t-*")) == []


def test_a_directory_is_locked_before_anything_is_read(tmp_path: Path) -> None:
    log_dir = LogDir(LockedDir.lock(tmp_path, STORAGE))
    with pytest.raises(ApplianceError):
        LogDir.open(tmp_path, STORAGE)
    log_dir.recover()
    assert not log_dir.journal_failed
    log_dir.close()
    LockedDir.lock(tmp_path, STORAGE).release()
    with opened(tmp_path) as again:
        assert again.report.was_clean


# Many


def test_five_hundred_partitions_open_and_close(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    with opened(tmp_path) as log_dir:
        for i in range(500):
            log_dir.create("t", i, log_config()).append(batch(str(i)))
        for log in log_dir.logs().values():
            log.ask_commit()
        for log in log_dir.logs().values():
            log.await_durable(0)
        log_dir.abandon()
    for cleanly in (False, True):
        with opened(tmp_path) as log_dir:
            assert log_dir.report.was_clean == cleanly
            assert (log_dir.report.partitions, log_dir.report.losses) == (500, [])
            assert [values(log_dir.log("t", i).read(0)) for i in range(500)] == [
                [str(i)] for i in range(500)
            ]


def test_closing_twice_and_closing_after_abandoning_is_fine(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log_dir.create("t", 0)
        log_dir.close()
        log_dir.close()
    with opened(tmp_path) as log_dir:
        log_dir.abandon()
        log_dir.close()
    with opened(tmp_path) as log_dir:
        assert not log_dir.report.was_clean


def test_a_directory_that_nobody_holds_any_more_is_free(tmp_path: Path) -> None:
    log_dir = LogDir.open(tmp_path, STORAGE)
    log_dir.create("t", 0)
    del log_dir
    with opened(tmp_path) as again:
        assert list(again.logs()) == [("t", 0)]


def test_a_directory_that_cannot_be_opened_or_is_not_started_keeps_no_descriptor(
    tmp_path: Path,
) -> None:
    with opened(tmp_path):
        pass
    assert below(tmp_path) == []
    not_started = LockedDir.lock(tmp_path, STORAGE)
    assert below(tmp_path) != []
    del not_started
    assert below(tmp_path) == []
    (tmp_path / "checkpoint.1").unlink()
    (tmp_path / "checkpoint.1").mkdir()
    with pytest.raises(ApplianceError, match="cannot be opened as a data directory"):
        LogDir.open(tmp_path, STORAGE)
    assert below(tmp_path) == []


def test_a_new_directory_takes_no_descriptors_with_it(tmp_path: Path) -> None:
    def count() -> int:
        gc.collect()  # what tests before this one left behind is not its
        return len(list(Path("/proc/self/fd").iterdir()))

    def live_once() -> None:
        with opened(tmp_path) as log_dir:
            name = f"n{len(log_dir.logs())}"
            log = log_dir.create(name, 0, log_config())
            for _ in range(3):
                log.append_durable(batch("a"))
                log.roll()
            everything(log)

    live_once()
    before = count()
    for _ in range(5):
        live_once()
    until(lambda: count() <= before)  # a thread of a test before this one may open its own


# What a deleted log may keep

QUIET = StorageConfig(checkpoint_interval_ms=3_600_000, reserve_bytes=0, low_water_bytes=0)


def test_logs_that_are_made_written_and_deleted_leave_no_descriptor(tmp_path: Path) -> None:
    """Their few acknowledged bytes are worth no checkpoint, so none comes by to let go of them."""
    with contextlib.closing(LogDir.open(tmp_path, QUIET)) as log_dir:
        before = kept_open()
        for turn in range(5):
            # `flush.ms` of an hour: also who waits for the clock of it is forgotten.
            for log in log_dir.create_all(f"t{turn}", range(8), log_config(flush_ms=3_600_000)):
                log.append_durable(batch("acknowledged"))
                log.roll()
                log.append(batch("written"))
            del log
            log_dir.delete_all([(f"t{turn}", number) for number in range(8)])
        assert deleted_files(tmp_path) == []
        # An earlier test of this process may still end: what it had goes, and clients' sockets come
        # and go. A log has neither sockets nor pipes.
        until(lambda: not of_logs(kept_open()) - of_logs(before))


def test_whoever_still_knows_a_deleted_log_keeps_none_of_its_files(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config())
        for text in "abc":
            log.append_durable(batch(text))
            log.roll()
        slice_ = log.slice(0)
        log_dir.delete("t", 0)
        # A reader goes on with the file that it holds, and with no other.
        assert len(deleted_files(tmp_path)) == 1
        assert os.pread(slice_.fd, slice_.size, slice_.position)
        del slice_
        assert deleted_files(tmp_path) == []
        with pytest.raises(LogClosed):
            log.read(0)


def of_logs(names: list[str]) -> Counter[str]:
    return Counter(each for each in names if not each.startswith(("socket:", "pipe:")))


def kept_open() -> list[str]:
    """But for pipes: those of a thread that keeps brokers ready for other tests come and go."""
    gc.collect()
    return sorted(each for each in open_files() if not each.startswith("pipe:"))


def below(path: Path) -> list[str]:
    return [each for each in kept_open() if each.startswith(str(path))]


def deleted_files(path: Path) -> list[str]:
    return [each for each in below(path) if each.endswith(".log (deleted)")]


# The report's words


def test_the_report_in_plain_words() -> None:
    report = RecoveryReport(was_clean=False, partitions=3, seconds=1.234)
    report.scanned_bytes, report.cut_bytes, report.aside_bytes = 1_234_567, 89, 1000
    gone = Damage("b", 0, 0, None, "the directory is gone")
    report.losses += [Damage("a", 1, 5, 9, "gone"), gone]
    report.failures.append("c-2: cannot be opened")
    assert report.text().splitlines() == [
        "Opened 3 partitions in 1.23 s after an unclean end (crash, kill or power cut).",
        "Read and checked 1.2 MiB that were not known good.",
        "Cut 89 B of unfinished writes, none acknowledged as durable.",
        "Set 1000 B aside in files named *.corrupt-*.",
        "LOST a-1: offsets 5 to 9: gone.",
        "LOST b-0: offsets from 0 on: the directory is gone.",
        "NOT OPENED c-2: cannot be opened",
    ]
