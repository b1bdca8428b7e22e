"""A target in an object store, against servers of S3, GCS, Azure and HDFS: what
commits, who may, what is swept, and what is said of a store that cannot be used.
tests/spark/test_export_store.py exports into one."""

from __future__ import annotations

import base64
import json
import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow.parquet as pq
import pytest

from appliance_spark import (
    export_layout,
    export_manifest,
    export_publish,
    export_store,
    export_store_target,
    export_write,
)
from appliance_spark.export_layout import ExportFailed
from appliance_spark.export_store import PART_BYTES, UPLOADS_HELD_MAX
from appliance_spark.export_store_target import StoreTarget
from appliance_spark.export_write import Writing
from tests.export.test_export_parts import BEGIN_MS, HOUR_MS, batch_of, split_of
from tests.support.azure_server import azurite, signed_settings_of
from tests.support.azure_server import settings_of as azure_settings_of
from tests.support.gcs_server import fake_gcs
from tests.support.object_stores import OF_STORES, SERVICES, Service, asked, store_service
from tests.support.release import gate_has
from tests.support.s3_server import Running, moto, unconditional, versity

# gcsfs gives aiohttp each part as bytes, on its own loop.
pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
BUCKET = "lake"
MIB = 1 << 20
of_stores = pytest.mark.parametrize("service", OF_STORES, indirect=True)


@pytest.fixture(scope="module", params=SERVICES)
def service(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with store_service(request.param, tmp_path_factory.mktemp("store"), BUCKET) as found:
        yield found


@pytest.fixture
def url(service: Service, tmp_path: Path) -> Iterator[str]:
    export_store._opened.cache_clear()
    yield f"{service.url(BUCKET)}/{tmp_path.name}"
    export_store._opened.cache_clear()


def written(target: StoreTarget, sequence: int) -> None:
    export_manifest.save(target, {**export_manifest.empty(), "sequence": sequence})


def sequence(url: str) -> int:
    return int(export_manifest.load(StoreTarget(url))["sequence"])


def test_of_two_that_follow_the_same_manifest_one_commits(url: str) -> None:
    first, second = StoreTarget(url), StoreTarget(url)
    written(first, 1)
    second._claim()  # as a run begins
    with pytest.raises(ExportFailed, match="another run, compaction or repair has begun"):
        written(first, 2)
    written(second, 3)
    assert sequence(url) == 3


def test_who_slept_while_old_manifests_were_deleted_commits_nothing(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_store_target, "KEPT", 3)
    sleeper, other = StoreTarget(url), StoreTarget(url)
    written(sleeper, 1)
    for number in range(2, 7):
        other._claim()
        written(other, number)
    assert f"{sleeper.number + 1:09d}" not in " ".join(other.files.names("_export/manifests"))
    with pytest.raises(ExportFailed, match="may not commit; nothing of it counts"):
        written(sleeper, 100)
    assert sequence(url) == 6


def test_a_commit_whose_answer_was_lost_is_known_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library asks twice, and the second time the object is there: its own."""
    target = StoreTarget(url)
    fs = export_store._opened(url)[0]
    once = fs.pipe_file

    def twice(path: str, data: bytes, **more: Any) -> None:
        once(path, data, **more)
        once(path, data, **more)

    monkeypatch.setattr(fs, "pipe_file", twice)
    written(target, 1)
    assert (sequence(url), target.number) == (1, 1)


def test_a_second_run_is_told_who_writes_and_a_dead_one_holds_nothing(url: str) -> None:
    target, name = StoreTarget(url), f"{socket.gethostname()}:{os.getpid()}"
    with (
        target.locked(),
        pytest.raises(ExportFailed, match=f"is being written by {name}: one run at a time"),
        StoreTarget(url).locked(),
    ):
        pass
    assert list(target.files.names("")) == []
    for who, until in ((f"{socket.gethostname()}:4194999", 1e12), ("elsewhere:1", 1)):
        target.files.put("_export/lock.json", json.dumps({"who": who, "until": until}).encode())
        with target.locked():
            pass
    target.files.put("_export/lock.json", b'{"who": "elsewhere:1", "until": 99999999999}')
    with pytest.raises(ExportFailed, match="by elsewhere:1"), target.locked():
        pass


@of_stores
def test_a_sweep_takes_what_earlier_runs_left_and_nothing_else(url: str) -> None:
    target = StoreTarget(url)
    written(target, 0)
    path = "topic=t/date=2026-11-21/hour=08/t+0000+1+2.parquet"
    names = []
    for number, data in enumerate((b"kept", b"lost", b"later")):
        target.number = max(number, 1) if number < 2 else 9
        file, entry = target.staging_of("x").attempt().start(path)
        file.write(data)
        file.close()
        names.append(entry["path"])
    for size in (4, PART_BYTES + MIB):  # none of it is sent, or a part
        torn, _ = target.staging_of("x").attempt().start(path)
        torn.write(b"t" * size)
        torn.abandon()
        del torn
    target.number = 5
    manifest = {**export_manifest.empty(), "files": [{"path": names[0]}]}
    assert export_publish.sweep(target, manifest) == 1
    assert sorted(target.data_files()) == sorted([names[0], names[2]])


# The others forget such parts by themselves.
@pytest.mark.parametrize("service", gate_has([moto], "the same of a server for production",
                                             [moto, versity]), indirect=True)  # fmt: skip
def test_a_sweep_aborts_uploads_that_earlier_runs_left_in_parts(
    url: str, service: Service
) -> None:
    target = StoreTarget(url)
    root = url.removeprefix("s3://").partition("/")[2]
    parts = [f"{root}/topic=t/x+w000000001-ab.parquet", f"{root}/topic=t/x+w000000009-ab.parquet",
             f"{root}2/topic=t/x+w000000001-ab.parquet"]  # fmt: skip
    for key in parts:
        service.client.call_s3("create_multipart_upload", Bucket=BUCKET, Key=key)
    target.number = 5
    assert export_publish.sweep(target, export_manifest.empty()) == 0
    left = service.client.call_s3("list_multipart_uploads", Bucket=BUCKET)["Uploads"]
    assert sorted(each["Key"] for each in left) == sorted(parts[1:])


@of_stores
def test_the_uploads_of_a_task_hold_no_more_than_their_bound(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three folders in turn, each of more than a part, so that all wait for the rest of one."""
    monkeypatch.setattr(export_write, "FILES_OPEN_MAX", 3)
    monkeypatch.setattr(export_write, "GROUP_BYTES", MIB)
    target, uploads, most = StoreTarget(url), [], 0
    make, write = export_store.Upload.__init__, export_store.Upload.write

    def made(upload: Any, *given: Any) -> None:
        make(upload, *given)
        uploads.append(upload)

    def written(upload: Any, data: Any) -> int:
        nonlocal most
        size = write(upload, data)
        waiting = [each._file.buffer for each in uploads if not each._file.closed]
        most = max(most, sum(each.tell() for each in waiting))
        return size

    monkeypatch.setattr(export_store.Upload, "__init__", made)
    monkeypatch.setattr(export_store.Upload, "write", written)
    records = [(i, random.Random(i).randbytes(MIB), BEGIN_MS + i % 3 * HOUR_MS) for i in range(36)]
    batches = (batch_of([each]) for each in records)
    done = export_write.write_split(target.staging_of("x"), split_of(0, 36), {"mode": "raw"},
                                    Writing("timestamp"), batches)
    assert PART_BYTES < most <= 3 * PART_BYTES
    assert 5 * MIB <= PART_BYTES <= UPLOADS_HELD_MAX // export_layout.FILES_OPEN_MAX
    assert len(done["files"]) == 3  # the bound made no more of them
    for file in done["files"]:
        with target.files.open(file["path"]) as opened:
            found = pq.read_table(opened)
        values = zip(found["offset"].to_pylist(), found["value"].to_pylist(), strict=True)
        assert found.num_rows == 12
        assert all(records[offset][1] == value for offset, value in values)


# The relay changes requests, which a server that checks signatures would refuse for that.
@pytest.mark.parametrize("service", gate_has([moto], "the condition of GCS and of Azure",
                                             [moto, fake_gcs, azurite]), indirect=True)  # fmt: skip
def test_a_store_without_conditional_writes_is_refused(url: str, service: Service) -> None:
    with unconditional(service.address) as relay:
        settings = service.speech.settings(relay)
        if url.startswith("abfs"):
            settings = signed_settings_of(relay, service.address)
        with (
            asked(service.speech, settings),
            pytest.raises(ExportFailed, match="overwrites an object that it was asked to write"),
            StoreTarget(url).locked(),
        ):
            pass
    assert list(StoreTarget(url).files.names("")) == []


@of_stores
def test_what_is_wrong_is_one_line_with_what_to_do(url: str, service: Service) -> None:
    nowhere = f"{service.url('no-such-one')}/lake"
    with pytest.raises(ExportFailed) as told, StoreTarget(nowhere).locked():
        pass
    assert "there is no such bucket, or container; create it first" in str(told.value)
    with pytest.raises(ExportFailed, match="no such bucket"):
        export_manifest.load_known(StoreTarget(nowhere))
    with pytest.raises(ExportFailed, match="no such bucket"):
        StoreTarget(nowhere).files.upload("x").close()
    closed = service.address.replace(f":{urlsplit(service.address).port}", ":1")
    with (
        asked(service.speech, {**service.speech.settings(closed), "AWS_MAX_ATTEMPTS": "1"}),
        pytest.raises(ExportFailed) as unreached,
    ):
        export_manifest.load(StoreTarget(url))
    assert "cannot be reached from here: check the address" in str(unreached.value)
    assert "\n" not in str(told.value) + str(unreached.value)


@pytest.mark.release("moto checks no signature; the errors above are told alike")
@pytest.mark.parametrize(("running", "name", "value", "said"), [
    (versity, "AWS_SECRET_ACCESS_KEY", "another", "check AWS_ACCESS_KEY_ID"),
    (versity, "AWS_ACCESS_KEY_ID", "another", "check AWS_ACCESS_KEY_ID"),
    (azurite, "AZURE_STORAGE_CONNECTION_STRING", "another", "AZURE_STORAGE_ACCOUNT_KEY"),
])  # fmt: skip
def test_wrong_credentials_are_told(
    tmp_path: Path, running: Running, name: str, value: str, said: str
) -> None:
    with store_service(running, tmp_path, BUCKET) as service:
        if running is azurite:
            other = base64.b64encode(value.encode()).decode()
            value = azure_settings_of(service.address, other)[name]
        with (
            asked(service.speech, {name: value}),
            pytest.raises(ExportFailed, match="does not know these credentials") as told,
        ):
            export_manifest.load(StoreTarget(f"{service.url(BUCKET)}/lake"))
        assert said in str(told.value)
        assert "\n" not in str(told.value)
        assert not any(each in str(told.value) for each in service.speech.secrets)
