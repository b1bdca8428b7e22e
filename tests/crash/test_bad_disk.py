"""A disk that dies, refuses writes and loses them, below real file systems: acknowledged records
survive. CRASH_NIGHTLY=1 tries more orders, CRASH_SEED others."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.catalog.catalog import Catalog
from appliance.catalog.loss_ledger import Ledger
from appliance.catalog.loss_ledger_rows import LedgerRows
from appliance.config import LogConfig
from appliance.data_dir.log_dir import LogDir
from appliance.errors import ApplianceError, LogFailed, StorageIoFailed
from appliance.machine.page_cache import read_anew
from appliance.machine.sync_guarantee import PROVEN, SYNCFS, syncs_on
from appliance.record import _batch_builder
from appliance.repair import refused_reads
from appliance.repair.refused_reads import RefusedReads
from appliance.repair.scrub import Scrubber
from appliance.topics.topic_rows import TopicRow, TopicRows
from tests.support.logs import until
from tests.support.release import gate_has

from .bad_disk import KINDS, BadDisk, why_not
from .build import engine_environment
from .harness import NIGHTLY
from .spoiled import CONFIG, MARK, Life, batch, read_ahead, served, storage
from .test_power_cut_states import SEED
from .told import told

LIVES = 40 if NIGHTLY else 2
STEPS = 300 if NIGHTLY else 70
DEATHS = 40 if NIGHTLY else 3
WRITERS = 10
WAYS = [(kind, sync) for kind in KINDS for sync in ("files", "filesystem")
        if sync == "files" or kind in SYNCFS]
# Ends of a file that the kernel reads ahead in one folio with earlier bytes.
IN_LARGE_FOLIOS = (130_000, 192_522, 267_144)
reason = why_not()
pytestmark = [pytest.mark.skipif(bool(reason), reason=reason), pytest.mark.first]


@pytest.fixture
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[BadDisk]:
    with BadDisk(tmp_path, request.param) as made:
        yield made
        gc.collect()


def opened(disk: BadDisk, sync: str = "files") -> LogDir:
    path = disk.root / "data"
    return LogDir.open(path, storage(sync), log_config=lambda *_: CONFIG)


def of_kinds(kinds: Any) -> Any:
    return pytest.mark.parametrize("disk", kinds, indirect=True)


@of_kinds(KINDS)
def test_every_file_system_that_is_called_proven_is_tried_here(disk: BadDisk) -> None:
    found = syncs_on(disk.root)
    assert (found.kind, found.is_proven) == (disk.kind, True)
    assert found.may_syncfs == ((disk.kind, "filesystem") in WAYS)
    assert set(PROVEN) == set(KINDS)


@pytest.mark.parametrize(("disk", "sync"), WAYS, indirect=["disk"])
def test_write_errors_that_pass_take_nothing_acknowledged(disk: BadDisk, sync: str) -> None:
    for turn in range(LIVES):
        life = Life(disk, sync, SEED * 1000 + turn)
        assert life.run(STEPS) == [], f"seed {SEED}, life {turn}: {life.done}"
        assert life.acknowledged > STEPS // 10, "hardly anything was acknowledged: no test"
        subprocess.run(["rm", "-rf", life.path], check=True)


@pytest.mark.parametrize(("disk", "sync"), WAYS, indirect=["disk"])
def test_a_disk_that_dies_takes_nothing_acknowledged(disk: BadDisk, sync: str) -> None:
    chance = random.Random(SEED)
    for turn in range(DEATHS):
        promised = die_under_load(disk, sync, chance.uniform(0.05, 0.4))
        disk.cut_the_power(chance.getrandbits(30))
        log_dir = opened(disk)
        for number, records in enumerate(promised):
            found = served(log_dir.log(f"d{number}", 0))
            assert [each for each in records if each not in found.values()] == [], f"death {turn}"
        log_dir.abandon()
        del log_dir
        gc.collect()
        subprocess.run(["rm", "-rf", disk.root / "data"], check=True)


def die_under_load(disk: BadDisk, sync: str, seconds: float) -> list[list[bytes]]:
    """The records acknowledged to each writer, while the disk died and after."""
    log_dir = opened(disk, sync)
    logs = [log_dir.create(f"d{each}", 0, CONFIG) for each in range(WRITERS)]
    promised: list[list[bytes]] = [[] for _ in logs]

    def write(number: int) -> None:
        try:
            for serial in range(1_000_000):
                value = b"%d:%d:" % (number, serial) + bytes(2000)
                logs[number].append_durable(batch(value))
                promised[number].append(value)
        except ApplianceError:
            return  # expected: the log has failed

    threads = [threading.Thread(target=write, args=(each,)) for each in range(WRITERS)]
    for each in threads:
        each.start()
    until(lambda: all(promised), 60)
    time.sleep(seconds)
    disk.die()
    for each in threads:
        each.join(60)
        assert not each.is_alive(), "a dead disk goes on taking records"
    said = told(log_dir)
    assert len(said) >= WRITERS, f"{WRITERS} logs take nothing any more, and health says {said}"
    log_dir.abandon()
    logs.clear()
    del log_dir
    gc.collect()
    return promised


@of_kinds(KINDS)
@pytest.mark.parametrize(
    "size", gate_has(IN_LARGE_FOLIOS[-1:], "more sizes of the file", IN_LARGE_FOLIOS)
)
def test_what_a_failed_sync_left_in_the_page_cache_is_not_served_after_a_restart(
    disk: BadDisk, size: int
) -> None:
    log_dir = opened(disk)
    log = log_dir.create("t", 0, LogConfig())
    log.append_durable(batch(bytes(size)))
    log_dir.checkpoint()
    read_ahead(disk.root / "data" / "t-0")
    disk.spoil(MARK, 1)
    log.append(batch(MARK))
    with pytest.raises(LogFailed):
        log.await_durable(1)
    disk.heal()
    log_dir.abandon()
    again = opened(disk)
    assert sorted(served(again.log("t", 0))) == [0]
    again.abandon()


@of_kinds(sorted(SYNCFS))
def test_a_failed_sync_of_the_file_system_fails_every_log_with_unsynced_bytes(
    disk: BadDisk,
) -> None:
    """It covered their bytes as well, and the kernel will not report them again."""
    log_dir = opened(disk, "filesystem")
    asked, other, idle = (log_dir.create(f"t{each}", 0, CONFIG) for each in range(3))
    for log in (asked, other, idle):
        log.append_durable(batch(b"kept"))
    disk.spoil(MARK, 1)
    other.append(batch(MARK))
    asked.append(batch(b"beside it"))
    with pytest.raises(LogFailed):
        asked.await_durable(1)
    until(lambda: other.failed == "StorageIoFailed", 10.0)  # the next one after `asked`
    assert idle.failed is None
    with pytest.raises(LogFailed):
        other.append_durable(batch(b"late"))
    # Logs without unsynced bytes continue, file by file.
    assert idle.append_durable(batch(b"more")).base_offset == 1
    log_dir.abandon()


@of_kinds(["btrfs"])
def test_what_rests_can_be_read_when_the_file_system_became_read_only(disk: BadDisk) -> None:
    log_dir = opened(disk)
    kept, other = (log_dir.create(each, 0, CONFIG) for each in ("kept", "other"))
    kept.append_durable(batch(b"kept"))
    kept.roll()
    log_dir.rest(0)
    disk.die()
    with pytest.raises(ApplianceError):
        other.append_durable(batch(b"lost"))
    until(lambda: bool(os.statvfs(disk.root).f_flag & os.ST_RDONLY), 60)
    disk.heal()
    assert served(kept) == {0: b"kept"}
    said = told(log_dir)
    assert any("Unmount and check the file system" in each for each in said), said
    with pytest.raises(ApplianceError):
        kept.append_durable(batch(b"more"))
    log_dir.abandon()


@of_kinds(["ext4"])
def test_a_start_on_a_read_only_file_system_says_what_to_do(disk: BadDisk) -> None:
    opened(disk).close()
    gc.collect()
    subprocess.run(["mount", "-o", "remount,ro", disk.root], check=True)
    for path in (disk.root / "data", disk.root / "new"):
        told = f"{path} is on a read-only file system: .* mount it writable"
        with pytest.raises(StorageIoFailed, match=told):
            LogDir.open(path, storage("files"))
    subprocess.run(["mount", "-o", "remount,rw", disk.root], check=True)
    opened(disk).close()


@of_kinds(KINDS)
def test_a_recovery_point_of_which_the_disk_knows_nothing_is_not_believed(disk: BadDisk) -> None:
    stamp = 1_700_123_456_789
    log_dir = opened(disk)
    log = log_dir.create("t", 0, CONFIG)
    log.append_durable(batch_at(stamp))
    disk.spoil(stamp.to_bytes(8, "big"), 1)
    with pytest.raises(ApplianceError):
        log_dir.checkpoint()
    assert disk.tell()["spoiled"] == 1
    disk.heal()
    log_dir.abandon()
    again = opened(disk)
    assert again.report.scanned_bytes > 0
    assert sorted(served(again.log("t", 0))) == [0]
    again.abandon()


def batch_at(stamp: int) -> bytes:
    return _batch_builder.batch([(stamp, b"k", b"v")])


# Two changes; the second is refused. Then the process dies without closing anything.
CHANGES = """
import os, sys, uuid
from pathlib import Path
from appliance.catalog.catalog import Catalog, CatalogFailed
from appliance.topics.topic_rows import TopicRow, TopicRows
catalog = Catalog.open(Path(sys.argv[1]))
TopicRows(catalog).put(TopicRow("kept", uuid.uuid4(), 1))
print("ready", flush=True)
input()
try:
    TopicRows(catalog).put(TopicRow(sys.argv[2], uuid.uuid4(), 1))
except CatalogFailed:
    print("refused", flush=True)
os._exit(0)
"""


@of_kinds(KINDS)
def test_a_change_of_the_catalog_that_was_refused_is_not_read_back(disk: BadDisk) -> None:
    path = disk.root / "catalog.db"
    name = MARK.decode()
    with subprocess.Popen(
        [sys.executable, "-c", CHANGES, path, name], env=engine_environment(),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        disk.spoil(MARK, 1)
        said, _ = process.communicate("go\n")
    assert said == "refused\n"
    disk.heal()
    catalog = Catalog.open(path)
    assert [topic.name for topic in TopicRows(catalog).all()] == ["kept"]
    TopicRows(catalog).put(TopicRow("later", uuid.uuid4(), 1))
    # After a hole the next power cut would lose it.
    disk.tell(mode="dead")
    catalog.close()
    disk.cut_the_power(SEED)
    catalog = Catalog.open(path)
    assert [topic.name for topic in TopicRows(catalog).all()] == ["kept", "later"]
    catalog.close()


@of_kinds(["ext4"])
def test_a_bad_sector_in_what_nobody_was_promised_keeps_no_log_shut(disk: BadDisk) -> None:
    """A torn batch, and after it whole batches that were never flushed; one is unreadable."""
    wide = LogConfig(segment_bytes=64 << 20, retention_ms=-1)
    log_dir = opened(disk)
    log = log_dir.create("t", 0, wide)
    log.append_durable(batch(b"promised"))
    end = log.append(batch(b"torn")).base_offset
    size = (disk.root / "data/t-0/00000000000000000000.log").stat().st_size
    for each in (b"whole", b"whole", MARK):
        log.append(batch(each + os.urandom(900_000)))
    log_dir.abandon()
    with (disk.root / "data/t-0/00000000000000000000.log").open("r+b") as file:
        file.seek(size - 3)
        file.write(b"???")
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    disk.refuse(MARK)
    log_dir = LogDir.open(disk.root / "data", storage("files"), log_config=lambda *_: wide)
    assert log_dir.report.failures == []
    assert disk.tell()["refused"] > 0, "the bad sector was not met"
    log = log_dir.log("t", 0)
    assert served(log) == {0: b"promised"}
    assert log.append_durable(batch(b"next")).base_offset == end == 1
    log_dir.abandon()


@of_kinds(["ext4"])
@pytest.mark.parametrize("heals", [True, False], ids=["an error that passes", "a bad sector"])
def test_a_read_error_of_a_reader_is_told_and_marked_only_if_it_stays(
    disk: BadDisk, heals: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refused_reads, "AGAIN_S", 0.0)
    log_dir = opened(disk)
    catalog = Catalog.open(disk.root / "data" / "catalog.db")
    log_dir.ledger = Ledger(LedgerRows(catalog))
    log = log_dir.create("t", 0, CONFIG)
    for each in (b"first", MARK + os.urandom(2_000), b"last"):
        log.append_durable(batch(each))
        log.roll()
    log_dir.checkpoint()
    log.rest(0)
    read_anew(Path(log.segments()[1].path))
    refused = RefusedReads(log_dir, Scrubber(log_dir))
    disk.refuse(MARK)
    with pytest.raises(StorageIoFailed):
        log.read(1, 1)
    (text,) = refused.texts()
    assert "EIO" in text
    refused.look()
    (entry,) = log_dir.ledger.open()
    assert (entry.damage.first_offset, entry.damage.last_offset) == (1, 1)
    assert "the disk refused" in entry.damage.cause
    assert log.holes() == [], "an error that may pass"
    assert "EIO" in refused.texts()[0]
    if heals:
        disk.heal()
    refused.look()
    assert [each.damage for each in log_dir.ledger.open()] == [entry.damage]
    assert log.holes() == ([] if heals else [(1, 2)])
    if heals:
        assert served(log).keys() == {0, 1, 2}
        assert "verified since, and whole" in refused.texts()[0]
    catalog.close()
    log_dir.abandon()


@of_kinds(["ext4"])
def test_a_bad_sector_in_what_was_promised_keeps_the_log_shut_until_it_can_be_read(
    disk: BadDisk,
) -> None:
    """Why: docs/decisions/unreadable-at-start.md."""
    log_dir = opened(disk)
    log = log_dir.create("t", 0, CONFIG)
    for each in (b"first", MARK + os.urandom(2_000), b"last"):
        log.append_durable(batch(each))
    expected = served(log)
    log_dir.abandon()
    disk.refuse(MARK)
    log_dir = opened(disk)
    why = log_dir.unopened["t", 0]
    assert "read 00000000000000000000.log: EIO" in why
    with pytest.raises(StorageIoFailed):
        log_dir.reopen("t", 0, CONFIG)
    assert "EIO" in log_dir.unopened["t", 0]
    disk.heal()
    log = log_dir.reopen("t", 0, CONFIG)
    assert served(log) == expected
    assert log.holes() == []
    assert log_dir.report.losses == []
    assert log_dir.unopened == {}
    log_dir.abandon()
