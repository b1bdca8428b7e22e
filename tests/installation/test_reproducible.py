"""What `make sdist`, `make wheel` and `make deb` write is the same wherever and whenever they run,
and what they say of it is true."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from email.parser import HeaderParser
from pathlib import Path

import pytest

from tests.installation.built_packages import ROOT, made, package

SUMS, DAY_S = "SHA256SUMS", 86_400.0

pytestmark = [
    pytest.mark.release("compiles again; tests/installation/test_sdist.py has the order of bytes"),
    pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="wants the tools of Debian"),
]


def clone(folder: Path) -> Path:
    """Of the files here, which are a day older."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        if not os.path.lexists(ROOT / name):
            continue
        to = folder / name
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, to, follow_symlinks=False)
        if not to.is_symlink():
            moment = to.stat().st_mtime - DAY_S
            os.utime(to, (moment, moment))
    return folder


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Path]]:
    """The files of dist/ here, and of one in another folder, made now, with another mask and
    language."""
    package()
    (sdist,) = (ROOT / "dist").glob("*.tar.gz")
    moment = int.from_bytes(sdist.read_bytes()[4:8], "little")  # gzip's own: of the commit
    other = clone(tmp_path_factory.mktemp("another place") / "of it")
    before = os.umask(0o077)
    try:
        made(other, SOURCE_DATE_EPOCH=str(moment), LC_ALL="C", TZ="Asia/Tokyo", PYTHONHASHSEED="7")
    finally:
        os.umask(before)
    found = {each.name: each for each in (other / "dist").iterdir()}
    return [{name: ROOT / "dist" / name for name in found}, found]


def test_the_same_bytes_come_from_another_folder_at_another_time(
    twice: list[dict[str, Path]],
) -> None:
    first, second = ({name: sha256(each) for name, each in files.items() if name != SUMS}
                     for files in twice)  # fmt: skip
    assert first == second
    assert {Path(each).suffix for each in first} == {".gz", ".whl", ".deb", ".json"}


def only(files: dict[str, Path], suffix: str) -> Path:
    (found,) = [each for name, each in files.items() if name.endswith(suffix)]
    return found


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_the_hashes_are_those_of_the_files(twice: list[dict[str, Path]]) -> None:
    files = twice[1]
    told = dict(line.split()[::-1] for line in files[SUMS].read_text().splitlines())
    assert told == {name: sha256(each) for name, each in files.items() if name != SUMS}
    wheel = only(files, ".whl")
    with zipfile.ZipFile(wheel) as file:
        (record,) = [each for each in file.namelist() if each.endswith(".dist-info/RECORD")]
        rows = {row[0]: row[1] for row in csv.reader(file.read(record).decode().splitlines())}
        assert rows.keys() == {each for each in file.namelist() if not each.endswith("/")}
        for name in rows.keys() - {record}:
            digest = base64.urlsafe_b64encode(hashlib.sha256(file.read(name)).digest())
            assert rows[name] == f"sha256={digest.decode().rstrip('=')}", name


def test_the_bill_of_materials_is_what_is_there(
    twice: list[dict[str, Path]], tmp_path: Path
) -> None:
    deb = only(twice[1], ".deb")
    subprocess.run(["dpkg-deb", "--extract", str(deb), str(tmp_path)], check=True)
    told = json.loads((tmp_path / "usr/share/appliance/materials.cdx.json").read_text())
    listed = {(each["name"], each["version"]) for each in told["components"]}
    ours = told["metadata"]["component"]["name"]  # what the bill is of is not on it
    assert listed == {each for each in installed(tmp_path) if each[0] != ours}
    assert "file://" not in json.dumps(told), "no place of this machine"


def installed(tree: Path) -> Iterator[tuple[str, str]]:
    for each in tree.glob("usr/lib/appliance/lib/python3*/site-packages/*.dist-info/METADATA"):
        head = HeaderParser().parsestr(each.read_text())
        yield head["Name"], head["Version"]


def test_the_hashes_in_the_package_are_those_of_its_files(
    twice: list[dict[str, Path]], tmp_path: Path
) -> None:
    deb = only(twice[1], ".deb")
    subprocess.run(["dpkg-deb", "--raw-extract", str(deb), str(tmp_path / "tree")], check=True)
    subprocess.run(["md5sum", "--check", "--quiet", "DEBIAN/md5sums"], cwd=tmp_path / "tree",
                   check=True)  # fmt: skip
    for record in (tmp_path / "tree").glob("usr/lib/**/*.dist-info/RECORD"):
        for name, told, _ in csv.reader(record.read_text().splitlines()):
            file = record.parent.parent / name
            assert file.exists(), f"{record.parent.name} has {name}, which is not there"
            kind, _, wanted = told.partition("=")
            if kind == "sha256":
                digest = base64.urlsafe_b64encode(hashlib.sha256(file.read_bytes()).digest())
                assert wanted == digest.decode().rstrip("="), file
