"""The options of an export's definition. Its author may be another person than the one who runs it:
the scheduler has its own user, folders and credentials. So a definition can only use a fixed list
of options, and names catalogs without their properties, which are in the scheduler's configuration.

The broker checks a definition when it is stored, and the export job again before it runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from appliance.export.store_urls import NO_ICEBERG, UrlWrong, checked, is_hdfs, is_url

SCHEMA_MAX = 1 << 20  # characters of a schema: a thousand fields with their documentation
GOT_MAX = 80  # characters of a value in a message
SCHEMAS = ("raw", "json", "avro", "registry")
LAYOUTS = ("hour", "day")  # of which a target has a folder each
ZONE_MAX = 100  # characters: twice the longest name of a zone
FILE_BYTES_MIN = 1 << 20  # of files: with less, names and footers are most of a target
CATALOG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}")
TABLE_NAME_MAX = 300  # characters: a topic's name of at most 249, and a namespace
WORD = re.compile(r"[A-Za-z0-9_-]+")  # in a table's name
PLACE = re.compile(r"(earliest|latest|-[12]|\d{1,18}|@\d{1,18}|@\d{4}-\d\d-\d\d\S*)$|\{", re.ASCII)
BOUND_MAX = 100_000  # characters: a map of ten thousand partitions


class DefinitionWrong(ValueError):
    """Checks a value and describes what is allowed. Shows no value that could be a secret."""


class Option(NamedTuple):
    is_right: Callable[[Any], bool]
    wanted: str
    is_shown: bool = True  # whether a message may show its value


def _is_number(least: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_bound(value: Any) -> bool:
    each = value.values() if isinstance(value, dict) else [value]
    return all(map(_is_place, each)) and len(str(value)) <= BOUND_MAX


def _is_place(value: Any) -> bool:
    """Or a text that is a map; whoever reads the log looks at times and maps more closely."""
    plain = isinstance(value, (str, int)) and not isinstance(value, bool)
    return plain and bool(PLACE.match(str(value).strip()))


def _one_of(*names: Any) -> Option:
    return Option(lambda value: value in names, " or ".join(map(repr, names)))


def _text(pattern: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and bool(pattern.fullmatch(value))


def _is_table(value: Any) -> bool:
    if not isinstance(value, str) or len(value) > TABLE_NAME_MAX:
        return False
    *namespace, name = value.split(".")
    words = [*namespace, name.replace("{topic}", "topic", 1)]
    return len(words) > 1 and all(WORD.fullmatch(each) for each in words)


def zone_fault(name: str) -> str:
    """Why there is no such zone here; empty if there is."""
    try:
        ZoneInfo(name)
    except (KeyError, OSError, ValueError) as error:
        return f"{error}. Wanted a name such as Europe/Berlin, of the table of zones (tzdata)"
    return ""


def _is_zone(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= ZONE_MAX and not zone_fault(value)


OPTIONS: dict[str, Option] = {
    "from": Option(_is_bound, "earliest, latest, an offset, @TIME, or a map by partition"),
    "to": Option(_is_bound, "earliest, latest, an offset, @TIME, or a map by partition"),
    "isolation": _one_of("read_committed", "read_uncommitted"),
    "accept_loss": _one_of(True, False),
    "grace_seconds": Option(_is_number(0), "0 or more"),
    "hold_bytes": Option(_is_number(0), "0 or more"),
    "split_bytes": Option(_is_number(1), "1 or more"),
    "layout": _one_of(*LAYOUTS),
    "zone": Option(_is_zone, "the name of a zone, such as Europe/Berlin"),
    "file_bytes": Option(_is_number(FILE_BYTES_MIN), f"{FILE_BYTES_MIN} or more"),
    "schema_json": Option(
        lambda value: isinstance(value, str) and len(value) <= SCHEMA_MAX,
        f"a schema as text, of {SCHEMA_MAX} characters at most"),
    "dead_letter_share": Option(
        lambda value: isinstance(value, (int, float)) and 0 <= value <= 1, "0 to 1"),
    "framing": _one_of("confluent", "none"),
    "table": _one_of("iceberg"),
    "delta": _one_of(True, False),
    "table_name": Option(
        _is_table,
        f"NAMESPACE.NAME, such as lake.{{topic}}, of {TABLE_NAME_MAX} characters at most"),
    "catalog": Option(
        _text(CATALOG), "the name of a catalog in pyiceberg's configuration of the scheduler",
        is_shown=False),
}


def check(definition: Mapping[str, Any]) -> None:
    """All options but the topics and the schedule."""
    check_options(definition.get("options") or {})
    check_target(definition["target"])
    way, schema = definition.get("partition_by"), definition.get("schema")
    if way is not None and not (isinstance(way, str)
                                and re.fullmatch(r"timestamp|append|field:.+", way)):
        raise DefinitionWrong(f"partition_by: got {_got(way)}, wanted timestamp, append or "
                              "field:NAME")
    if schema is not None and schema not in SCHEMAS:
        raise DefinitionWrong(f"schema: got {_got(schema)}, wanted one of {', '.join(SCHEMAS)}")
    _check_together(definition["target"], schema, definition.get("options") or {})


def _check_together(target: str, schema: Any, options: Mapping[str, Any]) -> None:
    """What each run would fail by, hours later."""
    if schema == "avro" and not options.get("schema_json"):
        raise DefinitionWrong(
            "options.schema_json: got none, wanted the schema of the values: schema avro reads all "
            "by one. If each value names its own, schema registry reads it")
    if options.get("table") is None:
        for name in ("table_name", "catalog"):
            if options.get(name) is not None:
                raise DefinitionWrong(
                    f"options.{name}: got one without a table, wanted table iceberg beside it")
    if is_url(target):
        _check_tables_of_store(target, options)


def _check_tables_of_store(target: str, options: Mapping[str, Any]) -> None:
    if options.get("table") is not None and is_hdfs(target):
        raise DefinitionWrong(f"options.table: {NO_ICEBERG}")
    if options.get("delta"):
        raise DefinitionWrong(
            "options.delta: got a Delta table of files in an object store, wanted one of a folder: "
            "it finds its files by links. In a store there is table iceberg")
    if options.get("table") is not None and not options.get("catalog"):
        raise DefinitionWrong(
            "options.catalog: got none for a table in an object store, wanted the name of a "
            "catalog in pyiceberg's configuration of the scheduler: only a folder has room for one")


def check_options(options: Mapping[str, Any]) -> None:
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        names = ", ".join(each[:GOT_MAX] for each in unknown[:10])
        raise DefinitionWrong(f"options {names} are not known, wanted only {', '.join(OPTIONS)}")
    for name, value in options.items():
        option = OPTIONS[name]
        if value is not None and not option.is_right(value):
            got = _got(value) if option.is_shown else type(value).__name__
            raise DefinitionWrong(f"options.{name}: got {got}, wanted {option.wanted}")


def check_target(target: str) -> None:
    """An absolute path, or the URL of a store; the scheduler checks whether it may write there."""
    if is_url(target):
        try:
            checked(target)
        except UrlWrong as error:
            raise DefinitionWrong(f"target: {error}") from error
        return
    path = PurePosixPath(target.removeprefix("file://"))
    if "\0" in target or ".." in path.parts or not path.is_absolute():
        raise DefinitionWrong(f"target: got {_got(target)}, wanted the absolute path of a folder, "
                              "without `..`, which all Spark workers see, or a URL as "
                              "s3://BUCKET/FOLDER")


def _got(value: Any) -> str:
    return repr(value)[:GOT_MAX]


def migrated(definition: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """In older versions a catalog was its properties, with secrets; only its name is kept. Returns
    the names of the dropped properties."""
    options = definition.get("options") or {}
    catalog = options.get("catalog")
    dropped = sorted(set(options) - set(OPTIONS))
    kept = {name: value for name, value in options.items() if name in OPTIONS}
    if isinstance(catalog, dict):
        dropped += [f"catalog.{key}" for key in sorted(catalog) if key != "name"]
        name = str(catalog.get("name") or definition["name"])
        kept["catalog"] = name if CATALOG.fullmatch(name) else "moved"
        if not catalog:
            del kept["catalog"]
    return {**definition, "options": kept}, dropped
