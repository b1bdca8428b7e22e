"""Limits on the effect of an export's definition: only listed options, only its own folders, and no
code from a definition or a manifest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyiceberg.catalog
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.utils.config import Config

from appliance_spark import (
    export_definition,
    export_iceberg,
    export_manifest,
    export_run,
    export_tables,
)
from appliance_spark.export_layout import ExportFailed, Target
from appliance_spark.export_scheduler import Scheduler

HOSTILE = (
    {"type": "rest", "uri": "http://127.0.0.1:1", "auth.type": "custom",
     "auth.impl": "subprocess.Popen"},
    {"type": "sql", "uri": "sqlite://", "py-io-impl": "tests.spark.test_export_definition.Planted"},
    {"py-catalog-impl": "tests.spark.test_export_definition.Planted"},
)


class Planted:
    """A class that pyiceberg would load without the list."""

    made = 0

    def __init__(self, *given: Any, **named: Any) -> None:
        Planted.made += 1


def defined(target: Path | str, **options: Any) -> dict[str, Any]:
    return {"name": "daily", "topics": ["t"], "target": str(target), "options": options}


def test_pyiceberg_does_load_what_is_planted() -> None:
    """Proves that the next test can fail: without the list pyiceberg loads the class."""
    before = Planted.made
    load_catalog("x", **{"py-catalog-impl": f"{__name__}.Planted"})
    assert Planted.made == before + 1


@pytest.mark.parametrize("catalog", HOSTILE)
def test_no_catalog_loads_code_by_definition_command_or_manifest(
    tmp_path: Path, catalog: dict[str, str]
) -> None:
    before = Planted.made
    with pytest.raises(ExportFailed, match=r"options\.catalog: got dict, wanted the name"):
        export_definition.of_broker(defined(tmp_path, catalog=catalog), (str(tmp_path),))
    with pytest.raises(ExportFailed, match="can be said in pyiceberg's own configuration alone"):
        export_iceberg.settings("lake.{topic}", catalog)
    target = Target(tmp_path / "lake")
    export_run.opened(target)
    manifest = {**export_manifest.load(target), "topics": {"t": {}}, "table": {
        "format": "iceberg", "name": "lake.{topic}", "catalog": catalog}}
    for step in (export_iceberg.check, export_iceberg.problems):
        with pytest.raises(ExportFailed, match="can be said in pyiceberg's own configuration"):
            step(target, manifest)
    assert Planted.made == before


def test_a_catalog_is_looked_up_by_name_in_the_schedulers_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = export_definition.table_of(
        {"table": "iceberg", "table_name": None, "catalog": "shared"})
    target = Target(tmp_path / "lake")
    manifest = export_run.opened(target)
    with pytest.raises(ExportFailed, match=r"there is no catalog shared here.*\.pyiceberg\.yaml"):
        export_tables.keep(target, manifest, given, has_delta=False)
    assert export_manifest.load(target)["table"] is None  # a failed table is not stored
    monkeypatch.setenv("PYICEBERG_CATALOG__SHARED__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__SHARED__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__SHARED__WAREHOUSE", f"file://{tmp_path}")
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())  # read at its import
    export_tables.keep(target, manifest, given, has_delta=False)
    assert export_manifest.load(target)["table"] == given
    assert given is not None
    with export_iceberg._catalog(target, given) as found:
        assert found.properties["uri"] == f"sqlite:///{tmp_path}/catalog.db"


def test_a_password_in_a_catalogs_address_is_refused_and_not_shown(tmp_path: Path) -> None:
    with pytest.raises(ExportFailed, match="has a user or a password") as told:
        export_iceberg.settings(None, {"type": "sql", "uri": "postgresql://me:hush@db/lake"})
    assert "hush" not in str(told.value)


@pytest.mark.parametrize("where", ["", "/../../etc", "/link/deeper"])
def test_a_target_is_in_one_of_the_schedulers_folders(tmp_path: Path, where: str) -> None:
    root, other = tmp_path / "lakes", tmp_path / "other"
    root.mkdir()
    other.mkdir()
    (root / "link").symlink_to(other)
    inside = defined(root / "clicks")
    assert export_definition.of_broker(inside, (str(root),)) == inside
    outside = defined(f"{root}{where}" if where else other)
    with pytest.raises(ExportFailed, match=r"in none of the folders|without `\.\.`"):
        export_definition.of_broker(outside, (str(root),))
    with pytest.raises(ExportFailed, match=r"none of the folders for exports \(--root\): none was"):
        export_definition.of_broker(inside, ())


def test_a_scheduler_looks_at_no_target_that_it_may_not_have(tmp_path: Path) -> None:
    said: list[str] = []
    bad = {**defined(tmp_path / "other"), "schedule": {"cron": "* * * * *"}}
    good = {**defined(tmp_path / "lake"), "name": "good", "schedule": {"cron": "* * * * *"}}

    def allowed(definition: dict[str, Any]) -> dict[str, Any]:
        return export_definition.of_broker(definition, (str(tmp_path / "lake"),))

    scheduler = Scheduler(lambda: [bad, good], lambda name: [], said.append, None, allowed)
    scheduler.step(0.0)
    assert list(scheduler.exports) == ["good"]
    assert any("daily: its target" in line for line in said)
