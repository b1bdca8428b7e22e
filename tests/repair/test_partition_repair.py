"""Repair of a log that is open: holes that readers pass, and what was set aside put back.

The log is that of `support/damaged.py`: one record a batch, segments 0-5, 6-11, 12-17 and 18-20.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from appliance._log import Log
from appliance.bulk._range_reader import RangeReader
from appliance.cli.main import main
from appliance.data_dir.log_dir import LogDir
from appliance.errors import (
    ApplianceError,
    OffsetInHole,
    OffsetOutOfRange,
    ResourceUnknown,
    StorageFull,
    TransactionStateInvalid,
)
from appliance.record import _batch, _batch_builder
from appliance.repair import _hole_repair, partition_repair, set_aside
from appliance.repair._hole_repair import holes
from appliance.repair.scrub import known_damage
from appliance.testing import RunningBroker, running_broker
from appliance.topics import reopening
from tests.repair.test_scrub import others, ranges, scrubbed
from tests.repair.test_scrub_rounds import damage, filled, run
from tests.support.damaged import END, SETTINGS, Damaged, build, served
from tests.support.logs import (
    NOW,
    bases,
    batch,
    copied,
    end_txn,
    everything,
    log_config,
    opened,
    produced,
    values,
)
from tests.support.rest import Rest

ASIDE = f"t-0/{6:020d}.log.corrupt-1"


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Damaged:
    path = tmp_path_factory.mktemp("repair") / "data"
    return Damaged(path, build(path, cleanly=True))


@pytest.fixture
def whole(stopped: Damaged, tmp_path: Path) -> Damaged:
    """With a copy of the segment 6-11 beside it."""
    damaged = Damaged(copied(stopped.path, tmp_path / "data"), [*stopped.batches])
    shutil.copy(damaged.segment(6), damaged.path / ASIDE)
    return damaged


class Heard:
    """Stands where the ledger is."""

    def __init__(self) -> None:
        self.kinds: list[str] = []

    def note_act(self, damages: object) -> None:
        self.kinds += [each.kind for each in damages]  # type: ignore[attr-defined]

    def open(self) -> list[object]:
        return []


@contextmanager
def with_holes(damaged: Damaged, *offsets: int) -> Iterator[tuple[LogDir, Log]]:
    with opened(damaged.path, **SETTINGS) as log_dir:
        log = log_dir.log("t", 0)
        for offset in offsets:
            damaged.flip(offset, 16)
        assert all(what == "damaged" for what, _, _ in ranges(scrubbed(log)))
        yield log_dir, log


def put_back(log_dir: LogDir, log: Log, file: str = ASIDE) -> partition_repair.Importing:
    plan = partition_repair.plan_import(log_dir, log, file)
    partition_repair.put_back(log_dir, log, plan, Heard(), "ada")  # type: ignore[arg-type]
    return plan


# Skipping


def test_readers_pass_what_is_skipped_and_still_do_after_a_restart(whole: Damaged) -> None:
    with with_holes(whole, 7, 8, 10) as (_, log):
        with pytest.raises(OffsetInHole):
            log.read(7)
        plan = partition_repair.plan_skip(log)
        assert plan.spans == [partition_repair.Span(7, 9), partition_repair.Span(10, 11)]
        heard = Heard()
        partition_repair.skip(log, plan, heard, "ada")  # type: ignore[arg-type]
        assert heard.kinds == ["skipped", "skipped"]
        assert bases(b"".join(everything(log))) == others(7, 8, 10)
        with pytest.raises(partition_repair.NothingToRepair):
            partition_repair.plan_skip(log)
    with opened(whole.path, **SETTINGS) as log_dir:
        log = log_dir.log("t", 0)
        assert bases(log.read(7, 1)) == [9]
        assert bases(b"".join(everything(log))) == others(7, 8, 10)
        assert ranges(scrubbed(log)) == []


def test_what_the_ledger_cannot_store_is_not_done(whole: Damaged) -> None:
    class Full(Heard):
        def note_act(self, damages: object) -> None:
            raise StorageFull("no room")

    with with_holes(whole, 7) as (log_dir, log):
        skipping = partition_repair.plan_skip(log)
        with pytest.raises(StorageFull):
            partition_repair.skip(log, skipping, Full(), "ada")  # type: ignore[arg-type]
        plan = partition_repair.plan_import(log_dir, log, ASIDE)
        with pytest.raises(StorageFull):
            partition_repair.put_back(log_dir, log, plan, Full(), "ada")  # type: ignore[arg-type]
        assert [each.is_skipped for each in holes(log)] == [False]


def test_damage_below_the_log_start_is_nothing_to_repair(whole: Damaged) -> None:
    with with_holes(whole, 7) as (log_dir, log):
        assert known_damage(log_dir, []) == {("t", 0): [(7, 8)]}
        log.delete_before(9)
        assert [each.first_offset for each in _hole_repair.holes(log)] == [7]  # its bytes are there
        assert known_damage(log_dir, []) == {}
        with pytest.raises(partition_repair.NothingToRepair):
            partition_repair.plan_skip(log)


def test_an_export_tells_what_it_was_let_pass(whole: Damaged) -> None:
    with with_holes(whole, 7) as (_, log):
        _hole_repair.skip(log, 7, 8)
        reader = RangeReader(log, 0, END)
        found: list[int] = []
        while frame := reader.read():
            found += bases(bytes(frame.batches))
        assert found == others(7)
        assert reader.holes == [(7, 8)]


def test_at_the_end_a_reader_that_passes_waits_for_what_comes(whole: Damaged) -> None:
    with with_holes(whole, 20) as (_, log):
        _hole_repair.skip(log, 20, 21)
        assert log.read(20) == b""
        log.append_durable(produced(END, timestamp=NOW + END))
        assert bases(log.read(20)) == [END]


def test_compaction_stops_before_damage_and_goes_on_when_readers_pass_it(tmp_path: Path) -> None:
    config = {**SETTINGS, "cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.0}
    with opened(tmp_path, **config) as log_dir:
        log = log_dir.create("t", 0, log_config(**config))
        for i in range(12):
            log.append(_batch_builder.batch([(NOW, b"same", f"{i}".encode())]))
        log.roll()
        log.append(batch("active"))
        log.flush()
        log_dir.checkpoint()
        path = tmp_path / "t-0" / f"{0:020d}.log"
        data = bytearray(path.read_bytes())
        data[_batch.headers(bytes(data))[3].position + 16] ^= 1
        path.write_bytes(data)
        assert ranges(scrubbed(log)) == [("damaged", 3, 4)]
        assert not log.compact()
        _hole_repair.skip(log, 3, 4)
        assert log.compact()
        assert values(everything(log)) == ["11", "active"]
        assert ranges(scrubbed(log)) == []
    with opened(tmp_path, **config) as log_dir:
        assert values(everything(log_dir.log("t", 0))) == ["11", "active"]


# Putting back


@pytest.mark.parametrize("cleanly", [True, False], ids=["clean stop", "unclean end"])
def test_what_was_set_aside_is_put_back_at_its_offsets(cleanly: bool, whole: Damaged) -> None:
    with with_holes(whole, 7, 10) as (log_dir, log):
        plan = put_back(log_dir, log)
        assert plan.spans == [partition_repair.Span(7, 8), partition_repair.Span(10, 11)]
        assert (plan.left_out, plan.still_missing) == (4, [])
        assert _hole_repair.holes(log) == []
        assert served(log, whole) == others()
        assert ranges(scrubbed(log)) == []
        if not cleanly:
            log_dir.abandon()
    with opened(whole.path, **SETTINGS) as log_dir:
        log = log_dir.log("t", 0)
        assert log_dir.report.losses == []
        assert served(log, whole) == others()
        assert ranges(scrubbed(log)) == []


def test_a_segment_whose_file_is_gone_is_put_back_as_a_whole(whole: Damaged) -> None:
    whole.remove(6)
    with opened(whole.path, **SETTINGS) as log_dir:
        log = log_dir.log("t", 0)
        assert log.holes() == [(6, 12)]
        put_back(log_dir, log)
        assert served(log, whole) == others()
    with opened(whole.path, **SETTINGS) as log_dir:
        assert served(log_dir.log("t", 0), whole) == others()


def test_one_that_went_while_the_log_was_open_is_put_back_too(whole: Damaged) -> None:
    with opened(whole.path, **SETTINGS) as log_dir:
        log = log_dir.log("t", 0)
        whole.remove(6)
        assert ranges(scrubbed(log)) == [("lost", 6, 12)]
        put_back(log_dir, log)
        assert served(log, whole) == others()
        assert ranges(scrubbed(log)) == []
    with opened(whole.path, **SETTINGS) as log_dir:
        assert served(log_dir.log("t", 0), whole) == others()


def test_damage_in_the_active_segment_is_put_back(whole: Damaged) -> None:
    aside = f"t-0/{18:020d}.log.corrupt-1"
    shutil.copy(whole.segment(18), whole.path / aside)
    with with_holes(whole, 19) as (log_dir, log):
        put_back(log_dir, log, aside)
        assert served(log, whole) == others()
        log.append_durable(produced(END, timestamp=NOW + END))
    with opened(whole.path, **SETTINGS) as log_dir:
        whole.batches.append(log_dir.log("t", 0).read(END))
        assert served(log_dir.log("t", 0), whole) == others(end=END + 1)


def test_what_the_file_lacks_stays_missing(whole: Damaged) -> None:
    first, end = whole.spans[8]
    data = (whole.path / ASIDE).read_bytes()
    (whole.path / ASIDE).write_bytes(data[:first] + bytes(end - first) + data[end:])
    with with_holes(whole, 7, 8, 9) as (log_dir, log):
        plan = put_back(log_dir, log)
        assert plan.spans == [partition_repair.Span(7, 8), partition_repair.Span(9, 10)]
        assert plan.still_missing == [partition_repair.Span(8, 9)]
        assert served(log, whole) == others(8)
        assert log.holes() == [(8, 9)]
    with opened(whole.path, **SETTINGS) as log_dir:
        assert served(log_dir.log("t", 0), whole) == others(8)


def test_the_damaged_segment_is_kept_beside_the_new_one(whole: Damaged) -> None:
    with with_holes(whole, 7) as (log_dir, log):
        damaged = whole.segment(6).read_bytes()
        put_back(log_dir, log)
        kept = [whole.folder / name for name in whole.aside]
        assert damaged in [path.read_bytes() for path in kept]


def test_a_plan_changes_nothing(whole: Damaged) -> None:
    with with_holes(whole, 7) as (log_dir, log):
        before = {path: path.read_bytes() for path in whole.folder.iterdir()}
        plan = partition_repair.plan_import(log_dir, log, ASIDE)
        assert (plan.records, len(plan.batches)) == (1, 1)
        assert partition_repair.plan_skip(log).spans == [partition_repair.Span(7, 8)]
        assert {path: path.read_bytes() for path in whole.folder.iterdir()} == before
        assert log.holes() == [(7, 8)]


def test_offsets_that_are_there_are_not_written_over(whole: Damaged) -> None:
    with with_holes(whole, 7) as (_, log), (whole.path / ASIDE).open("rb") as file:
        span = whole.spans[8]
        with pytest.raises(OffsetInHole, match="some of them exist in the log"):
            _hole_repair.fill(log, file.fileno(), [(span[0], span[1] - span[0])])
        assert served(log, whole) == others(7)


def test_a_damaged_batch_is_not_put_back(whole: Damaged) -> None:
    first, end = whole.spans[7]
    with (whole.path / ASIDE).open("r+b") as file:
        file.seek(first + 65)
        file.write(b"\xff")
    with with_holes(whole, 7) as (log_dir, log):
        assert partition_repair.plan_import(log_dir, log, ASIDE).batches == []
        with (whole.path / ASIDE).open("rb") as file, pytest.raises(ApplianceError):
            _hole_repair.fill(log, file.fileno(), [(first, end - first)])
        assert log.holes() == [(7, 8)]
        assert served(log, whole) == others(7)


def test_before_the_first_segment_nothing_is_put_back(whole: Damaged) -> None:
    shutil.copy(whole.segment(0), whole.folder / f"{0:020d}.log.corrupt-1")
    whole.remove(0)
    with opened(whole.path, **SETTINGS) as log_dir:
        log = log_dir.log("t", 0)
        size = whole.spans[0][1]
        with (
            (whole.folder / f"{0:020d}.log.corrupt-1").open("rb") as file,
            pytest.raises((OffsetOutOfRange, OffsetInHole)),
        ):
            _hole_repair.fill(log, file.fileno(), [(0, size)])


# Transactions


@contextmanager
def transactions(path: Path) -> Iterator[tuple[LogDir, Log]]:
    """0 committed by 2; 3 aborted by 5; in one segment. The second is that of producer 8."""
    with opened(path, **SETTINGS) as log_dir:
        log = log_dir.create("t", 0, log_config(**SETTINGS))
        log.append(produced(0, txn=True))
        log.append(batch("plain"))
        end_txn(log, "commit")
        log.append(produced(0, pid=8, txn=True))
        log.append(batch("plain too"))
        end_txn(log, "abort", pid=8)
        log.roll()
        log.append(batch("active"))
        log.flush()
        log_dir.checkpoint()
        yield log_dir, log


def lost_and_aside(path: Path, log: Log, *offsets: int) -> None:
    file = path / "t-0" / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    (path / "t-0" / f"{0:020d}.log.corrupt-1").write_bytes(data)
    for info in _batch.headers(bytes(data)):
        if info.base_offset in offsets:
            data[info.position + 16] ^= 1
    file.write_bytes(data)
    assert [each.what for each in scrubbed(log)] == ["damaged"] * len(offsets)


def test_a_transaction_whose_end_is_known_is_put_back(tmp_path: Path) -> None:
    with transactions(tmp_path) as (log_dir, log):
        before = everything(log)
        aborted = log.aborted_transactions(0, 6)
        lost_and_aside(tmp_path, log, 0, 3, 5)
        put_back(log_dir, log, f"t-0/{0:020d}.log.corrupt-1")
        assert everything(log) == before
        assert log.aborted_transactions(0, 6) == aborted == [(8, 3, 5)]


def test_one_whose_end_is_not_met_is_refused(tmp_path: Path) -> None:
    """The markers are damaged too, and not in what was set aside."""
    with transactions(tmp_path) as (log_dir, log):
        lost_and_aside(tmp_path, log, 0, 2)
        aside = tmp_path / "t-0" / f"{0:020d}.log.corrupt-1"
        data = aside.read_bytes()
        aside.write_bytes(data[: _batch.headers(data)[1].position])
        with pytest.raises(TransactionStateInvalid, match="bring them into another topic"):
            partition_repair.plan_import(log_dir, log, f"t-0/{aside.name}")
        assert log.holes() == [(0, 1), (2, 3)]


# What was set aside


def test_only_files_about_the_partition_are_offered(whole: Damaged) -> None:
    orphan = whole.path / "orphans" / "t-0.1"
    orphan.mkdir(parents=True)
    (orphan / f"{0:020d}.log").write_bytes(b"")
    for strange in ("t-01", "t-0.x", "x-t-0"):
        (whole.path / "orphans" / strange).mkdir()
        (whole.path / "orphans" / strange / f"{0:020d}.log").write_bytes(b"")
    os.symlink("/etc/passwd", whole.folder / f"{1:020d}.log.corrupt-1")
    found = [set_aside.shown(whole.path, each) for each in set_aside.files_of(whole.path, "t-0")]
    assert found == [f"orphans/t-0.1/{0:020d}.log", ASIDE]
    aside = whole.path / ASIDE
    for form in (ASIDE, aside.name, str(aside)):
        assert set_aside.file_named(whole.path, "t-0", form) == aside
    for form in ("../../etc/passwd", "/etc/passwd", f"{1:020d}.log.corrupt-1"):
        with pytest.raises(ResourceUnknown, match="wanted one of"):
            set_aside.file_named(whole.path, "t-0", form)


@pytest.mark.parametrize("byte", [3, 9, 16, 65], ids=["offset", "length", "format", "record"])
def test_behind_damage_in_the_file_the_next_good_batch_is_found(byte: int, whole: Damaged) -> None:
    path = whole.path / ASIDE
    data = bytearray(path.read_bytes())
    data[whole.spans[8][0] + byte] ^= 1
    path.write_bytes(data)
    found = [each.base_offset for each in set_aside.whole_batches(path)]
    # An offset is not covered by the checksum: one that fits no hole is left out by the plan.
    assert [each for each in found if each in range(6, 12)] == [6, 7, 9, 10, 11]


def test_bytes_in_a_record_are_not_taken_for_a_batch(tmp_path: Path) -> None:
    outer = bytearray(batch(b"before " + batch("forged") + b" behind"))
    outer[9] ^= 1
    path = tmp_path / f"{0:020d}.log.corrupt-1"
    path.write_bytes(bytes(outer) + batch("next"))
    found = list(set_aside.whole_batches(path))
    assert [each.position for each in found] == [len(outer)]


# A running broker


@pytest.fixture
def mended(appliance_broker: RunningBroker) -> tuple[RunningBroker, Rest]:
    """With a damaged batch at offset 1 of t-0, and a good copy of its segment beside it."""
    rest = filled(appliance_broker, "t")
    path = appliance_broker.data_dir / "t-0" / f"{1:020d}.log"
    shutil.copy(path, f"{path}.corrupt-1")
    damage(appliance_broker, "t", 1)
    assert run(appliance_broker, "scrub").exit_code == 10
    return appliance_broker, rest


def repaired(broker: RunningBroker, *words: str, text: str = "") -> Result:
    environment = {"APPLIANCE_ADMIN_ADDRESS": broker.admin}
    return CliRunner().invoke(main, ["log", "repair", *words], input=text, env=environment)


def texts(rest: Rest, topic: str) -> list[str]:
    found = rest.get(f"/topics/{topic}/messages", **{"from": "oldest"})["messages"]
    return [each["value"]["text"][:1] for each in found]


FILE = f"t-0/{1:020d}.log.corrupt-1"


def test_the_command_shows_what_there_is_to_mend(mended: tuple[RunningBroker, Rest]) -> None:
    broker, _ = mended
    shown = repaired(broker, "t-0")
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.splitlines() == [
        "damaged: offsets 1 to 1",
        f"set aside: {FILE}, {os.stat(broker.data_dir / FILE).st_size} B",
    ]


def test_a_dry_run_and_a_no_change_nothing(mended: tuple[RunningBroker, Rest]) -> None:
    broker, rest = mended
    before = rest.get("/topics/t/partitions/0/repair")
    dry = repaired(broker, "t-0", "--skip", "--dry-run")
    assert (dry.exit_code, dry.stdout) == (0, "readers would skip 1 offset in 1 range\n")
    assert repaired(broker, "t-0", "--import", FILE, text="n\n").exit_code == 1
    assert rest.post("/topics/t/partitions/0/repair", {"action": "skip"})["dry_run"]
    assert rest.get("/topics/t/partitions/0/repair") == before
    assert rest.get("/health")["status"] == "degraded"


def test_what_is_put_back_is_read_and_health_is_ok_again(
    mended: tuple[RunningBroker, Rest],
) -> None:
    broker, rest = mended
    done = repaired(broker, "t-0", "--import", FILE, "--yes")
    assert done.exit_code == 0, done.output
    assert "1 record restored at the same offsets" in done.stdout
    assert texts(rest, "t") == ["0", "1", "2", "3"]
    assert rest.get("/health")["status"] == "ok"
    trail = rest.get("/audit")["entries"]
    assert any(each["action"].endswith("/topics/t/partitions/0/repair") for each in trail)
    assert run(broker, "scrub").exit_code == 0


def test_a_reader_is_told_that_not_all_of_it_is_here_until_it_is(
    mended: tuple[RunningBroker, Rest],
) -> None:
    broker, _ = mended
    read = run(broker, "consume", "t")
    assert read.exit_code == 10, read.output
    assert [line[:1] for line in read.stdout.splitlines()] == ["0", "2", "3"]
    assert "t-0 offsets 1..1: damaged" in read.stderr
    assert "1 range could not be read" in read.stderr
    assert run(broker, "consume", "t", "--group", "g").exit_code == 10
    assert repaired(broker, "t-0", "--import", FILE, "--yes").exit_code == 0
    read = run(broker, "consume", "t")
    assert (read.exit_code, len(read.stdout.splitlines())) == (0, 4), read.output


def test_what_is_skipped_is_passed_and_stays_in_the_ledger(
    mended: tuple[RunningBroker, Rest],
) -> None:
    broker, rest = mended
    assert repaired(broker, "t-0", "--skip", "--yes").exit_code == 0
    assert texts(rest, "t") == ["0", "2", "3"]
    ledger = rest.get("/ledger")
    assert ledger["open"] == 0
    assert sorted(each["kind"] for each in ledger["entries"]) == ["damaged", "skipped"]
    assert rest.get("/health")["status"] == "ok"
    assert run(broker, "scrub").exit_code == 0
    assert repaired(broker, "t-0", "--skip", "--yes").exit_code != 0


def test_a_copy_into_another_topic_says_where_each_record_comes_from(
    mended: tuple[RunningBroker, Rest],
) -> None:
    broker, rest = mended
    rest.post("/topics", {"name": "found"})
    done = repaired(broker, "t-0", "--import", FILE, "--into", "found", "--yes")
    assert done.exit_code == 0, done.output
    (message,) = rest.get("/topics/found/messages", **{"from": "oldest"})["messages"]
    assert message["value"]["text"] == "1" * 900
    (header,) = message["headers"]
    assert (header["name"], header["value"]["text"]) == ("appliance.set.aside", "t-0@1")
    assert rest.get("/health")["status"] == "degraded"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"action": "mend"}, 400),
        ({"action": "import"}, 400),
        ({"action": "import", "file": "../../etc/passwd"}, 404),
        ({"action": "copy", "file": FILE}, 400),
        ({"action": "copy", "file": FILE, "into": "nowhere"}, 404),
        ({"action": "copy", "file": FILE, "into": "__consumer_offsets"}, 400),
    ],
    ids=["no such action", "no file", "a file of others", "no topic", "no such topic", "internal"],
)
def test_what_cannot_be_is_refused_with_what_is_wanted(
    body: dict[str, str], code: int, mended: tuple[RunningBroker, Rest]
) -> None:
    _, rest = mended
    assert rest.refused("POST", "/topics/t/partitions/0/repair", body)[0] == code


def test_a_partition_that_could_not_be_opened_is_opened_on_demand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reopening, "RETRY_MIN_MS", 3_600_000)  # not by itself
    data = tmp_path / "data"
    with running_broker(data) as broker:
        for name in ("t", "well"):
            Rest(broker.admin).post("/topics", {"name": name})
        messages = {"messages": [{"value": {"text": "0"}}]}
        Rest(broker.admin).post("/topics/t/messages", messages)
    file = data / "t-0" / f"{0:020d}.log"
    file.rename(tmp_path / "kept")
    in_the_way = data / "t-0" / f"{1:020d}.log"  # where the log would go on
    in_the_way.mkdir()
    with running_broker(data) as broker:
        shown = repaired(broker, "t-0")
        assert shown.stdout.startswith("not open: "), shown.output
        read = run(broker, "consume", "t")
        assert (read.exit_code, read.stdout) == (10, "")
        assert "not served: t-0: the log cannot be opened" in read.stderr
        failed = repaired(broker, "t-0", "--reopen", "--yes")
        assert failed.exit_code == 1
        assert repaired(broker, "well-0", "--reopen", "--yes").exit_code == 1
        assert repaired(broker, "strange-0", "--reopen", "--yes").exit_code == 3
        in_the_way.rmdir()
        (tmp_path / "kept").rename(file)
        dry = repaired(broker, "t-0", "--reopen", "--dry-run")
        assert "t-0 would be opened again" in dry.stdout, dry.output
        done = repaired(broker, "t-0", "--reopen", "--yes")
        assert done.stdout == "t-0 is open again, with offsets 0 to 1\n", done.output
        assert texts(Rest(broker.admin), "t") == ["0"]
