"""File access for the metadata of an Iceberg table: on a local disk each file and its folder are
synced before the catalog gets its name. Other locations, and reads, use pyiceberg's own code.

A catalog loads `DurableIO` by its name, so this module needs pyiceberg at its import.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyiceberg.io import InputFile, OutputFile, OutputStream
from pyiceberg.io.pyarrow import PyArrowFileIO

from appliance_spark.export_layout import make_folder, sync_folder


def local_path(location: str) -> Path | None:
    """None if the location is not on a local disk."""
    parts = urlsplit(location)
    return Path(parts.path) if parts.scheme == "file" else None


class SyncedStream(io.BufferedWriter):
    def close(self) -> None:
        if self.closed:
            return
        self.flush()
        os.fsync(self.fileno())
        super().close()
        sync_folder(Path(os.fsdecode(self.name)).parent)


class SyncedFile(OutputFile):
    def __init__(self, location: str, path: Path) -> None:
        super().__init__(location)
        self._path = path

    def __len__(self) -> int:
        return self._path.stat().st_size

    def exists(self) -> bool:
        return self._path.exists()

    def to_input_file(self) -> InputFile:
        found: InputFile = PyArrowFileIO().new_input(self.location)
        return found

    def create(self, overwrite: bool = False) -> OutputStream:
        make_folder(self._path.parent)
        raw = io.FileIO(self._path, "w" if overwrite else "x")
        return SyncedStream(raw)


class DurableIO(PyArrowFileIO):
    def new_output(self, location: str) -> Any:
        path = local_path(location)
        return super().new_output(location) if path is None else SyncedFile(location, path)
