"""Data directories that older builds wrote (`record.py`), opened by this one: what the dry run says
of them without changing a byte, what is read back, and a kill at any point of the migration."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sqlite3
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pytest
from click.testing import CliRunner, Result
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from appliance.catalog import catalog as catalogs
from appliance.catalog.catalog import NAME, Catalog, copies
from appliance.catalog.schema import ADDITIONS, SCHEMA
from appliance.cli.main import main
from appliance.data_dir import data_format, promised_offsets
from appliance.data_dir.data_format import OURS
from appliance.upgrade.catalog_dry_run import dry_run
from tests.support.consumed import consumed
from tests.support.serving import Serving

DATA = Path(__file__).parent / "data"
KILLED, STOPPED = "0.13-killed", "1.0-stopped"
AT_MS = 1_800_000_000_000
EVERY_RULE = AclBindingFilter(ResourceType.ANY, None, ResourcePatternType.ANY, None, None,
                              AclOperation.ANY, AclPermissionType.ANY)  # fmt: skip


def recorded(name: str, into: Path) -> Path:
    into.mkdir(mode=0o700)
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        archive.extractall(into, filter="fully_trusted")
    return into


def state_of(directory: Path) -> dict[str, tuple[str, int, int]]:
    found = {}
    for each in sorted(directory.rglob("*")):
        status = each.stat()
        digest = hashlib.sha256(each.read_bytes()).hexdigest() if each.is_file() else ""
        found[str(each.relative_to(directory))] = digest, status.st_mtime_ns, status.st_mode
    return found


def check(*words: object) -> Result:
    return CliRunner().invoke(main, ["upgrade", "check", *map(str, words)])


def plan_of(*words: object, code: int = 0) -> dict[str, Any]:
    result = check(*words, "--json")
    assert result.exit_code == code, result.output
    return dict(json.loads(result.output))


# The dry run


@pytest.mark.parametrize("name", [KILLED, STOPPED])
def test_a_dry_run_changes_no_byte(name: str, tmp_path: Path) -> None:
    data = recorded(name, tmp_path / "data")
    before = state_of(data)
    for each in data.rglob("*"):
        each.chmod(0o500 if each.is_dir() else 0o400)
    modes = state_of(data)
    found = plan_of("--data-dir", data)
    assert state_of(data) == modes
    assert found["found"]["format"] == name.split("-")[0]
    assert found["build"]["format"] == str(OURS)
    assert found["refused"] == []
    migrations = {each["what"]: each["touches"] for each in found["migrations"]}
    assert "7 partitions" in migrations["journal"]
    catalog = migrations["catalog"]
    assert all(f"table {each}: made, 0 rows" in catalog for each in ADDITIONS)
    made_by_the_schema = "schema 13: table alert_conditions: made, 0 rows; "
    assert (made_by_the_schema in catalog) == (name == KILLED)
    assert found["way_back"]["is_open"] == (name == STOPPED)
    assert found["space"]["free_bytes"] > found["space"]["needed_bytes"] > 0
    assert [*before] == [*modes]


def test_it_is_said_for_people(tmp_path: Path) -> None:
    told = check("--data-dir", recorded(KILLED, tmp_path / "data")).output
    assert f"data       {tmp_path}/data: format 0.13\n" in told
    assert "the way back is a backup: make one first" in told
    assert told.endswith(f"A start migrates it from 0.13 to {OURS}.\n")


def test_where_there_is_no_data_there_is_nothing_to_do(tmp_path: Path) -> None:
    found = plan_of("--data-dir", tmp_path / "none")
    assert (found["sentence"], found["migrations"]) == ("There is no data yet.", [])
    assert not (tmp_path / "none").exists()


def test_it_runs_beside_a_broker(tmp_path: Path) -> None:
    """Whose catalog is locked, and has changes that are not in its main file yet."""
    with closing(Catalog.open(tmp_path / NAME)) as catalog:
        catalog.run("INSERT INTO producer_ids VALUES (1, 7) ON CONFLICT DO UPDATE SET next = 7", ())
        assert (tmp_path / f"{NAME}-wal").stat().st_size > 0
        before = state_of(tmp_path)
        tried = dry_run(tmp_path)
        assert tried is not None
        assert (tried.format, tried.changes) == ("1.0", [])
        assert state_of(tmp_path) == before


def test_a_catalog_that_is_no_catalog_is_refused_by_its_own_name(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"this is no database" * 1000)
    found = plan_of("--data-dir", tmp_path, code=10)
    assert str(tmp_path / NAME) in found["refused"][0]


def test_data_that_is_newer_is_refused_with_its_reason(tmp_path: Path) -> None:
    data = recorded(STOPPED, tmp_path / "data")
    told = {"format": "2.0", "appliance": "3.1.4", "at_ms": AT_MS}
    (data / "format").write_text(json.dumps(told))
    found = plan_of("--data-dir", data, code=10)
    assert "appliance 3.1.4 (2027-01-15 08:00:00Z) wrote it" in found["refused"][0]
    assert found["migrations"] == []
    assert "would be refused: 1 reason." in check("--data-dir", data).output


def test_settings_that_are_no_more_are_named_all(tmp_path: Path) -> None:
    file = tmp_path / "appliance.toml"
    data = recorded(STOPPED, tmp_path / "data")
    file.write_text(f'"data.dir" = "{data}"\n"listen.address" = "127.0.0.1:9092"\n'
                    '"log.segment.bites" = 1\n[never]\nheard = "of"\n')  # fmt: skip
    found = plan_of("--config", file, code=10)
    assert found["found"]["format"] == "1.0", "the data is looked at all the same"
    assert [each.split(":")[0] for each in found["refused"]] == ["log.segment.bites", "never.heard"]
    assert "did you mean log.segment.bytes?" in found["refused"][0]
    assert found["notes"] == [f"listen.address (file {file}) is called listeners now; both names "
                              "are read"]  # fmt: skip


def test_a_box_that_becomes_a_cluster_is_told_so(tmp_path: Path) -> None:
    directory = recorded(STOPPED, tmp_path / "data")
    place = ("--data-dir", directory, "--set", "zookeeper.connect=127.0.0.1:2181/kafka")
    (note,) = plan_of(*place)["notes"]
    assert "set zookeeper.format=original" in note
    assert plan_of(*place, "--set", "zookeeper.format=original")["notes"] == []


def test_a_directory_that_is_not_mounted_is_refused(tmp_path: Path) -> None:
    found = plan_of("--data-dir", tmp_path, "--set", "data.marker=77", code=10)
    assert "Is its file system mounted?" in found["refused"][0]


def test_a_disk_without_room_is_said_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = recorded(KILLED, tmp_path / "data")
    monkeypatch.setattr("appliance.upgrade.plan.ROOM_BYTES", 1 << 60)
    assert "make room first" in plan_of("--data-dir", data, code=10)["refused"][0]


# The upgrade


@pytest.mark.parametrize("name", [KILLED, STOPPED])
def test_what_an_older_build_wrote_is_all_there(name: str, tmp_path: Path) -> None:
    data = recorded(name, tmp_path / "data")
    broker = Serving(tmp_path, data=data)
    bootstrap = "{}:{}".format(*broker.kafka)
    try:
        read_back(bootstrap)
        # and it goes on
        producer = ck.Producer({"bootstrap.servers": bootstrap})
        producer.produce("orders", "new", partition=1)
        assert producer.flush(30) == 0
    finally:
        broker.stop()
    told = data_format.read(data)
    assert told is not None
    assert (told.version, told.needs) == (OURS, {})
    assert [each.name for each in copies(data)] == (["catalog.0.13.db"] if name == KILLED else [])
    done = CliRunner().invoke(main, ["log", "verify", str(data)])
    assert (done.exit_code, "every batch is as written" in done.output) == (0, True), done.output
    assert plan_of("--data-dir", data)["sentence"] == "Nothing is to be migrated."
    is_as_1_0_reads_it(data)


def read_back(bootstrap: str) -> None:
    found = consumed(bootstrap, "orders")
    assert [(each.key, each.value) for each in found if each.partition == 1] == [
        (b"k%d" % number, b"v%d" % number) for number in range(1, 20, 2)
    ]
    assert [each.value for each in found if each.partition == 0] == [
        *(b"v%d" % number for number in range(0, 20, 2)), b"committed",
    ]  # fmt: skip
    assert {(each.key, each.value) for each in consumed(bootstrap, "state")} >= {
        (b"s0", b"4"), (b"s1", b"3"),
    }  # fmt: skip
    group = ck.Consumer({"bootstrap.servers": bootstrap, "group.id": "billing"})
    places = [ck.TopicPartition("orders", each) for each in range(2)]
    assert [each.offset for each in group.committed(places, 30)] == [7, 4]
    group.close()
    admin = AdminClient({"bootstrap.servers": bootstrap})
    rules = admin.describe_acls(EVERY_RULE).result(30)
    assert [(each.principal, each.name) for each in rules] == [("User:ann", "orders")]
    mover = ck.Producer({"bootstrap.servers": bootstrap, "transactional.id": "mover"})
    mover.init_transactions(30)


def is_as_1_0_reads_it(data: Path) -> None:
    """What a build of 1.0 asks before it opens a directory, and goes by."""
    with closing(sqlite3.connect(data / NAME)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (15,)
    promised = promised_offsets.read(data)
    assert (promised.fault, len(promised.logs)) == ("", 7)
    assert {(data / name).exists() for name in ("checkpoint.0", "watermarks", "clock")} == {True}


def test_a_directory_of_a_newer_minor_version_is_gone_back_to(tmp_path: Path) -> None:
    """By this build, which is the older one then: it keeps what it does not know."""
    data = recorded(STOPPED, tmp_path / "data")
    newer = f"{OURS.major}.{OURS.minor + 1}"
    told = {"format": newer, "appliance": "0.9.0", "at_ms": AT_MS}
    (data / "format").write_text(json.dumps(told))
    with closing(sqlite3.connect(data / NAME)) as database, database:
        database.execute("CREATE TABLE of_newer (id TEXT)")
        database.execute("INSERT INTO of_newer VALUES ('kept')")
    before = plan_of("--data-dir", data)
    assert before["notes"] == [f"a newer build was here: what it added since {OURS} is left alone"]
    assert [each["what"] for each in before["migrations"]] == ["catalog"]  # tables that are added
    assert before["way_back"]["is_open"]
    Serving(tmp_path, data=data).stop()
    found = data_format.read(data)
    assert found is not None
    assert (str(found.version), found.by.appliance) == (newer, "0.9.0")
    with closing(sqlite3.connect(data / NAME)) as database:
        assert database.execute("SELECT * FROM of_newer").fetchall() == [("kept",)]


# Kills


def migrate(data: Path) -> None:
    """What a start does before it opens logs."""
    data_format.check(data)
    data_format.take(data, AT_MS)
    Catalog.open(data / NAME).close()


def killed_at(step: int, data: Path) -> bool:
    """Whether the migration ended before so many steps, which are syncs, renames and statements."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        assert status in (0, signal.SIGKILL)
        return status == 0
    try:
        left = [step]

        def counted(real: Callable[..., Any]) -> Callable[..., Any]:
            def run(*words: Any, **named: Any) -> Any:
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*words, **named)

            return run

        for name in ("fsync", "replace", "unlink"):
            setattr(os, name, counted(getattr(os, name)))
        change = Catalog.change
        catalogs.sync_directory = counted(catalogs.sync_directory)

        class Counting(Catalog):
            def change(self) -> Any:
                return _Counted(change(self), counted)

        Catalog.change = Counting.change  # type: ignore[method-assign]
        migrate(data)
        os._exit(0)
    finally:
        os._exit(7)


class _Counted:
    def __init__(self, inner: Any, counted: Callable[..., Any]) -> None:
        self._inner, self._counted = inner, counted

    def __enter__(self) -> Any:
        return self._counted(self._inner.__enter__())

    def __exit__(self, *failure: Any) -> Any:
        return self._counted(self._inner.__exit__)(*failure)


def test_a_kill_at_any_point_leaves_the_old_catalog_or_the_new_one(tmp_path: Path) -> None:
    ended, step, schemas = False, 0, []
    while not ended:
        data = recorded(KILLED, tmp_path / str(step))
        ended = killed_at(step, data)
        with closing(sqlite3.connect(data / NAME)) as database:
            schemas.append(database.execute("PRAGMA user_version").fetchone()[0])
            assert database.execute("PRAGMA quick_check").fetchone() == ("ok",)
        migrate(data)
        with closing(sqlite3.connect(data / NAME)) as database:
            assert database.execute("PRAGMA user_version").fetchone() == (len(SCHEMA),)
            topics = database.execute("SELECT name FROM topics ORDER BY name").fetchall()
        assert [name for (name,) in topics] == [
            "__consumer_offsets", "__transaction_state", "orders", "state",
        ]  # fmt: skip
        for copy in copies(data):
            with closing(sqlite3.connect(copy)) as database:
                assert database.execute("PRAGMA user_version").fetchone() == (13,)
        step += 1
    assert set(schemas) == {13, len(SCHEMA)}, "kills before and after"
    assert step == 15 + len(ADDITIONS), "and at each step between"
