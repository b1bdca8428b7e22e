"""Recovery of a directory: names that are not what they seem, and logs that are gone."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.data_dir.log_dir import LogDir
from appliance.data_dir.partition_creation import LogExists
from appliance.errors import LogClosed
from tests.support.damaged import END, POINT, SETTINGS, Damaged, served
from tests.support.logs import STORAGE, batch, everything, log_config, opened, values


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_link(path: Path) -> None:
    path.symlink_to(path.with_name(f"{0:020d}.log"))


@pytest.mark.parametrize("make", [make_pipe, make_link, Path.mkdir])
@pytest.mark.parametrize("base", [3, 40])
def test_a_segment_that_is_no_plain_file_is_left_alone(
    base: int, make: Callable[[Path], object], damaged: Damaged
) -> None:
    make(damaged.segment(base))
    with OpenedInTime(damaged, damaged.segment(base)) as log_dir:
        assert log_dir.report.failures == []
        assert served(log_dir.log("t", 0), damaged) == list(range(END))
        log_dir.close()
    assert os.path.lexists(damaged.segment(base))


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex", ".snapshot"])
def test_a_pipe_in_the_place_of_a_derived_file_does_not_stop_the_start(
    suffix: str, damaged: Damaged
) -> None:
    path = damaged.segment(12, suffix)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    with OpenedInTime(damaged, path) as log_dir:
        assert log_dir.report.failures == []
        assert served(log_dir.log("t", 0), damaged) == list(range(END))
        log_dir.close()


class OpenedInTime:
    """Opens on a thread; one that hangs on a pipe is let go by opening the pipe's other end."""

    def __init__(self, damaged: Damaged, pipe: Path) -> None:
        self.path, self.pipe = damaged.path, pipe
        self.found: list[LogDir] = []
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        config = log_config(**SETTINGS)
        self.found.append(LogDir.open(self.path, STORAGE, log_config=lambda t, p: config))

    def __enter__(self) -> LogDir:
        self.thread.start()
        self.thread.join(20)
        hung = self.thread.is_alive()
        while self.thread.is_alive():
            os.close(os.open(self.pipe, os.O_RDWR))
            self.thread.join(0.1)
        assert not hung, f"{self.pipe.name} is a pipe, and opening it waits for ever"
        return self.found[0]

    def __exit__(self, *error: object) -> None:
        self.found[0].abandon()


def test_two_brokers_cannot_have_one_directory(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(LogClosed, match=f"{tmp_path} is in use"):
        LogDir.open(tmp_path, STORAGE)
    with opened(tmp_path):
        pass


def test_a_log_whose_directory_is_gone_is_lost_and_goes_on_where_it_ended(
    damaged: Damaged,
) -> None:
    shutil.rmtree(damaged.folder)
    for _ in range(2):  # it is missing until somebody makes it anew
        with opened(damaged.path) as log_dir:
            (loss,) = log_dir.report.losses
            assert (loss.topic, loss.partition, loss.first_offset, loss.last_offset) == (
                "t", 0, 0, END - 1,
            )  # fmt: skip
            told = f"LOST t-0: offsets 0 to {END - 1}: the directory is gone."
            assert told in log_dir.report.text()
            assert log_dir.logs() == {}
            log_dir.abandon()
    with opened(damaged.path) as log_dir:
        log = log_dir.create("t", 0)
        assert (log.log_start_offset, log.log_end_offset) == (END, END)
        assert log.append_durable(batch("a")).base_offset == END
    with opened(damaged.path) as log_dir:
        assert log_dir.report.losses == []


def test_orphans_of_former_logs_hide_no_lost_one(damaged: Damaged) -> None:
    for name in ("t-0", "t-0.1", "t-00", "t-01.unsettled"):
        (damaged.path / "orphans" / name).mkdir(parents=True)
    shutil.rmtree(damaged.folder)
    with opened(damaged.path) as log_dir:
        (loss,) = log_dir.report.losses
        assert (loss.first_offset, loss.last_offset) == (0, END - 1)


def test_a_deleted_log_that_cannot_be_removed_hides_no_later_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the next log of its name; it goes when it can be removed."""
    right, grave = shutil.rmtree, tmp_path / "deleted"

    def rmtree(path: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    monkeypatch.setattr(shutil, "rmtree", rmtree)
    with opened(tmp_path) as log_dir:
        for _ in range(2):
            log_dir.create("t", 0)
            log_dir.delete("t", 0)
        log_dir.create("t", 0).append_durable(batch("a", "b"))
    assert len([*grave.iterdir()]) == 2
    right(tmp_path / "t-0")
    with opened(tmp_path) as log_dir:
        (loss,) = log_dir.report.losses
        assert (loss.first_offset, loss.last_offset) == (0, 1)
    monkeypatch.setattr(shutil, "rmtree", right)
    with opened(tmp_path):
        assert [*grave.iterdir()] == []


@pytest.mark.parametrize("name", ["t-0", "t-0.2"])
def test_one_on_its_way_to_the_orphans_is_not_lost(damaged: Damaged, name: str) -> None:
    """A crash came between its move and the journal."""
    orphans = damaged.path / "orphans"
    orphans.mkdir(exist_ok=True)
    damaged.folder.rename(orphans / f"{name}.unsettled")
    with opened(damaged.path) as log_dir:
        assert log_dir.report.losses == []
        assert [each.name for each in orphans.iterdir()] == [name]
        assert log_dir.create("t", 0).log_end_offset == 0


def test_a_directory_without_records_that_is_gone_is_an_interrupted_creation(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as log_dir:
        log_dir.create("t", 0)
        log_dir.abandon()
    shutil.rmtree(tmp_path / "t-0")
    with opened(tmp_path) as log_dir:
        assert (log_dir.report.losses, log_dir.missing) == ([], {})
        assert log_dir.create("t", 0).log_end_offset == 0


def test_other_names_in_the_directory_are_left_alone(damaged: Damaged) -> None:
    names = ["notes", "t-00", "t-", "-0", "t-1.bak", "lost+found", "a b-0", "t-123456"]
    for name in names:
        (damaged.path / name).mkdir()
        (damaged.path / name / f"{0:020d}.log").write_bytes(b"not ours")
    (damaged.path / "file-0").write_bytes(b"a file")
    (damaged.path / "link-0").symlink_to(damaged.folder)
    with opened(damaged.path) as log_dir:
        assert list(log_dir.logs()) == [("t", 0)]
    left = [(damaged.path / name / f"{0:020d}.log").read_bytes() for name in names]
    assert left == [b"not ours"] * len(names)


def test_one_bad_log_does_not_stop_the_others(damaged: Damaged) -> None:
    with opened(damaged.path, **SETTINGS) as log_dir:
        log_dir.create("good", 0).append_durable(batch("a"))
    shutil.rmtree(damaged.folder)
    damaged.folder.mkdir()
    damaged.segment(POINT).mkdir()
    damaged.segment(END).mkdir()
    with opened(damaged.path) as log_dir:
        assert values(everything(log_dir.log("good", 0))) == ["a"]
        (failure,) = log_dir.report.failures
        assert failure.startswith("t-0: ")
        assert f"NOT OPENED {failure}" in log_dir.report.text()
        with pytest.raises(LogExists, match="exists but is not open"):
            log_dir.create("t", 0)
