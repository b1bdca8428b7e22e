"""A target as after runs, without any: for tests of the tables that follow it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from appliance_spark import export_manifest, export_run, export_tables
from appliance_spark.export_layout import Target

FOLDER = "topic=t/date=2026-11-21/hour=08"


class Exported:
    """A target as after runs: files of ten rows of one partition, and the manifest."""

    def __init__(self, root: Path, table: dict[str, Any] | None, has_delta: bool) -> None:
        self.target = Target(root)
        self.said: list[str] = []
        export_run.opened(self.target)
        self.manifest = export_tables.keep(
            self.target, export_manifest.load(self.target), table, has_delta)

    def add(self, **more: Any) -> str:
        """Commits one more file."""
        sequence = self.manifest["sequence"] = self.manifest["sequence"] + 1
        files = self.manifest["files"]
        path = f"{FOLDER}/t+0000+{len(files) * 10:013d}.parquet"
        size = self.write(path, len(files) * 10, **more)
        files.append({"path": path, "topic": "t", "is_dead_letter": False, "rows": 10,
                      "bytes": size, "sequence": sequence})
        self.manifest["topics"]["t"] = {"begin": {"0": 0}, "position": {"0": len(files) * 10}}
        export_manifest.save(self.target, self.manifest)
        return path

    def write(self, path: str, first: int, **more: Any) -> int:
        file = self.target.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        columns = {"offset": pa.array(range(first, first + 10)), **more}
        pq.write_table(pa.table(columns), file)
        return file.stat().st_size

    def follow(self) -> None:
        export_tables.follow(self.target, self.manifest, self.said.append)

    def problems(self) -> list[str]:
        return export_tables.problems(self.target, self.manifest)
