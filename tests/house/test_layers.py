"""Imports go downward only. The table is the architecture: a new module enters it on purpose.

A folder of the package has one place in the table, whatever is in it.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "appliance"

# From the ground up. A module may import (or cimport) what stands on a line above its own.
LAYERS = [
    ("log_repeats",),
    ("__init__", "errors", "event_log", "wall_clock", "same_machine", "spoken", "page_cache",
     "stop_signals", "_native", "_socket", "_wake_soon", "_codes", "_bytes"),
    ("closures", "owner_only", "request_queue", "_traffic", "_codec", "patterns",
     "export_options", "unattended"),
    ("config", "compression", "wire", "_crc", "_files", "_records", "_frame", "_watch",
     "_kafka_error", "_record_hash"),
    ("command", "progress", "kafka_uuid", "kept", "zookeeper_nodes", "zookeeper_server"),
    ("catalog", "partition_metadata", "machine", "believed_clock"),
    ("ledger", "_descriptors"),
    ("descriptors",),
    ("_batch", "_index", "_journal", "_offset_map", "_read_faults", "_watermarks", "promises"),
    ("_batch_join", "_columns", "_producers", "_record_builder", "_segment", "log_files",
     "config_key"),
    ("_mirror", "_segment_reader", "_storage", "_partition_dir", "_record_reader", "arrow",
     "topic_config", "acls", "scram", "client_quotas"),
    ("_log", "_kafka_dir", "_replacement", "_disk_reader", "log_verify"),
    ("_holes", "_open_logs", "_search", "_cold_reads"),
    ("_salvage",),
    ("_committer", "_quota", "_recovery", "_survivors", "_topics"),
    ("_plane", "_relief"),
    ("_connection",),
    ("_produce", "_fetch_session"),
    ("_fetch", "_list_offsets"),
    ("_processor",),
    ("_retention",),
    ("_cleanable",),
    ("_cleaner",),
    ("_engine",),
    ("_data_plane", "_log_waits", "_log_writer", "_export", "_scrub",
     "_repair"),
    ("recovery_report", "broker_configs", "set_aside"),
    ("log_dir",),
    ("topics", "topic_directories", "client_metrics", "group_configs",
     "export", "scrub", "repair"),
    ("internal_topic", "refused_reads"),
    ("reconciliation", "groups", "topic_table"),
    ("txn", "share", "reopening"),
    ("broker",),
    ("handlers",),
    ("dispatch", "protocol_page", "zookeeper", "health"),
    ("admin",),
    ("admin_http",),
    ("client",),
    ("mirror",),
    ("server",),
    ("testing",),
    ("remote",),
    ("log_command", "disk_bench"),
    ("bench_command",),
    ("cli",),
    ("__main__",),
]

# Tighter than their height: these see nothing of the package but what is listed.
ONLY = {
    "wire": {"errors", "_codec"},  # no I/O, no clock, no state: clients use it too
    # not the broker whose client it is: it must run where there is none
    "client": {"__version__", "errors", "same_machine", "event_log", "patterns", "wire",
               "compression", "_crc", "_records", "_batch", "_record_builder", "_record_reader",
               "_columns", "arrow"},
    # its parts ask, never a log
    "admin_http": {"admin", "config", "errors", "event_log", "export"},
    # a client of two clusters, neither of which need be on this machine
    "mirror": {"client", "command", "errors", "event_log", "patterns", "wire", "_batch", "_mirror"},
    "__main__": {"cli", "stop_signals"},
}

# The packages beside it are clients, and see of it what they list. `spark/` is shipped to workers
# with all that it imports.
BESIDE = {
    "spark": {"__version__", "_batch", "_columns", "_crc", "_record_builder", "_record_hash",
              "arrow", "client", "compression", "errors", "event_log", "export_options",
              "patterns", "remote"},
    "loadtest": {"__version__", "_batch", "_crc", "_record_builder", "_record_reader", "client",
                 "compression", "errors", "wire"},
}

IMPORT = re.compile(
    r"^\s*(?:from\s+appliance\s+c?import\s+(?P<names>\(.*?\)|[^\n(]+)"
    r"|from\s+appliance\.(?P<module>\w+)\b"
    r"|c?import\s+appliance\.(?P<plain>\w+))",
    re.MULTILINE | re.DOTALL,
)


def imports_of_cython(text: str) -> set[str]:
    found = set()
    for match in IMPORT.finditer(re.sub(r"#.*", "", text)):
        if match["names"]:
            names = match["names"].strip("()").split(",")
            found |= {name.split()[0] for name in names if name.strip()}
        else:
            found.add(match["module"] or match["plain"])
    return found


def modules_of_python(text: str) -> set[str]:
    """What is imported, by its name within the package: `errors`, `wire`, `wire.codec`."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                found.add("appliance." + "?" * node.level)  # hides its direction: has no layer
            elif node.module:
                found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return {name.removeprefix("appliance.") for name in found if name.startswith("appliance.")}


def imports_of_python(text: str) -> set[str]:
    return {name.split(".")[0] for name in modules_of_python(text)}


def imports_of(path: Path) -> set[str]:
    text = path.read_text()
    return imports_of_python(text) if path.suffix == ".py" else imports_of_cython(text)


def against_the_layers(module: str, imported: set[str]) -> set[str]:
    """What `module` imports although it may not."""
    heights = {name: height for height, layer in enumerate(LAYERS) for name in layer}
    if module in ONLY:
        return imported - ONLY[module] - {module}
    top = len(LAYERS)
    imported = imported - {module, "__version__"}  # a name of the package itself
    return {name for name in imported if heights.get(name, top) >= heights[module]}


def files() -> list[Path]:
    return sorted(path for end in ("py", "pyx", "pxd") for path in PACKAGE.rglob(f"*.{end}"))


def files_beside() -> list[Path]:
    return sorted(path for name in BESIDE for path in (PACKAGE.parent / name).rglob("*.py"))


def place_of(path: Path) -> str:
    """The name under which a file stands in the table."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def test_every_module_is_in_the_table() -> None:
    table = [name for layer in LAYERS for name in layer]
    assert len(table) == len(set(table))
    assert {place_of(path) for path in files()} == set(table)


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_downward(path: Path) -> None:
    assert not against_the_layers(place_of(path), imports_of(path))


@pytest.mark.parametrize("path", files_beside(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_packages_beside_see_what_they_list(path: Path) -> None:
    assert imports_of(path) <= BESIDE[path.relative_to(PACKAGE.parent).parts[0]]


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("_index", "from appliance._segment cimport Segment\n"),
        ("_index", "from appliance._crc cimport (\n    crc32c,\n)\nfrom appliance cimport _log\n"),
        ("_index", "from appliance cimport (\n    _crc,\n    _log as log,\n)\n"),
        ("_index", "cimport appliance._committer\n"),
    ],
)
def test_an_upward_cimport_is_found(module: str, text: str) -> None:
    assert against_the_layers(module, imports_of_cython(text))


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("config", "import appliance.server\n"),
        ("config", "from . import errors\n"),
        ("config", "def late():\n    from appliance import errors, log_dir\n"),
        ("admin_http", "from appliance.log_dir import LogDir\n"),
        ("wire", "from appliance.config import BrokerConfig\n"),
    ],
)
def test_an_upward_import_is_found(module: str, text: str) -> None:
    assert against_the_layers(module, imports_of_python(text))
