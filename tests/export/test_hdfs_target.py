"""A target in HDFS, against NameNode and DataNode: what is done there otherwise than in a store.
tests/export/test_store_target.py and tests/spark/test_export_store.py have the rest."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec
import pytest

from appliance_spark import export_hdfs, export_manifest, export_publish
from appliance_spark.export_layout import ExportFailed
from appliance_spark.export_store import Store, Upload
from appliance_spark.export_store_target import StoreTarget
from tests.support.hdfs_server import DATANODE, DFS_ADMIN, NAMENODE, ROOT, USER, Hdfs, hdfs_service
from tests.support.web_hdfs_relay import Passing, relay_before

pytestmark = pytest.mark.release(
    "HDFS is a download of its own; tests/export/test_store_urls.py has the URLs and an error, and "
    "tests/export/test_store_target.py the same target in S3")
ROUNDS, WRITERS = 50, 4
MIB = 1 << 20


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    with hdfs_service(tmp_path_factory.mktemp("hdfs")) as found:
        yield found


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return f"{ROOT}/{tmp_path.name}"


@pytest.fixture
def url(hdfs: Hdfs, folder: str) -> str:
    return f"{hdfs.url}{folder}"


@contextmanager
def behind(hdfs: Hdfs, folder: str, passing: Passing) -> Iterator[StoreTarget]:
    with relay_before(hdfs.port, passing) as port:
        yield StoreTarget(f"webhdfs://127.0.0.1:{port}{folder}")


def written(target: StoreTarget, sequence: int) -> None:
    export_manifest.save(target, {**export_manifest.empty(), "sequence": sequence})


def sequence(url: str) -> int:
    return int(export_manifest.load(StoreTarget(url))["sequence"])


def test_of_writers_at_once_one_wins_in_each_round(hdfs: Hdfs, url: str, folder: str) -> None:
    begin, won = threading.Barrier(WRITERS), [[0] * WRITERS for _ in range(ROUNDS)]

    def write(writer: int) -> None:
        store = Store(url)
        for number in range(ROUNDS):
            begin.wait()
            won[number][writer] = store.put_new(f"m/{number:09d}.json", b"%d" % writer * 999)

    writers = [threading.Thread(target=write, args=(each,)) for each in range(WRITERS)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    assert [sum(each) for each in won] == [1] * ROUNDS
    assert len({each.index(True) for each in won}) > 1  # not always the same: they did race
    for number, each in enumerate(won):
        assert Store(url).read(f"m/{number:09d}.json") == b"%d" % each.index(True) * 999
    assert len(hdfs.files(folder)) == ROUNDS  # nothing of those that lost is left


HALF = """
import sys, time
from appliance_spark import export_hdfs, export_manifest
from appliance_spark.export_store_target import StoreTarget

def half(upload, data):
    whole(upload, data[:len(data) // 2])
    print("half", flush=True)
    time.sleep(999)

target = StoreTarget(sys.argv[1])
target._claim()
whole, export_hdfs.HdfsUpload.write = export_hdfs.HdfsUpload.write, half
export_manifest.save(target, {**export_manifest.empty(), "sequence": 2})
"""


def test_a_manifest_whose_writer_was_killed_in_it_counts_nowhere(
    hdfs: Hdfs, url: str, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(StoreTarget(url), 1)
    with subprocess.Popen([sys.executable, "-c", HALF, url], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"half\n"
        writer.kill()
    (torn,) = (name for name in hdfs.files(folder) if "/.000000003.json+" in name)
    target = StoreTarget(url)
    assert list(target.files.names("")) == [f"_export/manifests/00000000{i}.json" for i in (1, 2)]
    with target.locked():
        assert export_publish.sweep(target, export_manifest.load(target)) == 0
        assert torn in hdfs.files(folder)  # its writer might be alive
        monkeypatch.setattr(export_hdfs, "LEFT_MS", -1)
        export_publish.sweep(target, export_manifest.load(target))
        assert torn not in hdfs.files(folder)
        written(target, 2)
    assert sequence(url) == 2


@pytest.mark.parametrize("is_passed", [True, False], ids=["answer-lost", "request-lost"])
def test_a_commit_is_known_again_if_a_line_broke(
    hdfs: Hdfs, url: str, folder: str, is_passed: bool
) -> None:
    cut = Passing(cuts="RENAME", times=1, is_passed=is_passed)
    with behind(hdfs, folder, cut) as target:
        written(target, 1)
    assert (sequence(url), target.number, cut.times) == (1, 1, 0)
    assert len(hdfs.files(folder)) == 1


def test_who_never_hears_whether_it_committed_fails_and_the_next_run_sees_which(
    hdfs: Hdfs, url: str, folder: str
) -> None:
    with behind(hdfs, folder, Passing(cuts="RENAME", times=9)) as target:
        with pytest.raises(ExportFailed, match="HDFS cannot be reached from here"):
            written(target, 1)
        assert target.number == 0
    assert sequence(url) == 1  # here it had
    with StoreTarget(url).locked():
        pass
    assert sequence(url) == 1


def test_hdfs_behind_something_that_replaces_is_refused_at_the_start(
    hdfs: Hdfs, url: str, folder: str
) -> None:
    with (
        behind(hdfs, folder, Passing(replaces=True)) as target,
        pytest.raises(ExportFailed, match="overwrites an object that it was asked to write only"),
        target.locked(),
    ):
        pass
    assert list(StoreTarget(url).files.names("")) == []


def test_a_sweep_takes_what_killed_writers_left_and_empty_folders(
    hdfs: Hdfs, url: str, folder: str
) -> None:
    target = StoreTarget(url)
    written(target, 0)
    names = []
    for number, hour in ((1, "08"), (1, "09"), (9, "09")):
        target.number = number
        path = f"topic=t/date=2026-11-21/hour={hour}/t+0000+1+2.parquet"
        file, entry = target.staging_of("x").attempt().start(path)
        file.write(b"x" * MIB)
        if number > 1:
            file.close()
        else:
            file._file._at.sock.close()  # as the kernel does for who is killed
        names.append(entry["path"])
    target.store_plan({"id": "r-000001"})
    target.forget_plan("r-000001")
    target.number = 5
    assert export_publish.sweep(target, export_manifest.empty()) == 2
    assert list(target.data_files()) == [names[2]]
    left = {name.removeprefix(f"{folder}/") for name in folders(hdfs, folder)}
    assert left == {"_export", "_export/manifests", "topic=t", "topic=t/date=2026-11-21",
                    "topic=t/date=2026-11-21/hour=09"}
    target.delete([names[2], "_export/manifests/000000001.json"])
    assert folders(hdfs, ROOT) >= {folder}  # which somebody may have made, with rights and a quota


def folders(hdfs: Hdfs, path: str) -> set[str]:
    found = hdfs.ask("GET", path, "LISTSTATUS").json()["FileStatuses"]["FileStatus"]
    names = {f"{path}/{each['pathSuffix']}" for each in found if each["type"] == "DIRECTORY"}
    return names.union(*(folders(hdfs, each) for each in names))


def test_a_file_is_of_the_user_synced_to_disk_and_never_written_twice(
    hdfs: Hdfs, url: str, folder: str
) -> None:
    store, before = Store(url), hdfs.syncs()
    data = bytes(range(256)) * 40_000  # more than two blocks
    upload = store.upload("topic=t/a b+w000000001-ä.parquet")
    for at in range(0, len(data), 1_000_000):
        upload.write(memoryview(data)[at:at + 1_000_000])
        upload.write(b"")
    upload.close()
    assert hdfs.syncs() >= before + 3  # a block each, and more of their folders
    (found,) = hdfs.files(folder).values()
    assert (found["owner"], found["length"], upload.tell()) == (USER, len(data), len(data))
    (name,) = store.names("")
    assert store.read(name) == data
    with store.open(name) as opened:
        opened.seek(5_000_000)
        assert opened.read(9) == data[5_000_000:5_000_009]
    with fsspec.open(f"{url}/{name}") as opened:  # its usual client
        assert opened.read() == data
    with pytest.raises(ExportFailed, match="already exists"):
        store.upload(name).close()
    assert store.read(name) == data


def test_what_hdfs_refuses_is_one_sentence(
    hdfs: Hdfs, url: str, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def said(store: Store, write: Any = None) -> str:
        with pytest.raises(ExportFailed) as told:
            (write or (lambda store: store.put_new("x", b"1")))(store)
        assert "\n" not in str(told.value)
        return str(told.value)

    assert "does not let this user do it: HADOOP_USER_NAME says who" in said(Store(f"{hdfs.url}/x"))
    assert "cannot be reached" in said(Store(f"webhdfs://127.0.0.1:{hdfs.rpc}/x"))

    hdfs.folder_of(folder, USER)
    hdfs.change(folder, "SETQUOTA", namespacequota=1000, storagespacequota=5 * MIB)
    assert "a quota of HDFS is full there" in said(Store(url), large)
    hdfs.change(folder, "SETQUOTA", namespacequota=1, storagespacequota=-1)
    assert "a quota of HDFS is full there" in said(Store(url))
    hdfs.change(folder, "SETQUOTA", namespacequota=-1, storagespacequota=-1)
    assert Store(url).put_new("x", b"1")

    hdfs.tool(DFS_ADMIN, "-safemode", "enter")
    assert "the NameNode is in safe mode" in said(Store(url))
    hdfs.tool(DFS_ADMIN, "-safemode", "leave")
    for status, words in ((401, "wants a login (Kerberos)"), (404, "nothing speaks WebHDFS")):
        with behind(hdfs, folder, Passing(status=status)) as target:
            assert words in said(target.files)


def large(store: Store) -> None:
    fill(store.upload("large"))


def fill(upload: Upload) -> None:
    for _ in range(16):
        upload.write(b"x" * MIB)
    upload.close()


def test_a_killed_data_node_or_name_node_fails_what_is_written_and_loses_nothing(
    hdfs: Hdfs, url: str
) -> None:
    target = StoreTarget(url)
    written(target, 1)
    upload = target.files.upload("topic=t/x+w000000001-ab.parquet")
    upload.write(b"x" * MIB)
    hdfs.kill(DATANODE)
    with pytest.raises(ExportFailed, match="a DataNode does not answer"):
        fill(upload)
    with pytest.raises(ExportFailed, match="a DataNode does not answer"):
        written(target, 2)
    hdfs.kill(NAMENODE)
    with pytest.raises(ExportFailed, match="HDFS cannot be reached from here"):
        target.exists()
    hdfs.start()
    assert sequence(url) == 1
    written(target, 2)
    assert sequence(url) == 2
