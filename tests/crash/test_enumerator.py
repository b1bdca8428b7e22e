"""The recorder and the enumerator, tested with a toy log before they judge the engine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import toy
from .build import TESTS, engine_environment, recorded
from .states import Enumerator, Materialiser
from .trace import History, build_history, read_entries

SEED = 7


def record(tmp_path: Path, script: list[str], **more: str) -> tuple[Path, Path]:
    root, trace = tmp_path / "root", tmp_path / "trace"
    root.mkdir()
    command = [sys.executable, *script]
    subprocess.run(
        command,
        env=recorded(trace, root, engine_environment(), CRASH_SKIP_SYNC="1", **more),
        check=True,
        cwd=TESTS,
    )
    return root, trace


def toy_history(tmp_path: Path, mistake: str) -> tuple[Path, History]:
    root = tmp_path / "root"
    _, trace = record(tmp_path, ["-m", "crash.toy", str(root), mistake])
    return root, build_history(read_entries(trace), root)


def lost_records(tmp_path: Path, history: History, *, strict: bool) -> Iterator[str]:
    enumerator = Enumerator(history, SEED, strict=strict)
    place = tmp_path / "state"
    place.mkdir()
    materialiser = Materialiser(place, enumerator.contents)
    for state in enumerator.find(every_cut=True):
        materialiser.lay(state)
        found = toy.read(place)
        for cut in state.cuts:
            acked = [note.facts["durable"] for note in history.notes if note.at < cut]
            if not set(acked) <= set(found):
                yield f"seed {SEED} cut {cut}: {state.label}: {max(acked)} acked, {found} found"


def test_the_toy_without_mistakes_loses_nothing(tmp_path: Path) -> None:
    root, history = toy_history(tmp_path, "none")
    assert history.differences(root) == []
    assert list(lost_records(tmp_path, history, strict=True)) == []


def test_an_ack_before_the_sync_is_caught(tmp_path: Path) -> None:
    _, history = toy_history(tmp_path, "ack before sync")
    assert next(lost_records(tmp_path, history, strict=False), None)


def test_a_missing_directory_sync_is_caught_in_strict_mode_only(tmp_path: Path) -> None:
    _, history = toy_history(tmp_path, "no directory sync")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert next(lost_records(tmp_path / "a", history, strict=True), None)
    assert next(lost_records(tmp_path / "b", history, strict=False), None) is None


EVERY_CALL = """
import os, sys
from pathlib import Path
root = Path(sys.argv[1])
(root / "d").mkdir()
at = os.open(root / "d", os.O_RDONLY)
fd = os.open("f", os.O_CREAT | os.O_RDWR, dir_fd=at)
os.write(fd, b"abc")
os.writev(fd, [b"de", b"fg"])
os.pwrite(fd, b"X", 1)
os.pwritev(fd, [b"Y", b"Z"], 2)
os.posix_fallocate(fd, 0, 100)
os.ftruncate(fd, 50)
other = os.dup(fd)
os.close(fd)
os.write(other, b"tail")
os.rename("f", "g", src_dir_fd=at, dst_dir_fd=at)
os.write(other, b"after the rename")
os.fdatasync(other)
os.link(root / "d" / "g", root / "linked")
with open(root / "python", "wb") as file:
    file.write(b"buffered" * 5000)
os.truncate(root / "python", 12345)
(root / "gone").write_bytes(b"1")
os.unlink(root / "gone")
(root / "gone").write_bytes(b"22")
(root / "e").mkdir()
os.rename(root / "e", root / "moved")
(root / "moved" / "inner").write_bytes(b"3")
(root / "empty").mkdir()
os.rmdir(root / "empty")
"""


def test_the_model_ends_where_the_real_directory_ends(tmp_path: Path) -> None:
    root, trace = record(tmp_path, ["-c", EVERY_CALL, str(tmp_path / "root")])
    history = build_history(read_entries(trace), root)
    assert history.differences(root) == []
    assert (root / "d" / "g").read_bytes()[11:27] == b"after the rename"


def test_a_sync_guarantees_nothing_until_it_has_ended(tmp_path: Path) -> None:
    _, history = toy_history(tmp_path, "none")
    enumerator = Enumerator(history, SEED)
    first = next(sync for sync in history.syncs if sync.inode in history.images)
    assert first.inode is not None
    before, after = (enumerator.variants(first.inode, first.end + later) for later in (0, 1))
    assert enumerator.contents[before.all[0][2]] == (b"", 0)
    assert [label for _, label, _ in after.all] == ["none"]
    assert after.whole == before.whole


def test_a_call_that_the_model_cannot_follow_is_refused(tmp_path: Path) -> None:
    script = """
import mmap, os, sys
fd = os.open(sys.argv[1] + "/mapped", os.O_CREAT | os.O_RDWR)
os.ftruncate(fd, 4096)
mmap.mmap(fd, 4096)
"""
    root, trace = record(tmp_path, ["-c", script, str(tmp_path / "root")])
    with pytest.raises(ValueError, match="cannot follow"):
        build_history(read_entries(trace), root)


FAILING = """
import errno, os, sys
from crash.trace import Recorder
recorder, path = Recorder(), sys.argv[1] + "/f"
fd = os.open(path, os.O_CREAT | os.O_RDWR)
os.pwrite(fd, b"safe", 0)
os.fsync(fd)
os.pwrite(fd, b"lost", 0)
recorder.fail("fsync", 1, errno.EIO)
try:
    os.fsync(fd)
    sys.exit("the sync did not fail")
except OSError as error:
    assert error.errno == errno.EIO and recorder.fired() == 1
assert os.pread(fd, 4, 0) == b"lost"
os.fsync(fd)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
assert os.pread(fd, 4, 0) == b"safe"
recorder.fail("pwrite", 1, 0, is_short=True)
assert os.pwrite(fd, b"half", 4) == 2
recorder.kill_at(2)
os.pwrite(fd, b"1", 10)
os.pwrite(fd, b"2", 11)
sys.exit("the kill did not come")
"""


def test_faults_short_writes_and_the_kill_happen_where_they_were_asked_for(tmp_path: Path) -> None:
    root, trace = tmp_path / "root", tmp_path / "trace"
    root.mkdir()
    environment = recorded(trace, root, engine_environment(), CRASH_CACHE="1", CRASH_SKIP_SYNC="1")
    done = subprocess.run(
        [sys.executable, "-c", FAILING, str(root)], env=environment, check=False, cwd=TESTS
    )
    assert done.returncode == -9
    assert (root / "f").read_bytes() == b"safeha" + bytes(4) + b"1"
    history = build_history(read_entries(trace), root)
    enumerator = Enumerator(history, SEED)
    lost = next(op for ops in history.data_ops.values() for op in ops if op.data == b"lost")
    assert lost.safe_at > 1 << 60, "a later good sync must not make safe what a failed one covered"
    assert enumerator.cuts()


def test_a_state_is_laid_out_over_another_without_leftovers(tmp_path: Path) -> None:
    _, history = toy_history(tmp_path, "none")
    enumerator = Enumerator(history, SEED)
    place = tmp_path / "state"
    place.mkdir()
    materialiser = Materialiser(place, enumerator.contents)
    for state in enumerator.find(states_max=50):
        materialiser.lay(state)
        laid = {
            str(path.relative_to(place)): path.read_bytes()
            for path in place.rglob("*")
            if path.is_file()
        }
        wanted = {path: enumerator.contents[content] for path, content in state.files.items()}
        assert laid == {
            path: data + bytes(size - len(data)) for path, (data, size) in wanted.items()
        }
        for path in list(place.iterdir())[:1]:
            os.truncate(path, 1)  # a legal recovery


def test_a_sample_has_states_of_every_kind(tmp_path: Path) -> None:
    """Even if a quarter has only one state of a kind: a random choice would miss some."""
    _, history = toy_history(tmp_path, "none")
    enumerator = Enumerator(history, SEED)
    kinds = {(state.rank, state.kind) for state in enumerator.find()}
    most = max(Counter(rank for rank, _ in kinds).values())
    sample = enumerator.find(states_max=4 * most)
    assert len(sample) < enumerator.distinct / 2
    assert {(state.rank, state.kind) for state in sample} == kinds
