"""Imports go downward only. The table is the architecture: a new room enters it on purpose."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

from tests.house.offenders import offenders

PACKAGE = Path(__file__).parents[2] / "appliance"

# From the ground up. What stands on a line may import what stands above it in this list, and
# nothing of its own line but itself. `storage/compaction` has a place of its own.
LAYERS = [
    ("__init__", "errors"),
    ("config",),
    ("process",),
    ("native", "certificates"),
    ("_crc",),
    ("record", "protocol", "machine"),
    ("storage",),
    ("storage/compaction",),
    ("_log",),
    ("network", "catalog"),
    ("data_dir", "access", "replication"),
    ("bulk", "doctor", "export", "installation", "schemas", "topics", "zookeeper"),
    ("repair", "groups", "backup", "upgrade", "cluster"),
    ("share", "txn"),
    ("broker",),
    ("alerts", "api", "history"),
    ("admin",),
    ("admin_http", "bulk_http", "client"),
    ("server", "mirror"),
    ("embedded", "cli"),
    ("testing",),
    ("__main__",),
]

DRAWN = 66  # the columns of the rooms in ARCHITECTURE.md; behind them is what they are

# Tighter than their height: these see nothing of the package but what is listed.
ONLY = {
    "protocol": {"errors", "native"},  # no I/O, no clock, no state: clients use it too
    "record": {"errors", "native", "_crc"},  # the same
    # not the broker whose client it is: it must run where there is none
    "client": {"__version__", "errors", "native", "process", "protocol", "record", "_crc"},
    # its parts ask, never a log
    "admin_http": {"admin", "bulk", "config", "errors", "process"},
    # a client of two clusters, neither of which need be on this machine
    "mirror": {"client", "errors", "process", "protocol", "record"},
    "__main__": {"cli", "process"},
}

# The packages beside it are clients, and see of it what they list. `spark/` is shipped to workers
# with all that it imports.
BESIDE = {
    "spark": {"__version__", "_crc", "cli", "client", "config", "errors", "export", "process",
              "record", "schemas"},
    "loadtest": {"__version__", "_crc", "client", "errors", "process", "protocol", "record"},
}

IMPORT = re.compile(
    r"^\s*(?:from\s+appliance(?:\.(?P<module>[\w.]+))?\s+c?import\s+(?P<names>\(.*?\)|[^\n(]+)"
    r"|c?import\s+appliance\.(?P<plain>[\w.]+))",
    re.MULTILINE | re.DOTALL,
)


def modules_of_cython(text: str) -> set[str]:
    found = set()
    for match in IMPORT.finditer(re.sub(r"#.*", "", text)):
        if match["plain"]:
            found.add(match["plain"])
            continue
        names = [name.split()[0] for name in match["names"].strip("()").split(",") if name.strip()]
        found |= {match["module"]} if match["module"] else set()
        found |= {f"{match['module']}.{name}" if match["module"] else name for name in names}
    return found


def modules_of_python(text: str) -> set[str]:
    """What is imported, by its name within the package: `errors`, `protocol`, `protocol.codec`."""
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


@functools.cache
def modules_of(path: Path) -> set[str]:
    """Kept: several tests ask, and to parse a file is what they take their time for."""
    text = path.read_text()
    return modules_of_python(text) if path.suffix == ".py" else modules_of_cython(text)


def room_of(module: str) -> str:
    """`storage.compaction._cleaner` lives in `storage/compaction`, `groups.lag` in `groups`."""
    head, _, rest = module.partition(".")
    nested = f"{head}/{rest.split('.')[0]}"
    return nested if any(nested in layer for layer in LAYERS) else head


def rooms_of(path: Path) -> set[str]:
    return {room_of(module) for module in modules_of(path)}


def against_the_layers(room: str, imported: set[str]) -> set[str]:
    """What a module in `room` imports although it may not."""
    heights = {name: height for height, layer in enumerate(LAYERS) for name in layer}
    imported = imported - {room}
    if room in ONLY:
        return imported - ONLY[room]
    top = len(LAYERS)
    imported -= {"__version__"}  # a name of the package itself
    return {name for name in imported if heights.get(name, top) >= heights[room]}


def files() -> list[Path]:
    return sorted(path for end in ("py", "pyx", "pxd") for path in PACKAGE.rglob(f"*.{end}"))


def files_beside() -> list[Path]:
    return sorted(path for name in BESIDE for path in (PACKAGE.parent / name).rglob("*.py"))


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def test_every_room_is_in_the_table() -> None:
    table = [name for layer in LAYERS for name in layer]
    assert len(table) == len(set(table))
    assert {room_of(module_of(path)) for path in files()} == set(table)


def test_the_rooms_are_drawn_as_they_are() -> None:
    text = (PACKAGE.parent / "ARCHITECTURE.md").read_text()
    drawn = text.split("## Rooms")[1].split("```")[1].strip().splitlines()
    rooms = [set(line[:DRAWN].split()) for line in drawn]
    table = [set(layer) - {"__init__", "__main__"} for layer in reversed(LAYERS)]
    assert rooms == [layer for layer in table if layer]


def test_every_room_has_a_head() -> None:
    """Three lines: what lives there, and what may enter."""
    rooms = {path.parent for path in files()}
    assert [str(room) for room in rooms if not (room / "__init__.py").exists()] == []


def upward(path: Path) -> set[str]:
    return against_the_layers(room_of(module_of(path)), rooms_of(path))


def test_imports_go_downward() -> None:
    assert offenders(files(), upward) == {}


def unlisted(path: Path) -> set[str]:
    return rooms_of(path) - BESIDE[path.relative_to(PACKAGE.parent).parts[0]]


def test_packages_beside_see_what_they_list() -> None:
    assert offenders(files_beside(), unlisted) == {}


@pytest.mark.parametrize(
    ("room", "text"),
    [
        ("storage", "from appliance.network._fetch cimport answer\n"),
        ("storage", "from appliance.storage.compaction._cleaner cimport clean\n"),
        ("_crc", "from appliance.native._codes cimport (\n    OK,\n)\ncimport appliance._log\n"),
        ("storage", "from appliance cimport (\n    _crc,\n    _log as log,\n)\n"),
        ("storage", "cimport appliance.network._control_plane_inbox\n"),
    ],
)
def test_an_upward_cimport_is_found(room: str, text: str) -> None:
    assert against_the_layers(room, {room_of(module) for module in modules_of_cython(text)})


@pytest.mark.parametrize(
    ("room", "text"),
    [
        ("config", "import appliance.server\n"),
        ("config", "from . import errors\n"),
        ("config", "def late():\n    from appliance.data_dir import log_dir\n"),
        ("admin_http", "from appliance.data_dir.log_dir import LogDir\n"),
        ("protocol", "from appliance.config import BrokerConfig\n"),
    ],
)
def test_an_upward_import_is_found(room: str, text: str) -> None:
    assert against_the_layers(room, {room_of(module) for module in modules_of_python(text)})
