"""Every kind of damage and its reports: no acknowledged record is lost silently.

The start reports the offsets, the ledger keeps them, readers get an error, `verify` ends with 10,
and no acknowledged offset is assigned again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from appliance._log import Log
from appliance.catalog.catalog import NAME, Catalog
from appliance.catalog.loss_ledger import Damage, Ledger
from appliance.catalog.loss_ledger_rows import LedgerRows
from appliance.cli.offline_log import log as log_command
from appliance.data_dir.locked_dir import LockedDir
from appliance.data_dir.log_dir import LogDir
from appliance.errors import BatchCorrupt, BatchTorn, OffsetInHole, OffsetOutOfRange
from appliance.groups.offsets_topic_replay import replay
from appliance.groups.records import OffsetCommitValue, Partition, offset_record
from appliance.record import _batch, _batch_builder
from tests.support.damaged import END, SETTINGS, Damaged, build
from tests.support.logs import NOW, STORAGE, copied, log_config, opened, produced
from tests.support.watermarks import noted

from .damages import FIELDS, Case, cases

CASES = list(cases())
DAMAGED, WELL = 10, 0


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Damaged:
    path = tmp_path_factory.mktemp("damage") / "data"
    return Damaged(path, build(path))


@contextlib.contextmanager
def started(path: Path) -> Iterator[tuple[LogDir, Ledger]]:
    where = LockedDir.lock(path, STORAGE)
    catalog = Catalog.open(path / NAME)
    ledger = Ledger(LedgerRows(catalog))
    log_dir = LogDir(where, ledger)
    config = log_config(**SETTINGS)
    try:
        log_dir.recover(log_config=lambda topic, partition: config)
        yield log_dir, ledger
    finally:
        log_dir.abandon()
        catalog.close()


def found_at(log: Log, offset: int, wanted: bytes) -> str:
    """The result of a read at this offset."""
    try:
        data = log.read(offset, 1)
        if not data:
            return "end"
        info = _batch.headers(data)[0]
    except OffsetInHole:
        return "hole"
    except OffsetOutOfRange:
        return "out of range"
    except (BatchCorrupt, BatchTorn):
        return "corrupt"
    return "served" if info.base_offset == offset and data == wanted else f"wrong: {info}"


def verified(path: Path) -> int:
    return CliRunner().invoke(log_command, ["verify", str(path)]).exit_code


def check_start(case: Case, damaged: Damaged, log_dir: LogDir, ledger: Ledger) -> None:
    report = log_dir.report
    assert report.failures == []
    lost = sorted((each.first_offset, each.last_offset) for each in report.losses)
    assert lost == sorted(case.lost), report.text()
    assert {each.damage for each in ledger.open()} == {*report.losses, *report.unknown()}
    check_aside(case, report.losses)
    text = report.text()
    assert case.verdict in text
    assert ("No acknowledged record was lost" in text) <= (not case.lost)
    assert [words for words in case.says if words not in text] == []


def check_aside(case: Case, losses: list[Damage]) -> None:
    for each in losses:
        assert (each.kind == "damaged") == bool(each.aside) == case.left, each
        assert not each.aside or Path(each.aside).stat().st_size > 0


def check_readers(case: Case, damaged: Damaged, log: Log) -> None:
    assert (log.log_start_offset, log.log_end_offset) == (case.start, case.end)
    for offset in range(END):
        met = found_at(log, offset, damaged.batches[offset])
        if offset in case.served:
            assert met == "served", (offset, met)
        elif offset < case.start or offset >= case.end:
            assert met in ("out of range", "end"), (offset, met)
        elif offset in case.cold:
            assert met == "corrupt", (offset, met)
        else:
            assert met == "hole", (offset, met)


@pytest.mark.parametrize("case", CASES, ids=[each.name for each in CASES])
def test_damage_is_told_by_the_start_the_ledger_the_readers_and_verify(
    case: Case, killed: Damaged, tmp_path: Path
) -> None:
    damaged = Damaged(copied(killed.path, tmp_path / "data"), killed.batches)
    case.damage(damaged)
    is_damaged = bool(case.lost or case.cold)
    wanted = case.verify if case.verify is not None else (DAMAGED if is_damaged else WELL)
    assert verified(damaged.path) == wanted
    with started(damaged.path) as (log_dir, ledger):
        check_start(case, damaged, log_dir, ledger)
        check_readers(case, damaged, log_dir.log("t", 0))
        told = [each.damage for each in ledger.open()]
    with started(damaged.path) as (log_dir, ledger):
        assert log_dir.report.losses == []
        assert [each.damage for each in ledger.open()] == told
        log = log_dir.log("t", 0)
        check_readers(case, damaged, log)
        data = produced(case.end, timestamp=NOW, pid=9)
        assert log.append_durable(produced(0, timestamp=NOW, pid=9)).base_offset == case.end, data
    # Offsets below the log start are in the ledger, and readers do not request them.
    is_damaged = bool(case.cold) or any(last >= case.start for _, last in case.lost)
    assert verified(damaged.path) == (DAMAGED if is_damaged else WELL)


# Internal topics

OFFSETS_LOG = "__consumer_offsets-0"


def committed(path: Path, groups: str) -> list[tuple[int, int]]:
    """A killed broker's directory with a commit of each group, one per batch; their positions."""
    with opened(path) as log_dir:
        log = log_dir.create("__consumer_offsets", 0)
        spans, at = [], 0
        for group in groups:
            value = OffsetCommitValue(offset=7, metadata="", commit_timestamp=NOW)
            record = offset_record(group, Partition("t", 0), value)
            data = _batch_builder.batch([(NOW, record.key, record.value)])
            log.append_durable(data)
            spans.append((at, at + len(data)))
            at += len(data)
        log_dir.abandon()
    return spans


@pytest.mark.parametrize("byte", FIELDS.values(), ids=[*FIELDS])
@pytest.mark.parametrize("is_killed", [True, False], ids=["behind the point", "before it"])
def test_one_flipped_byte_costs_one_commit_and_names_the_groups(
    is_killed: bool, byte: int, tmp_path: Path
) -> None:
    spans = committed(tmp_path, "abc")
    if not is_killed:
        with opened(tmp_path):
            pass
    segment = tmp_path / OFFSETS_LOG / f"{0:020d}.log"
    data = bytearray(segment.read_bytes())
    data[spans[1][0] + byte] ^= 1
    segment.write_bytes(data)
    with opened(tmp_path) as log_dir:
        found = replay([log_dir.log("__consumer_offsets", 0)])
        assert sorted(found.offsets.groups()) == ["a", "c"]
        assert found.doubtful == {OFFSETS_LOG: ["a", "c"]}
        assert len(log_dir.report.losses) == is_killed
        log_dir.abandon()


# The ledger, before the journal marks a hole as known


class FullUntilReserveGoes(Ledger):
    """A full disk; the reserve is its only free space."""

    def __init__(self, catalog: Catalog, reserve: Path) -> None:
        super().__init__(LedgerRows(catalog))
        self.reserve = reserve

    def _save(self) -> None:
        if not self.reserve.exists():
            super()._save()


def test_on_a_full_disk_the_reserve_is_given_for_what_was_lost(
    killed: Damaged, tmp_path: Path
) -> None:
    damaged = Damaged(copied(killed.path, tmp_path / "data"), killed.batches)
    damaged.remove(18)
    (damaged.path / "reserve").write_bytes(bytes(4096))
    where = LockedDir.lock(damaged.path, STORAGE)
    catalog = Catalog.open(damaged.path / NAME)
    ledger = FullUntilReserveGoes(catalog, damaged.path / "reserve")
    log_dir = LogDir(where, ledger)
    log_dir.recover()
    assert (ledger.unsaved, [each.damage.first_offset for each in ledger.open()]) == (0, [18])
    log_dir.abandon()
    catalog.close()


def test_a_hole_that_the_ledger_forgot_is_told_again(killed: Damaged, tmp_path: Path) -> None:
    damaged = Damaged(copied(killed.path, tmp_path / "data"), killed.batches)
    damaged.remove(18)
    with started(damaged.path):
        pass
    (damaged.path / NAME).unlink()
    with started(damaged.path) as (log_dir, ledger):
        assert log_dir.report.losses == []
        (entry,) = ledger.open()
        assert (entry.damage.first_offset, entry.damage.last_offset) == (18, 20)
        ledger.acknowledge([entry.id], "somebody")
    with started(damaged.path) as (_, ledger):
        assert ledger.open() == []


def test_what_was_promised_of_a_missing_log_outlives_starts_without_it(
    killed: Damaged, tmp_path: Path
) -> None:
    damaged = Damaged(copied(killed.path, tmp_path / "data"), killed.batches)
    folder = damaged.folder.rename(tmp_path / "away")
    for _ in range(2):
        with started(damaged.path) as (log_dir, ledger):
            assert [str(each) for each in log_dir.report.losses] == [
                f"t-0: offsets 0 to {END - 1}: the directory is gone"
            ]
            assert len(ledger.open()) == 1
    folder.rename(damaged.folder)  # the disk was not mounted
    with started(damaged.path) as (log_dir, _):
        assert log_dir.report.losses == []
        assert log_dir.log("t", 0).log_end_offset == END


def test_a_deleted_log_leaves_no_promise_to_one_of_the_same_name(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        for value in ("first", "second"):
            log = log_dir.create("t", 0, log_config())
            for _ in range(3 if value == "first" else 1):
                log.append_durable(_batch_builder.batch([(NOW, b"k", value.encode())]))
            if value == "first":
                log_dir.delete("t", 0)
        log_dir.abandon()
    with opened(tmp_path) as log_dir:
        assert log_dir.report.losses == []
        assert log_dir.log("t", 0).log_end_offset == 1


def test_every_commit_notes_what_is_durable_and_no_more(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config())
        assert noted(tmp_path) == {}
        for count in range(1, 4):
            log.append_durable(_batch_builder.batch([(NOW, b"k", b"v")]))
            assert noted(tmp_path) == {"t-0": count}
        log.append(_batch_builder.batch([(NOW, b"k", b"not durable")]))
        assert noted(tmp_path) == {"t-0": 3}
        log_dir.abandon()
