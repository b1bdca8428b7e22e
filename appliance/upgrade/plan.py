"""What the start of this build would do to a data directory: formats, migrations, refusals, and
whether the older build can go on with the data afterwards. Nothing is written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from appliance import __version__
from appliance.catalog.catalog import COPIES_MAX
from appliance.config import BrokerConfig, dynamic_broker_config
from appliance.data_dir import data_format, data_marker, promised_offsets, unfinished_restore
from appliance.data_dir.data_format import FIRST, OURS, DataFormat
from appliance.errors import ApplianceError
from appliance.process.spoken import size, some
from appliance.upgrade.catalog_dry_run import DryRun, dry_run

ROOM_BYTES = 4 << 20  # for the journal's next generation and small files, beside the catalog

BECOMES_A_CLUSTER = (
    "zookeeper.connect is set, and zookeeper.format is cluster, its default: topics of this box's "
    "own become a cluster's at the start, and an older build is refused from then on. If the "
    "broker is only to be found in that ZooKeeper, set zookeeper.format=original"
)


class Migration(NamedTuple):
    what: str
    touches: str


@dataclass
class Plan:
    """`found` "": there is no data yet."""

    data_dir: Path
    found: str = ""
    by: str = ""
    migrations: list[Migration] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # to know, and no reason to refuse
    refused: list[str] = field(default_factory=list)
    needed_bytes: int = 0
    free_bytes: int = 0
    is_way_back_open: bool = True
    way_back: str = ""

    @property
    def sentence(self) -> str:
        if self.refused:
            return f"A start of this build would be refused: {some(len(self.refused), 'reason')}."
        if not self.found:
            return "There is no data yet."
        if not self.migrations:
            return "Nothing is to be migrated."
        return f"A start migrates it from {self.found} to {OURS}."

    def as_json(self) -> dict[str, Any]:
        return {
            "data_dir": str(self.data_dir),
            "found": {"format": self.found, "by": self.by},
            "build": {"appliance": __version__, "format": str(OURS)},
            "migrations": [each._asdict() for each in self.migrations],
            "notes": self.notes,
            "refused": self.refused,
            "space": {"needed_bytes": self.needed_bytes, "free_bytes": self.free_bytes},
            "way_back": {"is_open": self.is_way_back_open, "how": self.way_back},
            "sentence": self.sentence,
        }


def plan(config: BrokerConfig) -> Plan:
    made = Plan(config.data_dir.absolute())
    directory = made.data_dir
    made.refused += refusals(directory, config.data_marker)
    if not directory.is_dir():
        return made
    try:
        told = data_format.read(directory)
    except ApplianceError:
        told = None  # refused already
    try:
        tried = dry_run(directory)
    except ApplianceError as error:
        made.refused.append(str(error))
        tried = None
    made.found = format_found(directory, told, tried)
    if not made.found:
        return made
    if told is not None:
        made.by = f"{told.by}; opened last by {told.last}"
        if told.version > OURS and not made.refused:
            made.notes.append(f"a newer build was here: what it added since {OURS} is left alone")
    if not made.refused:
        made.migrations += migrations(directory, told, tried)
    _reckon_space(made, tried)
    needs = {} if told is None else told.needs
    _look_back(made, tried, needs)
    if config.is_in_cluster and not data_format.REPLICATED.keys() & needs.keys():
        made.notes.append(BECOMES_A_CLUSTER)
    if tried is not None:
        stored = tried.configs
        _, faults = dynamic_broker_config.stored(
            config, stored.get(False, {}), stored.get(True, {})
        )
        made.notes += [f"set at run time: {each}" for each in faults]
    return made


def refusals(directory: Path, marker: str) -> Iterator[str]:
    checks: list[Callable[[], object]] = [
        lambda: data_marker.check(directory, marker),
        lambda: data_format.check(directory),
        lambda: unfinished_restore.check(directory),
    ]
    for check in checks:
        try:
            check()
        except ApplianceError as error:
            yield str(error)


def format_found(directory: Path, told: DataFormat | None, tried: DryRun | None) -> str:
    if told is not None:
        return str(told.version)
    if tried is not None:
        return tried.format
    has_journal = any((directory / name).exists() for name in data_format.JOURNALS)
    return str(FIRST) if has_journal else ""


def migrations(
    directory: Path, told: DataFormat | None, tried: DryRun | None
) -> Iterator[Migration]:
    if told is None or told.version < OURS:
        before = "it is not there yet" if told is None else f"it says {told.version}"
        yield Migration("format", f"says {OURS} from then on; {before}")
        logs = len(promised_offsets.read(directory).logs)
        yield Migration("journal", f"its next generation says {OURS}: {some(logs, 'partition')}")
    if tried is not None and (tried.migrates_schema or tried.changes):
        counts = "; ".join(tried.changes) or "no rows change"
        yield Migration("catalog", f"{size(tried.size)}, schema {tried.schema}: {counts}")


def _reckon_space(made: Plan, tried: DryRun | None) -> None:
    """The copy of before, the log of the migration, and the file as it grows by it."""
    catalog = 3 * tried.size if tried is not None and tried.migrates_schema else 0
    status = os.statvfs(made.data_dir)
    made.needed_bytes = ROOM_BYTES + catalog if made.migrations else 0
    made.free_bytes = status.f_bavail * status.f_frsize
    if made.free_bytes < made.needed_bytes:
        made.refused.append(f"{made.data_dir} has {size(made.free_bytes)} free, and the migration "
                            f"wants {size(made.needed_bytes)}: make room first")  # fmt: skip


def _look_back(made: Plan, tried: DryRun | None, needs: Mapping[str, str]) -> None:
    if tried is not None and tried.migrates_schema:
        made.is_way_back_open = False
        made.way_back = (
            f"a build that knows no catalog of schema {tried.schema + 1} refuses it afterwards. "
            f"The catalog of before is kept as catalog.{tried.format}.db (the last {COPIES_MAX} "
            "are); with records written since, the way back is a backup: make one first"
        )
        return
    if needs:
        features = ", ".join(f"{name} (since {needs[name]})" for name in sorted(needs))
        made.is_way_back_open = False
        made.way_back = f"only to a build that knows what the data needs: {features}"
        return
    made.way_back = (
        f"any build of formats {OURS.major}.x opens the data afterwards: install it again"
    )

