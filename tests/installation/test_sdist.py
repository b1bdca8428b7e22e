from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "packaging/normal_sdist.py"


def listed(*places: str) -> list[str]:
    done = subprocess.run(["git", "ls-files", *places], cwd=ROOT, check=True, capture_output=True,
                          text=True)  # fmt: skip
    return [each for each in done.stdout.splitlines() if (ROOT / each).is_file()]


def test_an_sdist_has_all_that_a_wheel_is_built_from(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "setup.py", "-q", "egg_info", "--egg-base", str(tmp_path), "sdist",
         "--dist-dir", str(tmp_path)],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    (made,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(made) as file:
        names = {each.partition("/")[2] for each in file.getnames()}
    wanted = {*listed("appliance", "packaging"), "setup.py", "pyproject.toml", "LICENSE"}
    wanted |= {each.replace("spark/", "appliance_spark/", 1) for each in listed("spark")}
    units = {f"appliance/installation/systemd/{each.name}" for each in
             (ROOT / "packaging/systemd").iterdir()}  # fmt: skip
    assert (wanted | units) - names == set()
    assert [each for each in names if each.endswith((".so", ".pyc", ".cpp"))] == []


def packed(folder: Path, names: list[str], moment: float) -> bytes:
    folder.mkdir()
    for name in names:
        (folder / name).write_text(name)
        os.utime(folder / name, (moment, moment))
    made = folder.with_suffix(".tar.gz")
    with tarfile.open(made, "w:gz") as file:
        for name in names:
            file.add(folder / name, f"p/{name}")
    subprocess.run([sys.executable, str(SCRIPT), str(made)], check=True,
                   env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})  # fmt: skip
    return made.read_bytes()


def test_the_same_files_make_the_same_bytes(tmp_path: Path) -> None:
    now = time.time()
    first = packed(tmp_path / "first", ["a", "b"], now)
    assert packed(tmp_path / "second", ["b", "a"], now - 1000) == first
    assert packed(tmp_path / "third", ["a", "c"], now) != first


@pytest.mark.release("makes an environment for it, from the index")
def test_two_sdists_are_the_same() -> None:
    made = []
    for _ in range(2):
        subprocess.run(["make", "sdist"], cwd=ROOT, check=True, capture_output=True)
        made.append(next((ROOT / "dist").glob("*.tar.gz")).read_bytes())
    assert made[0] == made[1]
