"""The tables that follow a target: Iceberg, Delta, both or none. Each has exactly its files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from appliance_spark import export_delta, export_iceberg, export_manifest
from appliance_spark.export_layout import Target
from appliance_spark.export_store_target import AnyTarget

Manifest = dict[str, Any]
Say = Callable[[str], None]


def keep(
    target: AnyTarget, manifest: Manifest, table: dict[str, Any] | None, has_delta: bool
) -> Manifest:
    """A table stays with the target for all later commands."""
    new = {**manifest}
    if table is not None:
        new["table"] = table
    if has_delta:
        new["delta"] = True
    check(target, new)  # an invalid table is not stored
    if new != manifest:
        export_manifest.save(target, new)
    return new


def check(target: AnyTarget, manifest: Manifest) -> None:
    """Before a run starts: checks what would keep a table from following."""
    export_iceberg.check(target, manifest)
    export_delta.check(target, manifest)


def follow(target: AnyTarget, manifest: Manifest, say: Say) -> None:
    export_iceberg.follow(target, manifest, say)
    if isinstance(target, Target):
        export_delta.follow(target, manifest, say)


def drop(target: AnyTarget, manifest: Manifest) -> None:
    """The tables only; the next `follow` builds them again."""
    if manifest.get("table") is not None:
        export_iceberg.drop(target, manifest)
    if isinstance(target, Target):
        export_delta.drop(target, manifest)


def problems(target: AnyTarget, manifest: Manifest) -> list[str]:
    found = export_iceberg.problems(target, manifest)
    if manifest.get("delta") and isinstance(target, Target):
        found += export_delta.problems(target, manifest)
    return found
