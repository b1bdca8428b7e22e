"""An Iceberg table of each topic, which has exactly the files of the manifest.

    1 the manifest is committed: it is the truth, with or without a table
    2 the table follows: one snapshot adds missing files and removes surplus files; its properties
      have the manifest's commit and the exported offsets

The table stores its own progress, so a kill at any point is safe: a snapshot is in its catalog or
not, and the table continues from there. The table refers to the Parquet files of the manifest and
copies none. It has no dead letters.

docs/decisions/iceberg.md has the alternatives.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from appliance.export.store_urls import NO_ICEBERG, is_hdfs
from appliance_spark import export_manifest, export_publish
from appliance_spark.export_layout import ExportFailed, Target, make_folder, write_durably
from appliance_spark.export_store_target import AnyTarget

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

FOLDER = "_iceberg"  # in the target, for the default catalog and warehouse
NAME = "lake.{topic}"
HINT = "version-hint.text"
SNAPSHOTS_KEPT = export_manifest.RUNS_KEPT  # all are in each metadata file, so they must be few
SNAPSHOTS_MAX = SNAPSHOTS_KEPT + 50  # above it the oldest expire, not at each commit

COMMIT, OFFSETS, RUN = "appliance.commit", "appliance.offsets", "appliance.run"  # of a snapshot
TARGET, TOPIC = "appliance.target", "appliance.topic"  # of a table

PROPERTIES = {
    "gc.enabled": "false",  # the manifest needs the files
    "commit.retry.num-retries": "0",  # never on top of another writer
    "commit.manifest-merge.enabled": "true",  # merges the small manifests of runs
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}

Say = Callable[[str], None]
Settings = dict[str, Any]  # name of the tables, and the catalog's settings for pyiceberg


def settings(name: str | None, catalog: dict[str, str] | None) -> Settings:
    """The settings in the manifest."""
    name = name or NAME
    namespace, _, table = name.rpartition(".")
    if not namespace or not table:
        raise ExportFailed(f"got the table name {name!r}, wanted NAMESPACE.NAME, such as {NAME}")
    _check_catalog(catalog or {})
    return {"format": "iceberg", "name": name, "catalog": catalog or {}}


CATALOG_KEYS = ("name", "type", "uri", "warehouse")  # others can hold secrets, or name code to load
CATALOG_TYPES = ("sql", "rest", "hive", "glue", "dynamodb")


def _check_catalog(given: dict[str, str]) -> None:
    """Also checks settings in a manifest: whoever can write into a target must not run code
    here."""
    unknown = sorted(set(given) - set(CATALOG_KEYS))
    if unknown:
        raise ExportFailed(f"a catalog's {', '.join(unknown)} can be said in pyiceberg's own "
                           f"configuration alone, here only {', '.join(CATALOG_KEYS)}. {_OWN}")
    if given.get("type", "sql") not in CATALOG_TYPES:
        raise ExportFailed(f"got a catalog of type {given['type']!r}, wanted one of "
                           f"{', '.join(CATALOG_TYPES)}")
    if "@" in given.get("uri", "").split("://", 1)[-1].split("/", 1)[0]:
        raise ExportFailed(f"a catalog's uri has a user or a password. {_OWN}")


_OWN = ("Put its properties into ~/.pyiceberg.yaml or the environment "
        "(PYICEBERG_CATALOG__NAME__URI) of whoever runs exports, and give its name: "
        "`appliance export table --catalog name=NAME`")


def check(target: AnyTarget, manifest: dict[str, Any]) -> None:
    """Before a run starts: checks what would keep the table from following."""
    if manifest.get("table") is None:
        return
    try:
        import pyiceberg.catalog.sql  # noqa: F401
    except ImportError as error:
        raise ExportFailed(
            f"an Iceberg table wants pyiceberg: pip install 'appliance-log[iceberg]' ({error})"
        ) from error
    given = manifest["table"]["catalog"]
    if is_hdfs(target.where):
        raise ExportFailed(f"{target.where}: {NO_ICEBERG}")
    _check_catalog(given)
    if not given and not isinstance(target, Target):
        raise ExportFailed(
            f"{target.where}: an Iceberg table of files in an object store needs a catalog, which "
            "is what commits its snapshots there: --catalog name=NAME, or type=, uri=")
    if set(given) == {"name"} and not _is_configured(given["name"]):
        raise ExportFailed(f"there is no catalog {given['name']} here. {_OWN}")


def _is_configured(name: str) -> bool:
    from pyiceberg.utils.config import Config

    return Config().get_catalog_config(name) is not None


@contextmanager
def _catalog(target: AnyTarget, given: Settings) -> Iterator[Catalog]:
    from pyiceberg.catalog import load_catalog

    _check_catalog(given["catalog"])
    named = dict(given["catalog"])
    name = named.pop("name", "appliance")
    access = "appliance_spark.export_iceberg_io.DurableIO"
    if not isinstance(target, Target):
        access = "pyiceberg.io.fsspec.FsspecFileIO"  # finds the store as our own files do
        if "name" not in given["catalog"]:
            named.setdefault("warehouse", f"{target.where}/{FOLDER}")
    elif not given["catalog"]:
        make_folder(target.root / FOLDER)
        named = {"type": "sql", "uri": f"sqlite:///{target.root}/{FOLDER}/catalog.db",
                 "warehouse": f"file://{target.root}/{FOLDER}"}
    found = load_catalog(name, **{"py-io-impl": access, **named})
    try:
        yield found
    finally:
        found.close()


def identifier(given: Settings, topic: str) -> tuple[str, ...]:
    namespace, _, table = given["name"].rpartition(".")
    return (*namespace.split("."), table.replace("{topic}", topic))


def location(target: AnyTarget, manifest: dict[str, Any], path: str) -> str:
    """In its generation: readers of a snapshot find the file there after the link has switched."""
    found = export_publish.location(target, manifest, path)
    return found if "://" in found else f"file://{found}"


# State of the table

@dataclass
class State:
    """The state of a table at its current snapshot."""

    commit: int = 0  # of the manifest
    position: dict[int, int] = field(default_factory=dict)
    files: dict[str, DataFile] = field(default_factory=dict)
    twice: list[str] = field(default_factory=list)


def state_of(table: Table, target: AnyTarget, topic: str) -> State:
    _check_owner(table, target, topic)
    snapshot = table.current_snapshot()
    if snapshot is None:
        return State()
    told = snapshot.summary.additional_properties if snapshot.summary else {}
    tasks = list(table.scan().plan_files())
    if COMMIT not in told or any(task.delete_files for task in tasks):
        raise ExportFailed(
            f"table {_name(table)}: snapshot {snapshot.snapshot_id} was written by somebody else, "
            f"who may have changed its records. {_AGAIN}"
        )
    offsets = json.loads(told[OFFSETS])
    seen = Counter(task.file.file_path for task in tasks)
    return State(
        commit=int(told[COMMIT]),
        position={int(partition): ends[1] for partition, ends in offsets.items()},
        files={task.file.file_path: task.file for task in tasks},
        twice=sorted(path for path, count in seen.items() if count > 1),
    )


_AGAIN = "`appliance export table --again` builds the table again from the existing files"


def _check_owner(table: Table, target: AnyTarget, topic: str) -> None:
    found = (table.properties.get(TARGET), table.properties.get(TOPIC))
    if found == (target.where, topic):
        return
    if found == (None, None):
        raise ExportFailed(f"table {_name(table)} is there already, and was not made by an export")
    raise ExportFailed(
        f"table {_name(table)} is of topic {found[1]} in {found[0]}, wanted {topic} in "
        f"{target.where}. Was the folder moved? {_AGAIN}; another table wants another name"
    )


def _name(table: Table) -> str:
    return ".".join(table.name())


# State of the manifest

def _wanted(target: AnyTarget, manifest: dict[str, Any], topic: str) -> dict[str, dict[str, Any]]:
    return {location(target, manifest, file["path"]): file for file in manifest["files"]
            if file["topic"] == topic and not file["is_dead_letter"]}


@dataclass
class Step:
    """The changes from a table's state to the manifest's."""

    added: list[str]
    removed: list[DataFile]
    properties: dict[str, str]
    is_due: bool


def step(state: State, target: AnyTarget, manifest: dict[str, Any], topic: str) -> Step:
    if state.commit > manifest["sequence"]:
        raise ExportFailed(
            f"the table of {topic} is at commit {state.commit}, its manifest at "
            f"{manifest['sequence']}: was the manifest brought back from a copy? {_AGAIN}"
        )
    wanted = _wanted(target, manifest, topic)
    # A file that was exported again keeps its name, and may have other bytes.
    stays = {path for path in state.files.keys() - state.twice
             if path in wanted and wanted[path]["sequence"] <= state.commit}
    added = sorted(wanted.keys() - stays)
    removed = [file for path, file in sorted(state.files.items()) if path not in stays]
    position = export_manifest.position(manifest, topic)
    begin = manifest["topics"][topic]["begin"]
    offsets = {str(number): [state.position.get(number, begin[str(number)]), end]
               for number, end in sorted(position.items())}
    properties = {COMMIT: str(manifest["sequence"]), OFFSETS: json.dumps(offsets)}
    if manifest["runs"]:
        properties[RUN] = manifest["runs"][-1]["id"]
    return Step(added, removed, properties,
                bool(added or removed or position != state.position))


# Following

def follow(target: AnyTarget, manifest: dict[str, Any], say: Say) -> None:
    """Makes the tables equal to the manifest. The caller holds the target's lock."""
    with _tables(target, manifest) as tables:
        for table, topic in tables:
            due = step(state_of(table, target, topic), target, manifest, topic)
            if due.is_due:
                _commit(table, due)
                say(f"table {_name(table)}: {len(due.added)} files added, "
                    f"{len(due.removed)} removed")
            snapshots = sorted(table.metadata.snapshots, key=_age)
            if len(snapshots) > SNAPSHOTS_MAX:
                _forget(table, snapshots[:-SNAPSHOTS_KEPT])
            _hint(table, target)


def forget_before(target: AnyTarget, manifest: dict[str, Any], commit: int) -> None:
    """Snapshots with files that this commit replaced and that will be deleted."""
    with _tables(target, manifest) as tables:
        for table, topic in tables:
            _check_owner(table, target, topic)
            _forget(table, [each for each in table.metadata.snapshots if _told(each) < commit])
            _hint(table, target)


def drop(target: AnyTarget, manifest: dict[str, Any]) -> None:
    """Drops the tables only; the next `follow` builds them again."""
    from pyiceberg.exceptions import NoSuchTableError

    given = manifest["table"]
    if not given["catalog"] and isinstance(target, Target):  # also if it cannot be read any more
        shutil.rmtree(target.root / FOLDER, ignore_errors=True)
        return
    with _explained(), _catalog(target, given) as catalog:
        for topic in manifest["topics"]:
            with suppress(NoSuchTableError):
                catalog.drop_table(identifier(given, topic))


@contextmanager
def _tables(target: AnyTarget, manifest: dict[str, Any]) -> Iterator[Iterator[tuple[Table, str]]]:
    """The tables of topics with files, one after the other; creates missing ones."""
    given = manifest.get("table")
    topics = [topic for topic in sorted(manifest["topics"]) if _wanted(target, manifest, topic)]
    if given is None or not topics:
        yield iter(())
        return
    if any(letter in target.where for letter in "?#%"):
        raise ExportFailed(f"the target {target.where} has a ? # or %: an Iceberg table cannot "
                           "refer to its files")
    with _explained(), _catalog(target, given) as catalog:
        yield ((_opened(catalog, target, manifest, topic), topic) for topic in topics)


@contextmanager
def _explained() -> Iterator[None]:
    """If a table fails, the export is still complete."""
    try:
        yield
    except ExportFailed:
        raise
    except Exception as error:  # pyiceberg, SQLAlchemy and the catalogs have their own exceptions
        raise ExportFailed(
            f"the files are exported, but their table did not follow: {type(error).__name__}: "
            f"{error}. {_AGAIN}"
        ) from error


def _opened(
    catalog: Catalog, target: AnyTarget, manifest: dict[str, Any], topic: str
) -> Table:
    import pyarrow.parquet as pq
    from pyiceberg.exceptions import NoSuchTableError

    name = identifier(manifest["table"], topic)
    try:
        return catalog.load_table(name)
    except NoSuchTableError:
        catalog.create_namespace_if_not_exists(name[:-1])
        first = next(iter(_wanted(target, manifest, topic).values()))
        with target.files.open(first["path"]) as file:
            shape = pq.read_schema(file)
        own = {TARGET: target.where, TOPIC: topic}
        return catalog.create_table(name, shape, properties={**PROPERTIES, **own})


def _commit(table: Table, due: Step) -> None:
    """Commits one snapshot, with the columns of its files."""
    from pyiceberg.io.pyarrow import parquet_file_to_data_file
    from pyiceberg.table import TableProperties

    with table.transaction() as transaction:
        if transaction.table_metadata.name_mapping() is None:  # the files' columns have no ids
            mapping = transaction.table_metadata.schema().name_mapping.model_dump_json()
            transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})
        _widen(transaction, due.added, table)
        update = transaction.update_snapshot(snapshot_properties=due.properties)
        with (update.overwrite() if due.removed else update.merge_append()) as snapshot:
            for file in due.removed:
                snapshot.delete_data_file(file)
            for path in due.added:
                snapshot.append_data_file(
                    parquet_file_to_data_file(table.io, transaction.table_metadata, path))


def _widen(transaction: Any, added: list[str], table: Table) -> None:
    """Adds new fields as columns, within structs too; never removes one or changes its type."""
    import pyarrow.parquet as pq

    shapes = []
    for path in added:
        with table.io.new_input(path).open() as file:
            shape = pq.read_schema(file)
        if shape not in shapes:
            shapes.append(shape)
    for shape in shapes:
        with transaction.update_schema() as update:
            update.union_by_name(shape)


def _forget(table: Table, snapshots: list[Snapshot]) -> None:
    """Expires snapshots and deletes their own metadata files; no data."""
    kept = {ref.snapshot_id for ref in table.metadata.refs.values()}  # current, or a tag
    gone = {each.snapshot_id for each in snapshots} - kept
    if not gone:
        return
    files = {each.snapshot_id: _metadata_files(each, table) for each in table.metadata.snapshots}
    table.maintenance.expire_snapshots().by_ids(sorted(gone)).commit()
    still = set().union(*(paths for number, paths in files.items() if number not in gone))
    for path in sorted(set().union(*(files[number] for number in gone)) - still):
        table.io.delete(path)


def _metadata_files(snapshot: Snapshot, table: Table) -> set[str]:
    return {snapshot.manifest_list, *(each.manifest_path for each in snapshot.manifests(table.io))}


def _age(snapshot: Snapshot) -> int:
    return snapshot.sequence_number or 0


def _told(snapshot: Snapshot) -> int:
    """The table's commit of the manifest."""
    found = snapshot.summary.additional_properties if snapshot.summary else {}
    return int(found.get(COMMIT, 0))


def _hint(table: Table, target: AnyTarget) -> None:
    """Writes the name of the newest metadata, for readers without the catalog: DuckDB."""
    from appliance_spark.export_iceberg_io import local_path

    folder, _, last = table.metadata_location.rpartition("/")
    name, path = last.removesuffix(".metadata.json"), local_path(folder)
    if path is None and not folder.startswith(f"{target.where}/"):
        return  # the catalog's own place
    if path is None:
        with table.io.new_output(f"{folder}/{HINT}").create(overwrite=True) as file:
            file.write(name.encode())
        return
    hint = path / HINT
    if not hint.exists() or hint.read_text() != name:
        write_durably(hint, name)


# Checking

def problems(target: AnyTarget, manifest: dict[str, Any]) -> list[str]:
    """How the tables differ from the manifest."""
    found: list[str] = []
    if manifest.get("table") is None:
        return found
    check(target, manifest)
    with _explained(), _catalog(target, manifest["table"]) as catalog:
        for topic in sorted(manifest["topics"]):
            wanted = _wanted(target, manifest, topic)
            name = identifier(manifest["table"], topic)
            if not wanted:
                continue
            if not catalog.table_exists(name):
                found.append(f"table {'.'.join(name)} is missing. {_RUN}")
                continue
            found += _differences(catalog.load_table(name), target, manifest, topic)
    return found


_RUN = "The next run makes it equal"


def _differences(
    table: Table, target: AnyTarget, manifest: dict[str, Any], topic: str
) -> list[str]:
    name = f"table {_name(table)}"
    try:
        state = state_of(table, target, topic)
        due = step(state, target, manifest, topic)
    except ExportFailed as error:
        return [str(error)]
    problems = [f"{name}: {path} is in it twice" for path in state.twice]
    problems += [f"{name} lacks {path}. {_RUN}" for path in due.added]
    problems += [f"{name} has {file.file_path}, which the manifest has not" for file in due.removed]
    position = export_manifest.position(manifest, topic)
    if state.position != position:
        problems.append(f"{name} is at {state.position}, the manifest at {position}. {_RUN}")
    for path, file in _wanted(target, manifest, topic).items():
        held = state.files.get(path)
        if held is not None and (held.record_count, held.file_size_in_bytes) != (
            file["rows"], file["bytes"]
        ):
            problems.append(f"{name} has {path} with {held.record_count} rows and "
                         f"{held.file_size_in_bytes} bytes, wanted {file['rows']} and "
                         f"{file['bytes']}")
    return problems
