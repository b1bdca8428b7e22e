"""Backups of a broker that is in use, with real clients: what the restored broker has, what the
next backup reads, and what stays in a target."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient

from appliance.backup import manifest
from appliance.backup.manifest import Manifest
from appliance.backup.source import Frame, RangeOf, Readable
from appliance.data_dir import data_marker
from appliance.data_dir.log_dir import LogDir
from appliance.errors import DataNewer
from appliance.testing import RunningBroker, running_broker
from tests.support.backups import (
    DEADLINE_S,
    QUIET,
    SMALL_SEGMENTS,
    Backups,
    commit,
    committed,
    consumed,
    make_topic,
    numbered,
    produce,
    transactional,
    values,
)
from tests.support.logs import STORAGE, opened
from tests.support.people import PASSWORD, logged_in, make_people
from tests.support.rest import Rest
from tests.support.shell import Shell


def test_a_restored_broker_has_what_was_acknowledged_and_its_groups_go_on(
    appliance_broker: RunningBroker, backups: Backups
) -> None:
    make_topic(appliance_broker, "clicks", 2, SMALL_SEGMENTS)
    produce(appliance_broker, "clicks", numbered(0, 500))
    produce(appliance_broker, "clicks", ["one"], partition=1)
    commit(appliance_broker, "readers", "clicks", 123)
    before = Rest(appliance_broker.admin).get("/topics/clicks")
    made = backups.create(appliance_broker)
    produce(appliance_broker, "clicks", ["behind the point"])
    assert (made["is_whole"], made["missing"]) == (True, [])
    with backups.restored() as broker:
        assert values(broker, "clicks") == numbered(0, 500)
        assert values(broker, "clicks", 1) == ["one"]
        assert committed(broker, "readers", "clicks") == 123
        topic = Rest(broker.admin).get("/topics/clicks")
        assert (topic["id"], topic["configs"]) == (before["id"], before["configs"])
        produce(broker, "clicks", ["more"])
        assert consumed(broker, "clicks", start=500) == [(500, "more")]


def test_a_directory_that_an_installation_made_is_restored_into_and_keeps_its_marker(
    appliance_broker: RunningBroker, backups: Backups, tmp_path: Path
) -> None:
    make_topic(appliance_broker, "clicks")
    produce(appliance_broker, "clicks", ["one"])
    backups.create(appliance_broker)
    data = tmp_path / "installed"
    data.mkdir()
    data_marker.write(data, "3f6c02a8d1b47e95")
    told = Shell("").out("backup restore", "--target", backups.target, "--data-dir", str(data))
    assert "Start it: sudo appliance install --start" in told
    with running_broker(data, {"data.marker": "3f6c02a8d1b47e95"}) as broker:
        assert values(broker, "clicks") == ["one"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be refused in what others own")
def test_root_restores_nothing_that_the_brokers_user_could_not_open(
    appliance_broker: RunningBroker, backups: Backups, tmp_path: Path
) -> None:
    backups.create(appliance_broker)
    data = tmp_path / "of-another"
    data.mkdir()
    os.chown(data, 4242, 4242)
    told = Shell("").run("backup restore", "--target", backups.target, "--data-dir", str(data))
    assert told.exit_code == 1
    assert "sudo -u #4242 appliance backup restore" in told.output
    assert list(data.iterdir()) == []


def test_only_what_is_new_is_read(appliance_broker: RunningBroker, backups: Backups) -> None:
    make_topic(appliance_broker, "clicks", 1, SMALL_SEGMENTS)
    produce(appliance_broker, "clicks", numbered(0, 1000))
    first = backups.create(appliance_broker)
    assert first["read_bytes"] > 100_000
    assert backups.create(appliance_broker)["read_bytes"] == 0
    produce(appliance_broker, "clicks", numbered(1000, 1010))
    third = backups.create(appliance_broker)
    # with the batch that was last, which is compared
    assert 1000 < third["read_bytes"] < 30_000
    with backups.restored() as broker:
        assert values(broker, "clicks") == numbered(0, 1010)
    with backups.restored("--backup", first["backup"]) as broker:
        assert values(broker, "clicks") == numbered(0, 1000)


def test_the_first_backup_after_a_restore_reads_what_is_new(
    appliance_broker: RunningBroker, backups: Backups
) -> None:
    make_topic(appliance_broker, "clicks", 1, SMALL_SEGMENTS)
    produce(appliance_broker, "clicks", numbered(0, 1000))
    assert backups.create(appliance_broker)["read_bytes"] > 100_000
    with backups.restored() as broker:
        produce(broker, "clicks", ["more"])
        assert backups.create(broker)["read_bytes"] < 30_000
    with backups.restored() as broker:
        assert values(broker, "clicks") == [*numbered(0, 1000), "more"]


def test_a_history_that_began_anew_at_an_older_backup_is_not_mixed_with_the_other(
    appliance_broker: RunningBroker, backups: Backups
) -> None:
    make_topic(appliance_broker, "clicks")
    produce(appliance_broker, "clicks", ["a", "b"])
    first = backups.create(appliance_broker)
    produce(appliance_broker, "clicks", ["lost 2", "lost 3"])
    backups.create(appliance_broker)
    with backups.restored("--backup", first["backup"]) as broker:
        produce(broker, "clicks", ["other 2", "other 3"])
        produce(broker, "clicks", ["other 4"])
        backups.create(broker)
    with backups.restored() as broker:
        assert values(broker, "clicks") == ["a", "b", "other 2", "other 3", "other 4"]


def test_transactions_are_whole_and_what_was_open_is_aborted(
    appliance_broker: RunningBroker, backups: Backups
) -> None:
    for name in ("from", "to"):
        make_topic(appliance_broker, name)
    producer = transactional(appliance_broker.bootstrap, "mover")
    for end in (producer.commit_transaction, producer.abort_transaction, None):
        producer.begin_transaction()
        producer.produce("from", str(end))
        producer.produce("to", str(end))
        assert producer.flush(DEADLINE_S) == 0
        if end is not None:
            end(DEADLINE_S)
    backups.create(appliance_broker)
    with backups.restored() as broker:
        successor = transactional(
            broker.bootstrap, "mover"
        )  # aborts what its predecessor left open
        successor.begin_transaction()
        successor.produce("from", "next")
        successor.produce("to", "next")
        successor.commit_transaction(DEADLINE_S)
        wanted = [str(producer.commit_transaction), "next"]
        assert [len(values(broker, each)) for each in ("from", "to")] == [2, 2]
        assert values(broker, "from")[1] == values(broker, "to")[1] == wanted[1]


def test_producers_and_epochs_are_those_of_the_point(tmp_path: Path, backups: Backups) -> None:
    """Also of a producer of which no batch is left, and epochs in which nothing was written."""
    with running_broker(tmp_path / "data") as broker:
        make_topic(broker, "clicks", 1, SMALL_SEGMENTS)
        for number in range(3):
            settings = {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, **QUIET}
            producer = ck.Producer(settings)
            for value in numbered(100 * number, 100 * number + 60):
                producer.produce("clicks", value, partition=0)
                producer.flush(DEADLINE_S)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, **QUIET})
        place = ck.TopicPartition("clicks", 0, 150)
        admin.delete_records([place])[place].result(DEADLINE_S)
    for _ in range(3):
        LogDir.open(tmp_path / "data", STORAGE).abandon()  # as if it were killed
    with running_broker(tmp_path / "data") as broker:
        before = Rest(broker.admin).get("/logs")["logs"]
        backups.create(broker)
    data = backups.restore()
    with opened(tmp_path / "data") as was, opened(data) as now:
        for key, log in was.logs().items():
            assert sorted(now.log(*key).producers()) == sorted(log.producers())
        assert len(now.log("clicks", 0).producers()) == 3
    with running_broker(data) as broker:
        for old, new in zip(before, Rest(broker.admin).get("/logs")["logs"], strict=True):
            assert new["log_end_offset"] == old["log_end_offset"]
            assert new["leader_epoch"] > old["leader_epoch"], "clients ignore what is older"


def test_deleted_records_do_not_come_back(
    appliance_broker: RunningBroker, backups: Backups
) -> None:
    make_topic(appliance_broker, "clicks", 1, SMALL_SEGMENTS)
    produce(appliance_broker, "clicks", numbered(0, 300))
    admin = AdminClient({"bootstrap.servers": appliance_broker.bootstrap, **QUIET})
    place = ck.TopicPartition("clicks", 0, 250)
    admin.delete_records([place])[place].result(DEADLINE_S)
    make_topic(appliance_broker, "emptied")
    produce(appliance_broker, "emptied", ["a", "b"])
    place = ck.TopicPartition("emptied", 0, 2)
    admin.delete_records([place])[place].result(DEADLINE_S)
    backups.create(appliance_broker)
    with backups.restored() as broker:
        logs = {each["topic"]: each for each in Rest(broker.admin).get("/logs")["logs"]}
        assert logs["clicks"]["log_start_offset"] == 250
        assert logs["emptied"]["log_start_offset"] == logs["emptied"]["log_end_offset"] == 2
        assert values(broker, "clicks", start=250) == numbered(250, 300)
        produce(broker, "emptied", ["c"])
        assert consumed(broker, "emptied", start=2) == [(2, "c")]


def test_users_and_rules_are_restored_and_only_administrators_make_backups(
    tmp_path: Path, backups: Backups
) -> None:
    make_people(tmp_path / "data")
    with running_broker(tmp_path / "data") as broker:
        ada = logged_in(broker, "ada")
        tokens = {
            role: ada.post("/tokens", {"name": role, "role": role})["token"]
            for role in ("operator", "admin")
        }
        shell = Shell(broker.admin, tokens["operator"])
        refused = shell.run("backup create", "--target", backups.target)
        assert refused.exit_code == 1
        assert "administrator" in refused.output
        assert backups.list() == []
        Shell(broker.admin, tokens["admin"]).out("backup create", "--target", backups.target)
        trail = ada.get("/audit")["entries"]
        assert [each["who"] for each in trail if "backup" in each["action"]] == ["token admin"]
    with backups.restored() as broker:
        assert logged_in(broker, "vera", PASSWORD).get("/session")["name"] == "vera"


def test_one_topic_is_restored_with_its_groups_and_no_other(
    appliance_broker: RunningBroker, backups: Backups
) -> None:
    for name in ("wanted", "other"):
        make_topic(appliance_broker, name)
        produce(appliance_broker, name, [f"of {name}"])
    commit(appliance_broker, "readers", "wanted", 1)
    backups.create(appliance_broker)
    with backups.restored("--topic", "wanted") as broker:
        assert values(broker, "wanted") == ["of wanted"]
        assert committed(broker, "readers", "wanted") == 1
        assert [each["name"] for each in Rest(broker.admin).get("/topics")["topics"]] == ["wanted"]
    where = ("--target", backups.target, "--data-dir", str(backups.folder / "none"))
    result = Shell("").run("backup restore", *where, "--topic", "absent")
    assert (result.exit_code, "it has other, wanted" in result.output) == (3, True)


def test_the_newest_before_a_time_is_restored(
    appliance_broker: RunningBroker, backups: Backups
) -> None:
    make_topic(appliance_broker, "clicks")
    made = []
    for value in ("a", "b"):
        produce(appliance_broker, "clicks", [value])
        made.append(backups.create(appliance_broker))
    between = f"{made[1]['backup'][:15]}"
    found = backups.list()
    assert [each["backup"] for each in found] == [each["backup"] for each in made]
    early = Shell("").run("backup restore", "--target", backups.target, "--data-dir",
                          str(backups.folder / "none"), "--to", "2026-01-01")  # fmt: skip
    assert (early.exit_code, "no backup as old as that" in early.output) == (3, True), between
    with backups.restored("--to", "-0s") as broker:
        assert values(broker, "clicks") == ["a", "b"]


def test_a_test_of_a_restore_proves_it_and_is_noted(
    appliance_broker: RunningBroker, backups: Backups
) -> None:
    make_topic(appliance_broker, "clicks", 3, SMALL_SEGMENTS)
    produce(appliance_broker, "clicks", numbered(0, 300))
    backups.create(appliance_broker)
    scratch = backups.folder / "scratch"
    scratch.mkdir()
    told = Shell("").json("backup restore --test", "--target", backups.target, "--data-dir",
                          str(scratch))  # fmt: skip
    assert (told["partitions"], told["records"]) == (3, 300)
    assert list(scratch.iterdir()) == []
    assert backups.list()[0]["tested"]["records"] == 300


def test_health_tells_of_backups_that_fail_or_are_overdue(tmp_path: Path, backups: Backups) -> None:
    def findings(broker: RunningBroker) -> list[str]:
        told = Rest(broker.admin).get("/health")["findings"]
        return [each["text"] for each in told if each["area"] == "backup"]

    with running_broker(tmp_path / "data", {"backup.overdue.ms": "1"}) as broker:
        assert findings(broker) == [], "nobody has wanted one"
        backups.create(broker)
        (text,) = findings(broker)
        assert text.startswith("the last whole backup is of 2")
    with running_broker(tmp_path / "data") as broker:
        assert findings(broker) == []
        (victim,) = backups.files()
        content = victim.read_bytes()
        victim.write_bytes(b"gone")
        test = ("--target", backups.target, "--admin", broker.admin)
        assert Shell("").run("backup restore --test", *test).exit_code == 1
        (text,) = findings(broker)
        assert text.startswith(f"the last restore test ({backups.target}) failed at 2")
        victim.write_bytes(content)
        Shell("").out("backup restore --test", *test)
        assert findings(broker) == []
        told = Rest(broker.admin).get("/health")["backups"]
        assert (told["is_overdue"], told["last"]["fault"], told["test"]["fault"]) == (False, "", "")
        assert told["last"]["bytes"] > told["test"]["bytes"] == 0


def test_a_flipped_bit_is_found_wherever_it_is(
    appliance_broker: RunningBroker, backups: Backups
) -> None:
    make_topic(appliance_broker, "clicks")
    produce(appliance_broker, "clicks", numbered(0, 50))
    backups.create(appliance_broker)
    assert backups.verify()[0] == 0
    files = [*backups.files(), *backups.files("manifests")]
    assert len(files) == 3  # records, catalog, manifest
    for path in files:
        data = path.read_bytes()
        for position in (0, len(data) // 2, len(data) - 1):
            damaged = bytearray(data)
            damaged[position] ^= 0x10
            path.write_bytes(damaged)
            code, found = backups.verify()
            assert (code, [each["path"] for each in found["damaged"]]) == (
                10,
                [str(path.relative_to(backups.target))],
            )
        path.write_bytes(data)
    assert backups.verify()[0] == 0


def test_a_newer_manifest_is_not_a_damaged_one(
    appliance_broker: RunningBroker, backups: Backups
) -> None:
    make_topic(appliance_broker, "clicks")
    backups.create(appliance_broker)
    (path,) = backups.files("manifests")
    name, told = f"manifests/{path.name}", json.loads(path.read_bytes().partition(b"\n")[0])

    def rewritten(**more: Any) -> Manifest:
        line = json.dumps({**told, **more}).encode()
        return manifest.of_bytes(name, line + b"\n" + manifest.checksum(line) + b"\n")

    with pytest.raises(DataNewer, match=f"{name} has format 2, and this appliance knows up to 1"):
        rewritten(format=2)
    # and what a newer one of the same format adds is left out
    assert rewritten(more=1).id == told["id"]


def test_damaged_objects_are_read_from_the_broker_again(
    appliance_broker: RunningBroker, backups: Backups
) -> None:
    make_topic(appliance_broker, "clicks")
    produce(appliance_broker, "clicks", numbered(0, 50))
    backups.create(appliance_broker)
    victim = max(backups.files(), key=lambda path: b"v00001" in path.read_bytes())
    victim.write_bytes(b"gone")
    assert backups.verify("--remove-damaged")[0] == 10
    assert backups.create(appliance_broker)["read_bytes"] > 1000
    assert backups.verify()[0] == 0


def test_a_topic_that_is_deleted_while_it_is_read_is_left_out(
    appliance_broker: RunningBroker, backups: Backups, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("deleted", "kept"):
        make_topic(appliance_broker, name, 1, SMALL_SEGMENTS)
        produce(appliance_broker, name, numbered(0, 300))
    read, guard, admin = RangeOf._frames, threading.Lock(), AdminClient({
        "bootstrap.servers": appliance_broker.bootstrap, **QUIET})  # fmt: skip

    def read_and_delete(of: RangeOf, stream: Readable) -> Iterator[Frame]:
        for frame in read(of, stream):
            yield frame
            with guard:  # of all that read it the first
                if of.log.topic == "deleted" and "deleted" in admin.list_topics().topics:
                    admin.delete_topics(["deleted"])["deleted"].result(DEADLINE_S)

    with monkeypatch.context() as patch:
        patch.setattr(RangeOf, "_frames", read_and_delete)
        made = backups.create(appliance_broker)
    assert (made["gone"], made["is_whole"]) == (["deleted"], True)
    with backups.restored() as broker:
        assert [each["name"] for each in Rest(broker.admin).get("/topics")["topics"]] == ["kept"]
        assert values(broker, "kept") == numbered(0, 300)


def test_backups_go_on_by_themselves(appliance_broker: RunningBroker, backups: Backups) -> None:
    command = [sys.executable, "-m", "appliance", "backup", "create", "--every", "0.1", "--target",
               backups.target, "--admin", appliance_broker.admin]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        told = [running.stdout.readline() for _ in range(3)]
        running.kill()
    assert all(each.startswith("backup 2") for each in told), told
    assert backups.verify()[0] == 0


def test_retention_removes_what_no_backup_names_and_nothing_else(
    appliance_broker: RunningBroker, backups: Backups
) -> None:
    make_topic(appliance_broker, "kept")
    produce(appliance_broker, "kept", ["kept"])
    make_topic(appliance_broker, "deleted")
    produce(appliance_broker, "deleted", numbered(0, 50))
    first = backups.create(appliance_broker)
    admin = AdminClient({"bootstrap.servers": appliance_broker.bootstrap, **QUIET})
    admin.delete_topics(["deleted"])["deleted"].result(DEADLINE_S)
    second = backups.create(appliance_broker, "--keep", "2")
    assert any(b"v00001" in path.read_bytes() for path in backups.files())
    third = backups.create(appliance_broker, "--keep", "2")
    assert [each["backup"] for each in backups.list()] == [second["backup"], third["backup"]]
    assert first["backup"] not in str(backups.files("manifests"))
    assert not any(b"v00001" in path.read_bytes() for path in backups.files())
    assert backups.verify()[0] == 0
    with backups.restored() as broker:
        assert values(broker, "kept") == ["kept"]


def test_a_key_encrypts_all_that_a_target_has(
    appliance_broker: RunningBroker, backups: Backups, tmp_path: Path
) -> None:
    keys = [tmp_path / name for name in ("key", "other")]
    for number, key in enumerate(keys):
        key.write_text(bytes([number] * 32).hex() + "\n")
    make_topic(appliance_broker, "clicks")
    produce(appliance_broker, "clicks", numbered(0, 50))
    with_key = ("--key-file", str(keys[0]))
    backups.create(appliance_broker, *with_key)
    for path in [*backups.files(), *backups.files("manifests")]:
        assert path.read_bytes()[:4] == b"ABK1"
        assert b"clicks" not in path.read_bytes()
    assert backups.verify(*with_key)[0] == 0
    assert backups.verify()[0] == 1
    assert backups.verify("--key-file", str(keys[1]))[0] == 10
    with backups.restored(*with_key) as broker:
        assert values(broker, "clicks") == numbered(0, 50)


def test_each_cluster_has_its_own_target(
    appliance_broker: RunningBroker, backups: Backups, tmp_path: Path
) -> None:
    backups.create(appliance_broker)
    with running_broker(tmp_path / "second") as other:
        result = Shell("").run("backup create", "--target", backups.target, "--admin", other.admin)
    assert (result.exit_code, "give each its own target" in result.output) == (1, True)
    assert len(backups.list()) == 1


def test_words_for_targets_that_are_not_right(
    appliance_broker: RunningBroker, backups: Backups, tmp_path: Path
) -> None:
    def told(line: str, *more: str) -> tuple[int, str]:
        result = Shell(appliance_broker.admin).run(f"backup {line}", *more)
        return result.exit_code, result.output

    assert told("list", "--target", str(tmp_path / "none"))[0] == 1
    (tmp_path / "unmounted").mkdir()
    code, text = told("create --existing", "--target", str(tmp_path / "unmounted"))
    assert (code, "there is no backup" in text) == (3, True)
    assert told("verify", "--target", str(tmp_path / "unmounted"))[0] == 3
    code, text = told("create --rate x", "--target", backups.target)
    assert (code, "wanted bytes a second" in text) == (2, True)
    backups.create(appliance_broker)
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine").write_text("of somebody")
    code, text = told("restore", "--target", backups.target, "--data-dir", str(full))
    assert (code, "wanted an empty directory" in text) == (1, True)
    assert [each.name for each in full.iterdir()] == ["mine"]
    assert json.loads(told("list --json", "--target", backups.target)[1])


def test_a_target_that_cannot_be_read_is_not_taken_for_an_empty_one(
    appliance_broker: RunningBroker, backups: Backups
) -> None:
    backups.create(appliance_broker)
    manifests = Path(backups.target) / "manifests"
    manifests.rename(manifests.with_name("aside"))
    manifests.symlink_to(manifests.name)  # also root cannot read it
    for line in ("list", "verify", "create --existing", "restore --test"):
        result = Shell(appliance_broker.admin).run(f"backup {line}", "--target", backups.target)
        assert (result.exit_code, "manifests cannot be read" in result.output) == (1, True), line
