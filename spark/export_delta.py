"""A Delta table of each topic, which has exactly the files of the manifest, as the Iceberg one.

    _delta/T/_delta_log     the table of topic T
    _delta/T/_generations   links to where its files are: a table names them below its own folder
    _delta/T/_topic

The manifest is committed first, then the table follows: one commit adds and removes files. It has
Delta's `txn` action with the number of the manifest's commit, so that a run that was killed between
both, or repeated, adds nothing twice. Tools leave names with an underscore alone when they clean a
table's folder up (VACUUM), so they do not delete files of the manifest.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from appliance_spark import export_generation, export_manifest
from appliance_spark.export_layout import OWN, ExportFailed, Target, make_folder, sync_folder
from appliance_spark.export_store_target import AnyTarget

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, CommitProperties

FOLDER = "_delta"
GENERATIONS, PLAIN = "_generations", "_topic"  # the second for folders of older versions
COMMIT, OFFSETS, RUN = "appliance.commit", "appliance.offsets", "appliance.run"  # of a commit
BOUNDED = ("offset", "_offset", "timestamp", "_timestamp")  # columns whose ends let readers skip

Say = Callable[[str], None]
_AGAIN = "`appliance export table --again` builds the table again from the existing files"


def check(target: AnyTarget, manifest: dict[str, Any]) -> None:
    """Before a run starts."""
    if not manifest.get("delta"):
        return
    if not isinstance(target, Target):
        raise ExportFailed(
            f"{target.where}: got a Delta table (--delta, delta=true) of files in an object store, "
            "wanted one of a folder: its links to the files are names of a file system. A table "
            "in a store is Iceberg's (--table iceberg)")
    try:
        import deltalake  # noqa: F401
    except ImportError as error:
        raise ExportFailed(
            f"a Delta table wants deltalake: pip install 'appliance-log[delta]' ({error})"
        ) from error


def place(target: Target, topic: str) -> Path:
    return target.root / FOLDER / topic


def path_in_table(target: Target, manifest: dict[str, Any], path: str) -> str:
    """In its generation, so that a reader of an older version finds it until the grace ends."""
    home = export_generation.home(target, manifest, path)
    if home.is_relative_to(target.generations):
        return f"{GENERATIONS}/{home.relative_to(target.generations)}"
    return f"{PLAIN}/{path.split('/', 1)[1]}"


# State

@dataclass
class State:
    commit: int  # of the manifest
    files: set[str]


def _app(manifest: dict[str, Any]) -> str:
    return f"appliance-export-{manifest['id']}"


def state_of(table: DeltaTable, manifest: dict[str, Any]) -> State:
    last = table.history(1)[0]
    if COMMIT not in last:
        raise ExportFailed(
            f"table {table.table_uri}: version {table.version()} was written by somebody else "
            f"({last.get('operation')}), who may have changed its records. {_AGAIN}")
    commit = table.transaction_version(_app(manifest))
    if commit is None and table.version() > 0:
        raise ExportFailed(f"table {table.table_uri} is of another target. {_AGAIN}")
    if (commit or 0) > manifest["sequence"]:
        raise ExportFailed(
            f"table {table.table_uri} is at commit {commit}, its manifest at "
            f"{manifest['sequence']}: was the manifest brought back from a copy? {_AGAIN}")
    paths = table.get_add_actions(flatten=True)["path"].to_pylist()
    return State(commit or 0, set(paths))


def _wanted(target: Target, manifest: dict[str, Any], topic: str) -> dict[str, dict[str, Any]]:
    return {path_in_table(target, manifest, file["path"]): file for file in manifest["files"]
            if file["topic"] == topic and not file["is_dead_letter"]}


def _topics(target: Target, manifest: dict[str, Any]) -> list[str]:
    if not manifest.get("delta"):
        return []
    return [topic for topic in sorted(manifest["topics"]) if _wanted(target, manifest, topic)]


# Following

def follow(target: Target, manifest: dict[str, Any], say: Say) -> None:
    """Makes the tables equal to the manifest. The caller holds the target's lock."""
    for topic in _topics(target, manifest):
        with _explained():
            _follow(target, manifest, topic, say)


def _follow(target: Target, manifest: dict[str, Any], topic: str, say: Say) -> None:
    table = _opened(target, manifest, topic)
    state, wanted = state_of(table, manifest), _wanted(target, manifest, topic)
    again = {path for path in state.files & wanted.keys()
             if wanted[path]["sequence"] > state.commit}  # other bytes under the same name
    removed, added = (state.files - wanted.keys()) | again, wanted.keys() - state.files
    if again:  # one commit cannot have both
        _commit(table, target, manifest, topic, [], sorted(removed), state.commit)
        removed, added = set(), added | again
    if not removed and not added and state.commit == manifest["sequence"]:
        return
    _commit(table, target, manifest, topic, sorted(added), sorted(removed), manifest["sequence"])
    if added or removed:
        say(f"Delta table {topic}: {len(added)} files added, {len(removed)} removed")


def _opened(target: Target, manifest: dict[str, Any], topic: str) -> DeltaTable:
    from deltalake import DeltaTable

    folder = place(target, topic)
    make_folder(folder)
    for name, to in ((GENERATIONS, f"{OWN}/generations"), (PLAIN, f"topic={topic}")):
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"../../{to}")
            sync_folder(folder)
    if DeltaTable.is_deltatable(str(folder)):
        return DeltaTable(str(folder))
    first = next(iter(_wanted(target, manifest, topic).values()))
    table = DeltaTable.create(
        str(folder), _schema(target, [first]), name=topic,
        commit_properties=_properties(manifest, topic, None))
    _sync(table)
    return table


def _schema(target: Target, files: list[dict[str, Any]]) -> Any:
    """Columns of all of them; never fewer types than one for a column."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from deltalake import Schema

    shapes = [pq.read_schema(target.root / file["path"]).remove_metadata() for file in files]
    return Schema.from_arrow(pa.unify_schemas(shapes))


def _properties(
    manifest: dict[str, Any], topic: str, commit: int | None
) -> CommitProperties:
    from deltalake.transaction import CommitProperties, Transaction

    position = export_manifest.position(manifest, topic)
    told = {COMMIT: str(commit or 0), OFFSETS: json.dumps(position)}
    if manifest["runs"]:
        told[RUN] = manifest["runs"][-1]["id"]
    transactions = [] if commit is None else [Transaction(_app(manifest), commit)]
    return CommitProperties(  # never on top of another writer
        custom_metadata=told, max_commit_retries=0, app_transactions=transactions)


def _commit(
    table: DeltaTable, target: Target, manifest: dict[str, Any], topic: str, added: list[str],
    removed: list[str], commit: int,
) -> None:
    from deltalake.transaction import RemoveAction

    wanted = _wanted(target, manifest, topic)
    _widen(table, target, manifest, topic, [wanted[path] for path in added])
    actions = [_added(target, path, wanted[path]) for path in added]
    now_ms = round(time.time() * 1000)
    gone = [RemoveAction(path=path, data_change=True, deletion_timestamp=now_ms)
            for path in removed]
    table.create_write_transaction(
        [*actions, *gone], "append", table.schema(),
        commit_properties=_properties(manifest, topic, commit))
    _sync(table)


def _widen(
    table: DeltaTable, target: Target, manifest: dict[str, Any], topic: str,
    files: list[dict[str, Any]],
) -> None:
    """Adds new fields as columns, within structs too; never removes one or changes its type."""
    if not files:
        return
    known = {field.name: field for field in table.schema().fields}
    new = [field for field in _schema(target, files).fields if known.get(field.name) != field]
    if new:
        table.alter.add_columns(
            new, commit_properties=_properties(manifest, topic, None))
        _sync(table)


def _added(target: Target, path: str, file: dict[str, Any]) -> AddAction:
    from deltalake.transaction import AddAction

    stat = (target.root / file["path"]).stat()
    return AddAction(
        path, stat.st_size, {}, round(stat.st_mtime * 1000), True,
        json.dumps({"numRecords": file["rows"], **_ends(target.root / file["path"])}))


def _ends(path: Path) -> dict[str, Any]:
    """The smallest and largest offset and time, from the footer."""
    import pyarrow.parquet as pq

    found, ends = pq.read_metadata(path), dict[str, list[Any]]()
    for i in range(found.num_row_groups):
        for j in range(found.num_columns):
            column = found.row_group(i).column(j)
            if column.path_in_schema in BOUNDED and column.is_stats_set:
                both = column.statistics.min, column.statistics.max
                ends.setdefault(column.path_in_schema, []).extend(both)
    ends = {name: each for name, each in ends.items() if None not in each}
    return {"minValues": {name: _plain(min(each)) for name, each in ends.items()},
            "maxValues": {name: _plain(max(each)) for name, each in ends.items()}}


def _plain(value: Any) -> Any:
    """Records' times are whole milliseconds, so none is cut."""
    if isinstance(value, int):
        return value
    return f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03d}Z"


def _sync(table: DeltaTable) -> None:
    """The library does not, nor does it go on to the version of its own commit."""
    table.update_incremental()
    log = Path(table.table_uri.removeprefix("file://")) / "_delta_log"
    descriptor = os.open(log / f"{table.version():020d}.json", os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    sync_folder(log)


def drop(target: Target, manifest: dict[str, Any]) -> None:
    """The tables only, also such as cannot be read any more."""
    if manifest.get("delta"):
        shutil.rmtree(target.root / FOLDER, ignore_errors=True)


@contextmanager
def _explained() -> Iterator[None]:
    """If a table fails, the export is still complete."""
    from deltalake.exceptions import DeltaError

    try:
        yield
    except (DeltaError, OSError, ValueError) as error:  # Arrow's errors are the last
        raise ExportFailed(
            f"the files are exported, but their Delta table did not follow: "
            f"{type(error).__name__}: {str(error).splitlines()[0]}. {_AGAIN}") from error


# Checking

def problems(target: Target, manifest: dict[str, Any]) -> list[str]:
    """How the tables differ from the manifest."""
    from deltalake import DeltaTable

    check(target, manifest)
    found: list[str] = []
    for topic in _topics(target, manifest):
        folder = str(place(target, topic))
        if not DeltaTable.is_deltatable(folder):
            found.append(f"Delta table {topic} is missing. The next run makes it equal")
            continue
        try:
            with _explained():
                state = state_of(DeltaTable(folder), manifest)
        except ExportFailed as error:
            found.append(str(error))
            continue
        wanted = _wanted(target, manifest, topic)
        found += [f"Delta table {topic} lacks {path}. The next run makes it equal"
                  for path in sorted(wanted.keys() - state.files)]
        found += [f"Delta table {topic} has {path}, which the manifest has not"
                  for path in sorted(state.files - wanted.keys())]
    return found
