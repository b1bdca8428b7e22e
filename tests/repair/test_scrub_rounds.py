"""Rounds of the scrub: at which rate, when the next is due, where it goes on after a restart, who
is told; and the command and the metrics of a running broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from appliance.broker.broker import Broker
from appliance.broker.health import of_scrub
from appliance.catalog.loss_ledger import Damage
from appliance.cli.main import main
from appliance.cli.remote.scrub import put_round
from appliance.data_dir.log_dir import LogDir, LogUnknown
from appliance.errors import ApplianceError
from appliance.repair._scrub import SegmentScan
from appliance.repair.scrub import NAME, Scrubber
from appliance.testing import RunningBroker, running_broker
from tests.support.logs import STORAGE, batch, files_limited_to, log_config, until
from tests.support.rest import Rest
from tests.support.several_dirs import live

WEEK_MS = 7 * 86_400_000
RATE = 1 << 20


class Heard:
    """Stands where the ledger is."""

    def __init__(self) -> None:
        self.damages: list[Damage] = []
        self.is_full = False

    def note(self, damages: Any) -> bool:
        self.damages += damages
        return not self.is_full

    def save(self) -> bool:
        return not self.is_full


class Clock:
    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.ms


@contextmanager
def two_logs(path: Path, **storage: Any) -> Iterator[LogDir]:
    """Each of three segments: half a megabyte, half a megabyte, and next to nothing."""
    config = replace(STORAGE, scrub_bytes_per_second=RATE, **storage)
    log_dir = LogDir.open(path, config)
    for topic in ("a", "b"):
        if (topic, 0) in log_dir.logs():
            continue
        log = log_dir.create(topic, 0, log_config())
        for _ in range(2):
            log.append(batch(bytes(1 << 19)))
            log.roll()
        log.append(batch("active"))
        log.flush()
    log_dir.ledger = Heard()
    try:
        yield log_dir
    finally:
        log_dir.close()


def flip(log_dir: LogDir, topic: str, base: int) -> None:
    path = log_dir.path / f"{topic}-0" / f"{base:020d}.log"
    data = bytearray(path.read_bytes())
    data[65] ^= 1
    path.write_bytes(data)


def heard(log_dir: LogDir) -> list[tuple[str, int, int | None, str]]:
    assert isinstance(log_dir.ledger, Heard)
    found = log_dir.ledger.damages
    return [(each.topic, each.first_offset, each.last_offset, each.kind) for each in found]


def test_a_turn_reads_what_the_rate_allows_and_a_round_ends_once(tmp_path: Path) -> None:
    clock = Clock()
    with two_logs(tmp_path) as log_dir:
        scrubber = Scrubber(log_dir, clock)
        read = []
        while scrubber.last is None:
            before = scrubber.checked_bytes
            assert scrubber.turn() == 0
            read.append(scrubber.checked_bytes - before)
            assert len(read) < 10
        assert max(read) <= 2 * RATE
        assert len(read) >= 2
        assert scrubber.last.is_whole
        assert (scrubber.last.segments, scrubber.last.damages) == (6, 0)
        assert scrubber.last.bytes == sum(log.size for log in log_dir.logs().values())
        checked = scrubber.checked_bytes
        clock.ms += WEEK_MS - 1
        assert scrubber.turn() == 0
        assert scrubber.checked_bytes == checked
        clock.ms += 1
        scrubber.turn()
        assert scrubber.checked_bytes > checked
        scrubber.close()


def test_a_segment_that_cannot_be_verified_is_told_until_it_can(tmp_path: Path) -> None:
    with two_logs(tmp_path) as log_dir:
        scrubber = Scrubber(log_dir)
        base = log_dir.log("a", 0).segments()[0].base_offset
        path = tmp_path / "a-0" / f"{base:020d}.log"
        log_dir.checkpoint()
        log_dir.log("a", 0).rest(0)
        path.rename(tmp_path / "away")
        path.mkdir()
        own = scrubber.start([])
        until(lambda: not scrubber.is_running)
        assert own.has_failed
        assert len(scrubber.failed()) == 1
        broker: Any = SimpleNamespace(scrubber=scrubber)
        assert [each.level for each in of_scrub(broker)] == ["degraded"]
        path.rmdir()
        (tmp_path / "away").rename(path)
        own = scrubber.start([])
        until(lambda: not scrubber.is_running)
        assert not own.has_failed
        assert list(of_scrub(broker)) == []
        scrubber.close()


def test_a_segment_that_cannot_be_verified_is_told_after_a_restart_until_it_can(
    tmp_path: Path,
) -> None:
    with two_logs(tmp_path) as log_dir:
        log_dir.checkpoint()
        log_dir.log("a", 0).rest(0)
        path = tmp_path / "a-0" / f"{1:020d}.log"
        path.rename(tmp_path / "away")
        path.mkdir()
        scrubber = Scrubber(log_dir)
        scrubber.start(["a"])
        until(lambda: not scrubber.is_running)
        told = scrubber.failed()
        assert len(told) == 1
        again = Scrubber(log_dir)  # as after a kill
        assert again.failed() == told
        broker: Any = SimpleNamespace(scrubber=again)
        assert [each.level for each in of_scrub(broker)] == ["degraded"]
        path.rmdir()
        (tmp_path / "away").rename(path)
        again.verify(("a", 0, 1), marks_refused=False)
        assert again.failed() == []
        again.close()
        assert Scrubber(log_dir).failed() == []
        scrubber.close()


def test_a_round_forgets_what_could_not_be_verified_before_a_restart_and_is_gone(
    tmp_path: Path,
) -> None:
    with two_logs(tmp_path) as log_dir:
        scrubber = Scrubber(log_dir, Clock())
        scrubber.close()
        stored = json.loads((tmp_path / NAME).read_text())
        stored["failed"] = [[["a", 0, 77], stored["since_ms"] - 1, "it had bad sectors"]]
        (tmp_path / NAME).write_text(json.dumps(stored))
        again = Scrubber(log_dir, Clock())
        assert again.failed() == ["it had bad sectors"]
        while again.last is None:
            again.turn()
        assert again.failed() == []
        again.close()


# Segments that are skipped


def fail_journal(log_dir: LogDir) -> None:
    """Recovery points cannot be saved until it is opened again, as on a disk that fails."""
    log = next(iter(log_dir.logs().values()))
    log.append(batch("more"))
    log.flush()
    with files_limited_to(64), pytest.raises(ApplianceError):
        log_dir.checkpoint()
    assert log_dir.journal_failed


def test_a_round_waits_while_the_disk_fails_and_goes_on_behind_it(tmp_path: Path) -> None:
    with two_logs(tmp_path) as log_dir:
        scrubber = Scrubber(log_dir)
        scrubber.turn()
        fail_journal(log_dir)
        scrubber.turn()  # the segment that is begun
        assert scrubber.round is not None
        before = scrubber.round.segments
        assert 0 < before < 6
        for _ in range(10):
            assert scrubber.turn() == 0
        assert scrubber.round is not None
        assert (scrubber.round.segments, scrubber.round.skipped) == (before, 0)
        scrubber.close()
    with two_logs(tmp_path) as log_dir:
        scrubber = Scrubber(log_dir)
        while scrubber.last is None:
            scrubber.turn()
        assert (scrubber.last.segments, scrubber.last.is_whole) == (6, True)
        scrubber.close()


def test_a_round_by_hand_that_skipped_segments_is_not_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    with two_logs(tmp_path) as log_dir:
        scrubber = Scrubber(log_dir, clock)
        scrubber._failed["a", 0, 1] = clock.ms, "it has bad sectors"
        clock.ms += 1
        fail_journal(log_dir)
        own = scrubber.start([])
        until(lambda: not scrubber.is_running)
        assert (own.skipped, own.segments, own.is_whole) == (6, 0, False)
        assert scrubber.last is None
        assert scrubber.failed() == ["it has bad sectors"]
        put_round(asdict(own), [])
        said = capsys.readouterr().out
        assert "not every segment could be verified; 6 segments skipped" in said
        scrubber.close()
    with two_logs(tmp_path) as log_dir:
        scrubber = Scrubber(log_dir, clock)
        assert scrubber.failed() == ["it has bad sectors"]
        own = scrubber.start([])
        until(lambda: not scrubber.is_running)
        assert (own.skipped, own.segments, scrubber.last) == (0, 6, own)
        assert scrubber.failed() == []
        scrubber.close()


def test_a_round_that_skipped_one_of_two_disks_proves_nothing_of_it(tmp_path: Path) -> None:
    clock = Clock()

    async def fail(broker: Broker) -> None:
        await broker.topics.create("t", 4)
        for log in broker.log_dir.logs().values():
            log.append_durable(batch("v"))
        scrubber = Scrubber(broker.log_dir, clock)
        broken = broker.log_dir.directories[0].opened()
        key = sorted(broken.logs())[0]
        scrubber._failed[(*key, 0)] = clock.ms, "it has bad sectors"
        clock.ms += 1
        fail_journal(broken)
        while scrubber.round is not None or scrubber.checked_bytes == 0:
            scrubber.turn()
        assert scrubber.last is None
        assert scrubber.failed() == ["it has bad sectors"]
        checked = scrubber.checked_bytes
        clock.ms += WEEK_MS - 1
        scrubber.turn()
        assert scrubber.checked_bytes == checked  # the next round is not sooner
        scrubber.close()

    async def look(broker: Broker) -> None:
        scrubber = Scrubber(broker.log_dir, clock)
        assert scrubber.failed() == ["it has bad sectors"]
        while scrubber.last is None:
            scrubber.turn()
        assert (scrubber.last.is_whole, scrubber.last.skipped) == (True, 0)
        assert scrubber.failed() == []
        scrubber.close()

    live(tmp_path, fail, is_killed=True)
    live(tmp_path, look)


def test_a_round_of_an_older_version_goes_on(tmp_path: Path) -> None:
    with two_logs(tmp_path) as log_dir:
        scrubber = Scrubber(log_dir)
        scrubber.turn()
        scrubber.close()
        stored = json.loads((tmp_path / NAME).read_text())
        del stored["round"]["skipped"], stored["failed"]
        (tmp_path / NAME).write_text(json.dumps(stored))
        again = Scrubber(log_dir)
        assert again.round is not None
        assert (again.round.segments, again.round.skipped) == (stored["round"]["segments"], 0)
        assert again.round.segments > 0
        again.close()


def test_damage_is_in_the_ledger_once(tmp_path: Path) -> None:
    with two_logs(tmp_path) as log_dir:
        scrubber = Scrubber(log_dir)
        flip(log_dir, "a", 1)
        flip(log_dir, "b", 0)
        while scrubber.last is None:
            scrubber.turn()
        assert heard(log_dir) == [("a", 1, 1, "damaged"), ("b", 0, 0, "damaged")]
        scrubber.start([])
        until(lambda: not scrubber.is_running)
        assert len(heard(log_dir)) == 2
        scrubber.close()


def test_no_log_is_marked_before_the_ledger_has_the_damage(tmp_path: Path) -> None:
    with two_logs(tmp_path) as log_dir:
        assert isinstance(log_dir.ledger, Heard)
        log_dir.ledger.is_full = True
        scrubber = Scrubber(log_dir)
        flip(log_dir, "a", 1)
        while scrubber.last is None:
            scrubber.turn()
        assert heard(log_dir) == [("a", 1, 1, "damaged")]
        scrubber.turn()
        assert log_dir.log("a", 0).holes() == []
        log_dir.ledger.is_full = False
        scrubber.turn()
        assert log_dir.log("a", 0).holes() == [(1, 2)]
        scrubber.close()


def test_a_file_that_is_gone_is_in_the_ledger(tmp_path: Path) -> None:
    with two_logs(tmp_path) as log_dir:
        log_dir.checkpoint()
        log_dir.rest(0)  # nobody has it open
        (log_dir.path / "b-0" / f"{1:020d}.log").unlink()
        scrubber = Scrubber(log_dir)
        scrubber.start(["b"])
        until(lambda: not scrubber.is_running)
        assert heard(log_dir) == [("b", 1, 1, "lost")]
        scrubber.close()


def test_a_round_goes_on_where_it_was_before_a_restart(tmp_path: Path) -> None:
    """A box that is switched off each night completes a round all the same."""
    lives = 0
    last = None
    while last is None:
        lives += 1
        assert lives < 10
        with two_logs(tmp_path) as log_dir:
            scrubber = Scrubber(log_dir)
            scrubber.turn()
            scrubber.close()
            last = scrubber.last
    assert lives > 1
    assert (last.is_whole, last.segments) == (True, 6)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"since_ms": "x"}', "{}"])
def test_without_its_file_a_round_begins_anew(text: str, tmp_path: Path) -> None:
    with two_logs(tmp_path) as log_dir:
        (tmp_path / NAME).write_text(text)
        scrubber = Scrubber(log_dir)
        while scrubber.last is None:
            scrubber.turn()
        assert scrubber.last.segments == 6
        scrubber.close()
        assert json.loads((tmp_path / NAME).read_text())["last"]["is_whole"]


def test_it_is_late_when_three_intervals_have_no_whole_round(tmp_path: Path) -> None:
    clock = Clock()
    with two_logs(tmp_path, scrub_interval_ms=1000) as log_dir:
        scrubber = Scrubber(log_dir, clock)
        clock.ms += 3000
        assert not scrubber.is_late
        clock.ms += 1
        assert scrubber.is_late
        scrubber.close()
        again = Scrubber(log_dir, clock)
        assert again.is_late
        while again.last is None:
            again.turn()
        assert not again.is_late
        assert again.age_ms == 0
        again.close()


def test_a_rate_of_zero_is_off_and_never_late(tmp_path: Path) -> None:
    clock = Clock()
    with two_logs(tmp_path) as log_dir:
        log_dir.config = replace(log_dir.config, scrub_bytes_per_second=0)
        scrubber = Scrubber(log_dir, clock)
        clock.ms += 100 * WEEK_MS
        assert scrubber.turn() == 0
        assert scrubber.checked_bytes == 0
        assert not scrubber.is_late
        scrubber.close()


def test_a_log_that_is_deleted_in_the_middle_ends_no_round(tmp_path: Path) -> None:
    with two_logs(tmp_path) as log_dir:
        scrubber = Scrubber(log_dir)
        scrubber.turn()
        log_dir.delete("a", 0)
        while scrubber.last is None:
            assert scrubber.turn() == 0
        assert scrubber.last.notes == 0
        scrubber.close()


def test_a_topic_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with two_logs(tmp_path) as log_dir:
        scrubber = Scrubber(log_dir)
        with pytest.raises(LogUnknown, match="nothing"):
            scrubber.start(["a", "nothing"])
        scrubber.close()


# A running broker


def run(broker: RunningBroker, *words: str) -> Result:
    return CliRunner().invoke(main, [*words], env={"APPLIANCE_ADMIN_ADDRESS": broker.admin})


def filled(broker: RunningBroker, topic: str) -> Rest:
    """Three segments of a record each, and one that is active."""
    rest = Rest(broker.admin)
    rest.post("/topics", {"name": topic, "configs": {"segment.bytes": "1024"}})
    for i in range(4):
        text = str(i) * 900
        rest.post(f"/topics/{topic}/messages", {"messages": [{"value": {"text": text}}]})
    assert len(rest.get(f"/topics/{topic}/partitions/0/segments")["segments"]) == 4
    return rest


def damage(broker: RunningBroker, topic: str, base: int) -> None:
    path = broker.data_dir / f"{topic}-0" / f"{base:020d}.log"
    data = bytearray(path.read_bytes())
    data[500] ^= 1
    path.write_bytes(data)


def metric(broker: RunningBroker, name: str) -> float:
    page = Rest(broker.admin).raw("GET", "/metrics").body.decode()
    (line,) = [each for each in page.splitlines() if each.startswith(f"{name} ")]
    return float(line.split()[1])


def test_a_scrub_by_hand_finds_cold_damage_and_health_says_so(
    appliance_broker: RunningBroker,
) -> None:
    rest = filled(appliance_broker, "t")
    clean = run(appliance_broker, "scrub")
    assert clean.exit_code == 0, clean.output
    assert "every batch is as written" in clean.stdout
    damage(appliance_broker, "t", 1)
    found = run(appliance_broker, "scrub", "t")
    assert found.exit_code == 10, found.output
    assert "damaged: t-0 offset 1: t-0/00000000000000000001.log position 0 to" in found.stdout
    assert "4 segments" in found.stdout
    health = rest.get("/health")
    assert health["status"] == "degraded"
    assert "t-0: offset 1" in health["sentence"]
    (entry,) = rest.get("/ledger")["entries"]
    assert (entry["topic"], entry["first_offset"], entry["kind"]) == ("t", 1, "damaged")
    assert metric(appliance_broker, "appliance_scrub_damages_total") == 1
    again = run(appliance_broker, "scrub", "--json")
    assert again.exit_code == 10
    answer = json.loads(again.stdout)
    assert (answer["damages"], answer["is_whole"]) == (0, True)
    assert answer["known"] == [{"topic": "t", "partition": 0, "first_offset": 1, "end_offset": 2}]
    assert run(appliance_broker, "scrub", "nothing").exit_code == 3


def test_the_background_finds_it_too(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data", {"scrub.bytes.per.second": "1048576"}) as broker:
        rest = filled(broker, "t")
        until(lambda: rest.get("/scrub")["last"])
        assert rest.get("/health")["status"] == "ok"
        assert metric(broker, "appliance_scrub_age_seconds") >= 0
    damage(broker, "t", 2)
    settings = {"scrub.bytes.per.second": "1048576", "scrub.interval.ms": "1000"}
    with running_broker(tmp_path / "data", settings) as broker:
        rest = Rest(broker.admin)
        until(lambda: rest.get("/ledger")["open"])
        assert rest.get("/health")["status"] == "degraded"


def test_damage_that_the_ledger_lacks_is_told_at_the_start_once(tmp_path: Path) -> None:
    """As when the disk was too full for the ledger, and then the process was killed."""
    data = tmp_path / "data"
    with running_broker(data) as broker:
        filled(broker, "t")
    damage(broker, "t", 1)
    with opened_bare(data) as log_dir:
        scan = SegmentScan(log_dir.log("t", 0), 1)
        while scan.step(1 << 20):
            pass
        scan.settle()
        scan.mark()
    for _ in range(2):
        with running_broker(data) as broker:
            rest = Rest(broker.admin)
            (entry,) = rest.get("/ledger")["entries"]
            assert (entry["topic"], entry["first_offset"], entry["last_offset"]) == ("t", 1, 1)
            assert rest.get("/health")["status"] == "degraded"


@contextmanager
def opened_bare(data: Path) -> Iterator[LogDir]:
    """Without a ledger."""
    log_dir = LogDir.open(data, STORAGE)
    yield log_dir
    log_dir.close()
