"""`appliance export files`: the files of a target that count, for readers that would else list it.

In an object store a listing also shows files of runs that were killed, that have not ended, or that
a compaction has replaced; so readers take these names, or a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from appliance_spark import export_manifest, export_publish
from appliance_spark.export_layout import ExportFailed
from appliance_spark.export_store_target import AnyTarget


def rows(target: AnyTarget, topics: tuple[str, ...], is_dead_letter: bool
         ) -> Iterator[dict[str, Any]]:
    manifest = export_manifest.load_known(target)
    if unknown := sorted(set(topics) - set(manifest["topics"])):
        raise ExportFailed(f"{target.where} has no topic {', '.join(unknown)}, it has "
                           f"{', '.join(sorted(manifest['topics'])) or 'none'}")
    for file in manifest["files"]:
        if file["is_dead_letter"] == is_dead_letter and (not topics or file["topic"] in topics):
            yield {"file": export_publish.location(target, manifest, file["path"]),
                   "topic": file["topic"], "rows": file["rows"], "bytes": file["bytes"],
                   "commit": file["sequence"]}


def views(found: list[dict[str, Any]]) -> str:
    """For DuckDB: of each topic a view of its name, whose files are those of now."""
    of: dict[str, list[str]] = {}
    for row in found:
        of.setdefault(row["topic"], []).append(row["file"])
    return "\n".join(_view(topic, files) for topic, files in sorted(of.items()))


def _view(topic: str, files: list[str]) -> str:
    name = '"' + topic.replace('"', '""') + '"'
    listed = ",\n  ".join("'" + duckdb_url(each).replace("'", "''") + "'" for each in files)
    return (f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM read_parquet([\n  {listed}\n], "
            "hive_partitioning = true, union_by_name = true);")


def duckdb_url(text: str) -> str:
    """Azure's by the API of blobs, by which they were written: with abfs:// DuckDB asks the other
    host of the account, which not every service has."""
    parts = urlsplit(text)
    if not parts.scheme.startswith("abfs"):
        return text
    container, _, host = parts.netloc.rpartition("@")
    if not container:  # the account is in the settings alone
        return f"az://{host}{parts.path}"
    return f"az://{host.replace('.dfs.', '.blob.')}/{container}{parts.path}"
