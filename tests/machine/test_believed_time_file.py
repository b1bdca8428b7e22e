"""What is believed of the time survives a restart, and everything in a log goes by it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from appliance.cli.main import main
from appliance.data_dir.log_dir import LogDir
from appliance.errors import BatchTimestampInvalid
from appliance.machine.believed_time import Remembered, WallClock, wall_now_ms
from appliance.machine.believed_time_file import NAME, SLOT_SIZE, BelievedClock, boot_id, load
from appliance.record import _batch
from appliance.testing import RunningBroker, running_broker
from tests.support.logs import DAY_MS, batch, one_log, opened, produced
from tests.support.rest import Rest

YEAR_MS = 365 * DAY_MS
HOUR_MS = 3_600_000
WEEK = {"retention_ms": 7 * DAY_MS}


def keep(directory: Path, believed_ms: int, boot: str = "another boot") -> BelievedClock:
    """As a broker does that believed this."""
    directory.mkdir(exist_ok=True)
    kept = BelievedClock(directory, WallClock(lambda: believed_ms, lambda: 5_000, boot_id=boot))
    kept.keep()
    return kept


# The file


def test_what_was_believed_is_there_after_a_restart(tmp_path: Path) -> None:
    assert load(tmp_path) is None
    keep(tmp_path, 1_700_000_000_000, "some boot")
    assert load(tmp_path) == Remembered(1_700_000_000_000, 5_000, "some boot")


def test_it_is_written_once_a_minute_and_when_asked(tmp_path: Path) -> None:
    steady = [0]
    kept = BelievedClock(tmp_path, WallClock(lambda: steady[0], lambda: steady[0]))
    seen = []
    for each in (0, 59_999, 60_000, 119_999):
        steady[0] = each
        kept.keep()
        found = load(tmp_path)
        assert found is not None
        seen.append(found.believed_ms)
    assert seen == [0, 0, 60_000, 60_000]
    kept.keep(at_once=True)
    assert load(tmp_path) == Remembered(119_999, 119_999, "")


@pytest.mark.parametrize("slot", [0, 1])
@pytest.mark.parametrize("at", [0, 8, 20, 30, 60, 70])
def test_a_torn_slot_leaves_the_one_before(tmp_path: Path, slot: int, at: int) -> None:
    for believed in (1_000, 2_000, 3_000)[: 2 + slot]:
        keep(tmp_path, believed)
    data = bytearray((tmp_path / NAME).read_bytes())
    newest = (2 + slot) % 2
    data[newest * SLOT_SIZE + at] ^= 0x40
    (tmp_path / NAME).write_bytes(data)
    found = load(tmp_path)
    assert found is not None
    assert found.believed_ms == 1_000 * (1 + slot)
    keep(tmp_path, 9_000)  # in the place of the torn one
    assert load(tmp_path) == Remembered(9_000, 5_000, "another boot")


@pytest.mark.parametrize("data", [b"", b"rubbish", bytes(2 * SLOT_SIZE)], ids=repr)
def test_without_a_readable_file_the_journal_says_when_somebody_wrote(
    tmp_path: Path, data: bytes
) -> None:
    (tmp_path / NAME).write_bytes(data)
    assert load(tmp_path) is None
    for name, second in (("checkpoint.0", 50), ("checkpoint.1", 70)):
        (tmp_path / name).write_bytes(b"x")
        os.utime(tmp_path / name, (second, second))
    assert load(tmp_path) == Remembered(70_000, 0, "")


def test_a_file_that_cannot_be_written_is_told_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keep(tmp_path / "gone", 1)
    kept = BelievedClock(tmp_path / "gone", WallClock())
    shutil.rmtree(tmp_path / "gone")
    for _ in range(3):
        kept.keep(at_once=True)
    assert caplog.text.count("the believed time cannot be stored") == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    image, place = tmp_path / "image", tmp_path / "mount"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(8 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)


def fill(file: Path) -> None:
    with file.open("wb", buffering=0) as it:
        while True:
            it.write(bytes(4096))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_a_full_disk_does_not_stop_it(small_disk: Path) -> None:
    keep(small_disk, 1_000)
    with pytest.raises(OSError, match="No space left"):
        fill(small_disk / "neighbour")
    assert os.statvfs(small_disk).f_bavail == 0
    keep(small_disk, 2_000)
    assert load(small_disk) == Remembered(2_000, 5_000, "another boot")


# Logs go by it


def ahead(path: Path, by_ms: int) -> None:
    """The machine's clock is so far ahead of what was believed, or behind."""
    keep(path, wall_now_ms() - by_ms)


@pytest.mark.parametrize("by_ms", [HOUR_MS, 8 * DAY_MS, 10 * YEAR_MS, -10 * YEAR_MS])
def test_retention_deletes_nothing_by_a_clock_in_doubt(tmp_path: Path, by_ms: int) -> None:
    with one_log(tmp_path, **WEEK) as log:
        for _ in range(3):
            log.append_durable(batch("a", timestamp=wall_now_ms() - by_ms))
            log.roll()
    ahead(tmp_path, by_ms)
    with opened(tmp_path, **WEEK) as log_dir:
        assert log_dir.retain() == 0
        assert log_dir.log("t", 0).retain() == 0  # also where nobody says what time it is
        log_dir.compact()


def test_it_deletes_once_the_clock_is_confirmed(tmp_path: Path) -> None:
    with one_log(tmp_path, **WEEK) as log:
        log.append_durable(batch("a", timestamp=wall_now_ms() - 8 * DAY_MS))
        log.roll()
        log.append_durable(batch("b", timestamp=wall_now_ms()))
    ahead(tmp_path, 8 * DAY_MS)
    with opened(tmp_path, **WEEK) as log_dir:
        assert log_dir.retain() == 0
        ended = log_dir.confirm_clock()
        assert ended is not None
        assert ended.way == "ahead"
        assert log_dir.retain() == 1
    with opened(tmp_path) as log_dir:
        assert log_dir.clock.doubt() is None


@pytest.mark.parametrize("by_ms", [8 * DAY_MS, 10 * YEAR_MS, -8 * DAY_MS, -10 * YEAR_MS])
def test_no_producer_is_refused_while_either_clock_says_that_it_is_right(
    tmp_path: Path, by_ms: int
) -> None:
    limits = {"message_timestamp_after_max_ms": HOUR_MS, "message_timestamp_before_max_ms": HOUR_MS}
    ahead(tmp_path, by_ms)
    with one_log(tmp_path, **limits) as log:
        now_ms = wall_now_ms()
        for timestamp in (now_ms, now_ms - by_ms):
            log.append(batch("a", timestamp=timestamp))
        for timestamp in (
            min(now_ms, now_ms - by_ms) - 2 * HOUR_MS, max(now_ms, now_ms - by_ms) + 2 * HOUR_MS
        ):  # fmt: skip
            with pytest.raises(BatchTimestampInvalid):
                log.append(batch("a", timestamp=timestamp))
        assert log.log_end_offset == 2


@pytest.mark.parametrize("by_ms", [8 * DAY_MS, -10 * YEAR_MS])
def test_our_own_stamps_are_never_older_than_they_may_be(tmp_path: Path, by_ms: int) -> None:
    """By the earlier time they would be deleted as soon as the later one is believed."""
    ahead(tmp_path, by_ms)
    with one_log(tmp_path, message_timestamp_type="LogAppendTime") as log:
        log.append(batch("a", timestamp=5))
        (found,) = _batch.records(log.read(0, up_to="end"))
        assert abs(found.timestamp - wall_now_ms() - max(0, -by_ms)) < 60_000


@pytest.mark.parametrize("by_ms", [8 * DAY_MS, 10 * YEAR_MS, -10 * YEAR_MS])
def test_a_producer_is_not_forgotten_by_a_clock_in_doubt(tmp_path: Path, by_ms: int) -> None:
    a_day = {"producer_id_expiration_ms": DAY_MS}
    ahead(tmp_path, by_ms)
    with one_log(tmp_path, **a_day) as log:
        log.append_durable(produced(0), now_ms=wall_now_ms() - by_ms)
    ahead(tmp_path, by_ms)
    with opened(tmp_path, **a_day) as log_dir:
        log = log_dir.log("t", 0)
        log.append_durable(batch("b"))
        log_dir.checkpoint()
        assert len(log.producers()) == 1


def test_a_kill_in_a_doubt_forgets_neither_the_belief_nor_the_doubt(tmp_path: Path) -> None:
    ahead(tmp_path, 10 * YEAR_MS)
    for _ in range(3):
        log_dir = LogDir.open(tmp_path)
        log_dir.watch_clock()
        doubt = log_dir.clock.doubt()
        log_dir.abandon()
        assert doubt is not None
        assert abs(doubt.by_ms - 10 * YEAR_MS) < 60_000
    found = load(tmp_path)
    assert found is not None
    assert found.boot_id == boot_id()
    assert abs(found.believed_ms - (time.time() * 1000 - 10 * YEAR_MS)) < 60_000


def test_a_first_start_after_an_upgrade_is_guarded_and_so_is_the_next(tmp_path: Path) -> None:
    """The directory has no such file yet; the broker is killed before its first second is over."""
    with one_log(tmp_path, **WEEK) as log:
        log.append_durable(batch("a", timestamp=wall_now_ms() - 8 * DAY_MS))
        log.roll()
    (tmp_path / NAME).unlink()
    then = time.time() - 8 * DAY_MS / 1000
    for each in ("checkpoint.0", "checkpoint.1"):
        os.utime(tmp_path / each, (then, then))
    for _ in range(2):
        log_dir = LogDir.open(tmp_path)
        doubt, deleted = log_dir.clock.doubt(), log_dir.retain()
        log_dir.abandon()
        assert doubt is not None
        assert (doubt.way, deleted) == ("ahead", 0)


# People hear of it


@pytest.mark.parametrize(
    ("by_ms", "words"),
    [(8 * DAY_MS, "8.0 d later than was believed"), (-10 * YEAR_MS, "before what was believed")],
    ids=["ahead", "behind"],
)
def test_a_doubt_is_told_until_somebody_confirms(tmp_path: Path, by_ms: int, words: str) -> None:
    ahead(tmp_path, by_ms)
    with running_broker(tmp_path) as broker:
        rest = Rest(broker.admin)
        (found,) = rest.get("/health")["findings"]
        assert (found["level"], found["area"]) == ("degraded", "clock")
        assert words in found["text"]
        assert abs(doubt_seconds(broker) - by_ms / 1000) < 60
        assert words in appliance(broker, "clock", "show")
        assert "nothing was done" in appliance(broker, "clock", "confirm", answer="n\n", code=1)
        assert rest.get("/clock")["doubt"] is not None
        assert "is believed: it is 20" in appliance(broker, "clock", "confirm", "--yes")
        assert rest.get("/health")["findings"] == []
        assert doubt_seconds(broker) == 0
        assert rest.get("/audit")["entries"][0]["action"] == "POST /api/v1/clock/confirm"


def doubt_seconds(broker: RunningBroker) -> float:
    page = Rest(broker.admin).raw("GET", "/metrics").body
    text = page.decode() if isinstance(page, bytes) else str(page)
    found = re.search(r"^appliance_clock_doubt_seconds (\S+)$", text, re.MULTILINE)
    assert found
    return float(found[1])


def appliance(broker: RunningBroker, *line: str, answer: str = "", code: int = 0) -> str:
    done = CliRunner().invoke(main, [*line, "--admin", broker.admin], input=answer)
    assert done.exit_code == code, done.output
    return done.output
