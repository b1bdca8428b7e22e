from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from appliance.data_dir import data_marker
from appliance.data_dir.data_marker import DataDirUnknown


def serve(data: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "appliance", "serve", "--data-dir", str(data)]
    return subprocess.run(
        [*command, "--admin", "127.0.0.1:0", "--listen", "127.0.0.1:0", *more],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_a_broker_writes_nothing_where_its_file_system_is_not_mounted(tmp_path: Path) -> None:
    done = serve(tmp_path / "array" / "data", "--set", "data.marker=m1")
    assert done.returncode == 1
    assert "has no marker, wanted m1 (data.marker)" in done.stderr
    assert "Is its file system mounted?" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_another_brokers_directory_is_refused(tmp_path: Path) -> None:
    data_marker.write(tmp_path, "m2")
    with pytest.raises(DataDirUnknown, match="has the marker m2, wanted m1"):
        data_marker.check(tmp_path, "m1")


def test_the_own_one_is_known(tmp_path: Path) -> None:
    data_marker.write(tmp_path, "m1")
    data_marker.check(tmp_path, "m1")
    assert (tmp_path / "marker").stat().st_mode & 0o777 == 0o600
    data_marker.check(tmp_path / "absent", "")  # nothing was set


def test_what_cannot_be_read_is_not_taken_for_absent(tmp_path: Path) -> None:
    (tmp_path / "marker").mkdir()
    with pytest.raises(DataDirUnknown, match="cannot be read: Is a directory"):
        data_marker.check(tmp_path, "m1")
