"""Which URLs are targets, what is said of others, and of a library that is not there."""

from __future__ import annotations

import sys

import pytest
from fsspec.registry import _registry

from appliance.export import export_options, store_urls
from appliance.export.store_urls import UrlWrong
from appliance_spark import export_store
from appliance_spark.export_layout import ExportFailed
from appliance_spark.export_store import Store
from appliance_spark.export_store_target import StoreTarget, target_of


@pytest.mark.parametrize(("given", "wanted"), [
    ("s3://bucket/lake", "s3://bucket/lake"),
    ("s3a://bucket/a/b/", "s3://bucket/a/b"),
    ("gs://bucket/lake", "gs://bucket/lake"),
    ("gcs://bucket/lake", "gs://bucket/lake"),
    ("abfs://files@account.dfs.core.windows.net/lake",
     "abfs://files@account.dfs.core.windows.net/lake"),
    ("abfss://files@account.dfs.core.windows.net/a b", None),
    ("webhdfs://namenode:9870/lake/", "webhdfs://namenode:9870/lake"),
])  # fmt: skip
def test_a_url_is_written_in_one_way(given: str, wanted: str | None) -> None:
    target = target_of(given)
    assert isinstance(target, StoreTarget)
    assert target.where == (given if wanted is None else wanted)
    export_options.check_target(given)


@pytest.mark.parametrize(("given", "said"), [
    ("s3://key:secret@bucket/lake", "got a user or a password in the URL of s3://bucket/lake"),
    ("s3://key@bucket/lake", "got a user or a password in the URL of s3://bucket/lake"),
    ("abfs://files:secret@a.dfs.core.windows.net/x", "got a user or a password in the URL of abfs"),
    ("s3://bucket", r"got s3://bucket, wanted s3://BUCKET/FOLDER"),
    ("s3://bucket/a/../b", "wanted s3://BUCKET/FOLDER"),
    ("s3://bucket/a?secret=1", "got s3://bucket/a, wanted s3://BUCKET/FOLDER"),
    ("hdfs://host/x", "got hdfs://host/x, wanted webhdfs://NAMENODE:PORT/FOLDER for HDFS"),
    ("swebhdfs://host:9871/x", "wanted webhdfs://NAMENODE:PORT/FOLDER for HDFS"),
    ("webhdfs://host/x", "wanted webhdfs://NAMENODE:PORT/FOLDER, with a port"),
    ("webhdfs://host:http/x", "wanted webhdfs://NAMENODE:PORT/FOLDER, with a port"),
    ("webhdfs://ann@host:9870/x", "got a user or a password in the URL of webhdfs://host:9870/x"),
    ("webhdfs://host:9870", "got webhdfs://host:9870, wanted s3://BUCKET/FOLDER"),
    ("s3://me:secret@[x/lake", r"got the target s3://\[x/lake, which is no URL"),
    ("ftp://host/x", "got ftp://host/x, wanted a path, s3://BUCKET/FOLDER"),
])  # fmt: skip
def test_what_is_no_target_is_told_and_shows_no_secret(given: str, said: str) -> None:
    with pytest.raises(UrlWrong, match=said) as told:
        store_urls.checked(given)
    assert "secret" not in str(told.value)
    with pytest.raises(ExportFailed, match=said):
        target_of(given)
    with pytest.raises(export_options.DefinitionWrong, match=said):
        export_options.check_target(given)


@pytest.mark.parametrize(("url", "library", "extra"), [
    ("s3://bucket/lake", "s3fs", "s3"),
    ("gs://bucket/lake", "gcsfs", "gcs"),
    ("abfs://c@a.dfs.core.windows.net/lake", "adlfs", "abfs"),
    ("webhdfs://namenode:9870/lake", "requests", "hdfs"),
])  # fmt: skip
def test_a_missing_library_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, url: str, library: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(_registry, url.partition(":")[0], raising=False)  # what is loaded already
    monkeypatch.delitem(sys.modules, "appliance_spark.export_hdfs", raising=False)
    monkeypatch.delitem(sys.modules, "fsspec.implementations.webhdfs", raising=False)
    export_store._opened.cache_clear()
    with pytest.raises(ExportFailed, match=rf"(?i){library}.*appliance-log\[{extra}\]"):
        Store(url).read("x")


def test_a_name_node_that_is_not_there_is_one_sentence() -> None:
    """tests/export/test_hdfs_target.py asks real ones."""
    export_store._opened.cache_clear()
    with pytest.raises(ExportFailed, match="HDFS cannot be reached from here: check") as told:
        Store("webhdfs://127.0.0.1:1/lake").read("x")
    assert "\n" not in str(told.value)


def test_a_table_in_hdfs_is_refused_where_it_is_defined() -> None:
    table = {"table": "iceberg", "catalog": "main"}
    with pytest.raises(export_options.DefinitionWrong, match="got an Iceberg table of files in"):
        export_options.check({"target": "webhdfs://namenode:9870/lake", "options": table})
