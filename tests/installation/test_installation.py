"""An installation into a folder that becomes a machine; systemd reads what it has written."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from appliance.cli.main import main
from appliance.data_dir import data_marker
from appliance.installation import installation, system_users, units
from appliance.installation.installation import NotInstalled, Wish
from appliance.installation.paths import Place
from tests.support.recorded_machine import made

SCORES = {  # at most: systemd-analyze security, where 10 is a process that may do everything
    "appliance.service": 1.5,
    "appliance-disk-watch.service": 2.5,
    "appliance-export-schedule.service": 1.5,
    "appliance-export@.service": 1.5,
    "appliance-backup.service": 1.5,
    "appliance-restore-test.service": 1.5,
    "appliance-zookeeper.service": 1.5,
}

NO_SYSTEMD = "this system has no systemd-analyze, which judges units"

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to users that it makes"),
    pytest.mark.skipif(
        not shutil.which("systemd-sysusers"), reason="this system cannot make users as systemd does"
    ),
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Of a machine, as far as units are concerned."""
    (tmp_path / "etc").mkdir()
    command = tmp_path / "opt/appliance/bin/appliance"
    command.parent.mkdir(parents=True)
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    return tmp_path


def run(root: Path, *arguments: str, given: str = "") -> Result:
    return CliRunner().invoke(main, [*arguments, "--root", str(root)], input=given)


def install(root: Path, *more: str) -> Result:
    return run(root, "install", "--command", "/opt/appliance/bin/appliance", *more)


def setting(root: Path, name: str) -> str:
    text = (root / "etc/appliance/appliance.toml").read_text()
    found = re.search(rf'^"{re.escape(name)}" = "(.*)"$', text, re.MULTILINE)
    assert found, name
    return found[1]


def test_user_settings_data_and_units_are_made(root: Path) -> None:
    result = install(root, "--data-dir", "/srv/array/appliance")
    assert result.exit_code == 0, result.output
    owner = system_users.account(Place(root))
    assert owner is not None
    data = root / "srv/array/appliance"
    assert (data.stat().st_uid, data.stat().st_mode & 0o777) == (owner.user_id, 0o700)
    assert (data / "marker").stat().st_uid == owner.user_id
    assert (data / "marker").read_text().strip() == setting(root, "data.marker")
    assert setting(root, "data.dir") == "/srv/array/appliance"
    file = root / "etc/appliance/appliance.toml"
    assert (file.stat().st_gid, file.stat().st_mode & 0o777) == (owner.group_id, 0o640)
    told = (root / "etc/systemd/system/appliance.service.d/data.conf").read_text()
    assert 'RequiresMountsFor="/srv/array/appliance"' in told
    assert "sudo appliance install --start" in result.output


def test_a_second_run_changes_nothing(root: Path) -> None:
    install(root)
    again = json.loads(install(root, "--json").output)
    assert {each["did"] for each in again["steps"]} == {"kept"}
    assert again["data_dir"] == "/var/lib/appliance"


def test_a_new_version_writes_its_units_and_leaves_settings(root: Path) -> None:
    install(root)
    unit = root / "etc/systemd/system/appliance.service"
    file = root / "etc/appliance/appliance.toml"
    unit.write_text("[Unit]\nDescription=of before\n")
    file.write_text(file.read_text() + "# mine\nnode.id = 7\n")
    steps = json.loads(install(root, "--json").output)["steps"]
    assert [each["what"] for each in steps if each["did"] == "changed"] == [str(unit)]
    assert file.read_text().endswith("# mine\nnode.id = 7\n")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason=NO_SYSTEMD)
def test_systemd_finds_no_fault_in_the_units(root: Path) -> None:
    install(root, "--data-dir", "/srv/array/with space")
    (root / "bin").mkdir()
    shutil.copy("/bin/sh", root / "bin/sh")
    for name in ("sysinit.target", "basic.target", "shutdown.target", "local-fs.target"):
        (root / "etc/systemd/system" / name).write_text("[Unit]\nDefaultDependencies=no\n")
    names = [each for each in units.names() if "@" not in each]
    done = subprocess.run(
        ["systemd-analyze", "verify", f"--root={root}", "--man=no", *names],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    unit = root / "etc/systemd/system/appliance.service"
    unit.write_text(unit.read_text().replace("RestartSec=5", "RestartSecs=5"))
    done = subprocess.run(["systemd-analyze", "verify", f"--root={root}", "--man=no", unit.name],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert "RestartSecs" in done.stderr


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason=NO_SYSTEMD)
@pytest.mark.parametrize(("name", "most"), SCORES.items())
def test_a_unit_may_do_little(name: str, most: float) -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", str(units.TEMPLATES / name)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = re.search(r"exposure level for \S+: ([\d.]+)", done.stdout)
    assert found, done.stdout
    assert float(found[1]) <= most


def test_a_setting_in_a_table_is_not_passed_over(root: Path) -> None:
    install(root)
    file = root / "etc/appliance/appliance.toml"
    file.write_text('[data]\ndir = "/srv/one"\n')
    refused = install(root, "--data-dir", "/srv/two")
    assert "data.dir is /srv/one, in a [table] of the file; wanted /srv/two" in refused.output
    assert install(root, "--data-dir", "/srv/one").exit_code == 0


def test_the_disk_watch_is_set_where_smartctl_is(root: Path) -> None:
    install(root)
    assert '\n#"disk.watch.file"' in (root / "etc/appliance/appliance.toml").read_text()
    shutil.rmtree(root / "etc/appliance")
    (root / "usr/sbin").mkdir(parents=True)
    (root / "usr/sbin/smartctl").touch()
    install(root)
    assert setting(root, "disk.watch.file") == "/var/lib/appliance-disk-watch/report.json"


# The kernel's values, which are changed only for who says so

UNTUNED = """< raid5
proc/sys/vm/dirty_background_bytes = 0
proc/sys/vm/dirty_background_ratio = 10
! sys/class/rtc
sys/block/sdb/queue/scheduler = [none] mq-deadline
"""
SYSCTLS, RULES = "etc/sysctl.d/90-appliance.conf", "etc/udev/rules.d/90-appliance.rules"


def kernel_files(root: Path) -> dict[Path, str]:
    found = [*(root / "proc").rglob("*"), *(root / "sys").rglob("*")]
    return {each: each.read_text() for each in found if each.is_file()}


def test_an_installation_proposes_what_the_doctor_would_write_and_changes_nothing(
    root: Path,
) -> None:
    made(root, UNTUNED)
    before = kernel_files(root)
    told = install(root, "--data-dir", "/data")
    assert told.exit_code == 0, told.output
    assert "Proposed, and not done without your word (--tune):" in told.output
    assert "sysctl -w vm.dirty_background_bytes='268435456'" in told.output
    proposed = json.loads(install(root, "--json").output)["proposed"]
    assert "echo mq-deadline > /sys/block/sdb/queue/scheduler" in proposed
    assert kernel_files(root) == before
    assert not (root / SYSCTLS).exists()
    assert not (root / RULES).exists()


def test_tune_writes_it_now_and_for_the_next_start(root: Path) -> None:
    made(root, UNTUNED)
    told = install(root, "--data-dir", "/data", "--tune")
    assert told.exit_code == 0, told.output
    assert "Proposed" not in told.output
    assert "changed   /sys/block/sdb/queue/scheduler: mq-deadline, was none" in told.output
    assert (root / "sys/block/sdb/queue/scheduler").read_text() == "mq-deadline\n"
    assert (root / "proc/sys/vm/dirty_background_bytes").read_text() == "268435456\n"
    assert "\nvm.dirty_background_bytes = 268435456\n" in (root / SYSCTLS).read_text()
    assert 'ATTR{queue/scheduler}="mq-deadline"' in (root / RULES).read_text()


def test_what_the_kernel_refuses_is_told_and_not_kept(root: Path) -> None:
    made(root, UNTUNED)
    file = root / "proc/sys/vm/dirty_background_bytes"
    file.unlink()
    file.mkdir()
    steps = json.loads(install(root, "--data-dir", "/data", "--tune", "--json").output)["steps"]
    failed = [each["what"] for each in steps if each["did"] == "failed"]
    assert failed == ["/proc/sys/vm/dirty_background_bytes: Is a directory"]
    assert "dirty_background_bytes" not in (root / SYSCTLS).read_text()


def test_a_folder_without_a_kernel_needs_nothing(root: Path) -> None:
    found = json.loads(install(root, "--tune", "--json").output)
    assert found["proposed"] == []
    assert not (root / SYSCTLS).exists()


# The marker


def used(root: Path, data: str) -> Path:
    """As a broker leaves it."""
    path = root / data.lstrip("/")
    (path / "catalog.db").touch()
    owner = system_users.account(Place(root))
    assert owner is not None
    os.chown(path / "catalog.db", *owner)
    return path


def test_an_empty_mount_point_is_no_data_directory(root: Path) -> None:
    install(root, "--data-dir", "/srv/array/appliance")
    path = used(root, "/srv/array/appliance")
    marker = setting(root, "data.marker")
    path.rename(root / "srv/array/away")  # as if the array were not mounted
    refused = install(root)
    assert refused.exit_code == 1
    assert f"has no marker, wanted {marker} (data.marker)" in refused.output
    assert not path.exists()
    assert install(root, "--new-data-dir").exit_code == 0
    assert setting(root, "data.marker") == data_marker.read(path) != marker


def test_the_directory_of_another_broker_is_refused(root: Path) -> None:
    install(root, "--data-dir", "/srv/one")
    used(root, "/srv/one")
    (root / "srv/two").mkdir()
    data_marker.write(root / "srv/two", "another")
    refused = install(root, "--data-dir", "/srv/two")
    assert "has the marker another, wanted" in refused.output
    assert setting(root, "data.dir") == "/srv/one"


def test_a_directory_in_which_no_broker_began_is_left_without_a_word(root: Path) -> None:
    """The package installs before anybody said where the array is."""
    install(root)
    result = install(root, "--data-dir", "/srv/array/appliance")
    assert result.exit_code == 0, result.output
    assert setting(root, "data.dir") == "/srv/array/appliance"


def test_settings_that_were_lost_take_up_the_marker_that_is_there(root: Path) -> None:
    install(root)
    marker = setting(root, "data.marker")
    shutil.rmtree(root / "etc/appliance")
    install(root)
    assert setting(root, "data.marker") == marker


def test_files_of_another_user_are_told(root: Path) -> None:
    data = root / "var/lib/appliance"
    data.mkdir(parents=True)
    (data / "catalog.db").touch()
    refused = install(root)
    assert refused.exit_code == 1
    assert "`chown -R appliance: /var/lib/appliance`" in refused.output


@pytest.mark.parametrize("data", ["relative/data", "/home/ann/data", "/tmp/data"])
def test_a_directory_that_the_unit_hides_is_refused(root: Path, data: str) -> None:
    refused = install(root, "--data-dir", data)
    assert f"data.dir: got {data}, wanted a whole path outside of /root, /home" in refused.output
    assert not (root / "etc/appliance").exists()


def test_a_command_in_somebodys_home_is_refused() -> None:
    with pytest.raises(NotInstalled, match="wanted the package, or an environment"):
        installation.check(Wish(Place(), Path("/root/appliance/.venv/bin/appliance")))


def test_only_root_installs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(NotInstalled, match="sudo appliance install"):
        installation.check(Wish(Place(), Path("/opt/appliance/bin/appliance")))


# The end


def test_data_and_settings_outlive_the_installation(root: Path) -> None:
    install(root)
    data = used(root, "/var/lib/appliance")
    own = root / "etc/systemd/system/appliance.service.d/override.conf"
    own.write_text("[Service]\nNice=-5\n")
    result = run(root, "uninstall")
    assert result.exit_code == 0, result.output
    assert (data / "catalog.db").exists()
    assert (root / "etc/appliance/appliance.toml").exists()
    assert "All records are still in /var/lib/appliance" in result.output
    left = {each.name for each in (root / "etc/systemd/system").rglob("*") if each.is_file()}
    assert left == {"override.conf"}
    assert install(root).exit_code == 0  # and again, with all its data


def test_all_that_may_run_is_stopped_and_a_second_removal_finds_nothing(root: Path) -> None:
    install(root)
    wants = root / "etc/systemd/system/timers.target.wants"
    wants.mkdir()
    (wants / "appliance-export@clicks.timer").symlink_to("../appliance-export@.timer")
    found = units.installed(Place(root))
    assert set(found) == {each for each in units.names() if "@" not in each} | {
        "appliance-export@clicks.timer", "appliance-export@clicks.service"
    }  # fmt: skip
    (wants / "appliance-export@clicks.timer").unlink()  # as systemctl disables it
    run(root, "uninstall")
    assert units.installed(Place(root)) == []


def test_who_named_the_array_is_told_where_to_look_if_it_is_none(root: Path) -> None:
    told = install(root, "--data-dir", "/srv/array/appliance").output
    assert "`findmnt --target /srv/array/appliance` says what is mounted there" in told
    assert "--data-dir /srv/array/appliance --start" not in told, "just typed"
    shutil.rmtree(root / "etc/appliance")
    assert "--data-dir /srv/array/appliance --start" in install(root).output


def test_purge_asks(root: Path) -> None:
    install(root)
    data = used(root, "/var/lib/appliance")
    assert run(root, "uninstall", "--purge", given="n\n").exit_code == 1
    assert (data / "catalog.db").exists()
    assert run(root, "uninstall", "--purge", given="y\n").exit_code == 0
    assert not data.exists()
    assert not (root / "etc/appliance").exists()


def test_purge_deletes_no_folder_that_is_not_data(root: Path) -> None:
    install(root)
    (root / "srv/photos").mkdir(parents=True)
    file = root / "etc/appliance/appliance.toml"
    file.write_text(file.read_text().replace("/var/lib/appliance\"", "/srv/photos\""))
    refused = run(root, "uninstall", "--purge", "--yes")
    assert "is no data directory" in refused.output
    assert (root / "srv/photos").exists()


def test_directories_of_records_are_made_and_let_through_the_sandbox(root: Path) -> None:
    assert install(root, "--data-dir", "/srv/data").exit_code == 0
    settings = root / "etc/appliance/appliance.toml"
    settings.write_text(f'"log.dirs" = "/srv/one/a,/srv/two/b"\n{settings.read_text()}')
    assert install(root).exit_code == 0
    text = units.data_file(Place(root)).read_text()
    assert re.findall(r'^(\w+)="(.*)"$', text, re.MULTILINE) == [
        ("RequiresMountsFor", "/srv/data"), ("ReadWritePaths", "-/srv/data"),
        ("ReadWritePaths", "-/srv/one/a"), ("ReadWritePaths", "-/srv/two/b"),
    ]  # fmt: skip
    account = system_users.account(Place(root))
    assert account is not None
    for each in ("srv/one/a", "srv/two/b"):
        status = (root / each).stat()
        assert (status.st_uid, status.st_mode & 0o777) == (account.user_id, 0o700)
    assert "kept" in install(root).output
    (root / "srv/one/a/directory.id").write_text("AAAAAAAAAAAAAAAAAAAAAA\n")
    assert "/srv/two/b" in run(root, "uninstall").output
    before = settings.read_text()
    settings.write_text(before.replace("/srv/two/b", "/home/b"))
    refused = install(root)
    assert refused.exit_code != 0
    assert "log.dirs: got /home/b" in refused.output
    settings.write_text(before)
    assert run(root, "uninstall", "--purge", "--yes").exit_code == 0
    assert not (root / "srv/one/a").exists()
    assert (root / "srv/two/b").exists()  # none that a broker ever had
