"""What the Debian package does before and after it replaces a build, in a folder that becomes a
machine: the scripts are the package's, and so is all that they call."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from appliance.data_dir.data_format import KNOWN_NEEDS, OURS
from appliance.installation import system_users
from appliance.installation.installation import put, restarting
from appliance.installation.paths import Place

PACKAGING = Path(__file__).parents[2] / "packaging/debian"
RECORDED = Path(__file__).parents[1] / "upgrade/data/1.0-stopped.tar.xz"
VERSIONS = {"@MAJOR@": str(OURS.major), "@NEEDS@": " ".join(KNOWN_NEEDS), "@VERSION@": "0.1.0"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """With data of before, and the settings that name it."""
    data = tmp_path / "srv/array"
    data.mkdir(parents=True)
    with tarfile.open(RECORDED) as archive:
        archive.extractall(data, filter="fully_trusted")
    (tmp_path / "etc/appliance").mkdir(parents=True)
    (tmp_path / "etc/appliance/appliance.toml").write_text('"data.dir" = "/srv/array"\n')
    return tmp_path


def run(
    root: Path, script: str, *words: str, **paths: str
) -> subprocess.CompletedProcess[str]:
    text = (PACKAGING / script).read_text()
    for name, value in {**VERSIONS, **paths}.items():
        text = text.replace(name, value)
    path = root / script
    path.write_text(text)
    environment = {**os.environ, "DPKG_ROOT": str(root), "PYTHONPATH": os.getcwd()}
    return subprocess.run(
        ["sh", str(path), *words], env=environment, capture_output=True, text=True, check=False
    )


def says(root: Path, **told: object) -> None:
    (root / "srv/array/format").write_text(json.dumps({"appliance": "3.1.4", **told}))


@pytest.mark.parametrize("words", [("install",), ("upgrade", "0.0.9")])
def test_a_package_for_the_data_is_unpacked(root: Path, words: tuple[str, ...]) -> None:
    assert run(root, "preinst", *words).returncode == 0  # without the file, it is the first version
    says(root, format=f"{OURS.major}.99")
    done = run(root, "preinst", *words)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"format": "x"}'])
def test_what_says_nothing_is_left_to_the_check(root: Path, text: str) -> None:
    (root / "srv/array/format").write_text(text)
    done = run(root, "preinst", "upgrade", "0.0.9")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_package_that_is_too_old_for_the_data_is_not_unpacked(root: Path) -> None:
    says(root, format=f"{OURS.major + 1}.0")
    done = run(root, "preinst", "upgrade", "3.1.4")
    assert done.returncode == 1
    assert done.stderr == (
        f"appliance: the data in {root}/srv/array has format {OURS.major + 1}.0, and this package "
        f"knows {OURS.major}.x. Version 3.1.4 wrote it: install that one or a later one. Version "
        "0.1.0 is not installed, and nothing was changed.\n"
    )
    assert run(root, "preinst", "abort-upgrade", "0.1.0").returncode == 0


def test_data_that_needs_what_the_package_does_not_know_keeps_it_out(root: Path) -> None:
    says(root, format=str(OURS), needs={"never.heard.of": "3.0"})
    done = run(root, "preinst", "upgrade", "3.1.4")
    assert done.returncode == 1
    assert "needs what this package does not know: never.heard.of" in done.stderr


def test_a_removal_names_no_command_that_goes_with_it(root: Path) -> None:
    command = root / "command"
    command.write_text(
        f'#!/bin/sh\nexec {sys.executable} -m appliance "$@" --root {root}\n'
    )
    command.chmod(0o755)
    removed = run(root, "prerm", "remove", **{"/usr/lib/appliance/bin/appliance": str(command)})
    assert removed.returncode == 0, removed.stderr
    assert removed.stdout.splitlines()[-1] == (
        "All records are still in /srv/array. "
        "`apt purge appliance` deletes the settings and no records"
    )


def configured(root: Path) -> subprocess.CompletedProcess[str]:
    """`postinst` with its paths in the folder; what it calls is told so, too."""
    command = root / "command"
    command.write_text(
        f'#!/bin/sh\necho "$@" >>{root}/called\n[ "$1" = install ] && set -- "$@" --root {root}\n'
        f'exec {sys.executable} -m appliance "$@"\n'
    )
    command.chmod(0o755)
    settings = root / "etc/appliance/appliance.toml"
    text = settings.read_text().replace('"/srv/array"', f'"{root}/srv/array"')
    (root / "settings").write_text(text)
    paths = {
        "/usr/lib/appliance/bin/appliance": str(command),
        "settings=/etc/appliance/appliance.toml": f"settings={root}/settings",
    }
    return run(root, "postinst", "configure", "0.0.9", **paths)


@pytest.mark.skipif(not shutil.which("systemd-sysusers"), reason="systemd-sysusers is not here")
def test_a_new_version_is_started_if_its_start_would_go_well(root: Path) -> None:
    place = Place(root)
    put(place.users, system_users.FILE)
    system_users.make(place)
    owner = system_users.account(place)
    assert owner is not None
    for each in (root / "srv/array", *(root / "srv/array").rglob("*")):
        os.chown(each, *owner)
    done = configured(root)
    assert done.returncode == 0, done.stderr
    assert f"A start migrates it from 1.0 to {OURS}." in done.stdout
    called = (root / "called").read_text().splitlines()
    assert [each.split()[0] for each in called] == ["upgrade", "install"]
    assert called[1] == "install --restart"


def test_one_whose_start_would_be_refused_leaves_the_old_one_running(root: Path) -> None:
    settings = root / "etc/appliance/appliance.toml"
    settings.write_text(settings.read_text() + '"log.segment.bites" = 1\n')
    done = configured(root)
    assert done.returncode == 1
    assert "log.segment.bites: no such setting" in done.stdout
    assert "the broker was not restarted; if it ran, version 0.0.9 goes on" in done.stderr
    assert "dpkg --configure appliance" in done.stderr
    assert (root / "called").read_text().splitlines() == [
        f"upgrade check --config {root}/settings"
    ]


def test_a_broker_is_taken_over_from_where_its_unit_is_the_same() -> None:
    same, other = ({unit: words for unit, words, _ in restarting(is_same_unit=each)}
                   for each in (True, False))  # fmt: skip
    schedule = {"appliance-export-schedule.service": "try-restart"}  # it has no sockets to hand on
    assert same == {"appliance.service": "try-reload-or-restart", **schedule}
    assert other == {"appliance.service": "try-restart", **schedule}
    unit = (PACKAGING.parent / "systemd/appliance.service").read_text()
    reload = '/bin/sh -c "kill -USR2 $MAINPID"'  # /bin/kill is not on each Debian
    assert f"\nExecReload={reload}\n" in unit
