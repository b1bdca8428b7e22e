"""The package from its file to its end, on a bare Debian without compiler and network: systemd
starts the broker in its sandbox, a new version under load loses nothing, an array that is away
fills no disk, a lost box is restored, and data outlives it all."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.data_dir import data_marker
from appliance.installation import units
from loadtest.ports import lasting_ports
from tests.installation import built_packages
from tests.installation.debian_machine import DebianMachine, is_possible
from tests.installation.steady_load import SteadyLoad, committed, count_of, held

BROKER, SCHEDULE = "appliance.service", "appliance-export-schedule.service"
EXPORT_TIMER = "appliance-export@clicks.timer"
ARRAY, DISKS = "/srv/array", "/srv/disks"  # where it is mounted, and what is mounted there
DATA = f"{ARRAY}/appliance"
BACKUP = "/mnt/backup"
TOPIC = "orders"
LOAD_S = 3.0  # before and after a new version comes
TAKES_OVER_S = 60.0
SCORES = {BROKER: 2.0, "appliance-disk-watch.service": 2.5, "appliance-backup.service": 2.0,
          "appliance-restore-test.service": 2.0, "appliance-export-schedule.service": 2.0,
          "appliance-export@clicks.service": 2.0}  # fmt: skip

pytestmark = [
    pytest.mark.release("builds a machine; tests/installation/test_installation.py has the steps"),
    pytest.mark.skipif(not is_possible(), reason="wants root, debootstrap and systemd-nspawn"),
]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[DebianMachine]:
    made = DebianMachine(tmp_path / "machine")
    try:
        for name, file in (("earlier.deb", built_packages.earlier_package()),
                           ("now.deb", built_packages.package())):  # fmt: skip
            shutil.copy(file, made.root / "opt" / name)
        yield made
    finally:
        made.stop()


def test_from_the_package_to_its_end(
    machine: DebianMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    bootstrap, admin = installed_without_compiler_and_network(machine)
    machine.boot()
    started_on_the_array(machine)
    runs_as_its_user(machine)
    load = SteadyLoad(bootstrap, TOPIC)
    load.start()
    a_new_version_comes(machine)
    another_process_takes_over(machine)
    load.stop()
    told = [nothing_is_lost(load), *the_units_are_good(machine), the_doctor_answers(machine)]
    backups_run_in_their_sandbox(machine, admin)
    an_array_that_is_away_fills_no_disk(machine)
    a_mount_of_the_table_that_fails_is_waited_for(machine)
    data_outlives_removal_and_purge(machine, bootstrap, admin)
    told.append(a_lost_box_is_restored(machine, bootstrap, admin))
    with capsys.disabled():
        print("", *told, sep="\n")


def installed_without_compiler_and_network(machine: DebianMachine) -> tuple[str, str]:
    """Its addresses: ports that nobody here has, since once it runs it has the host's network."""
    for tool in ("cc", "gcc", "c++", "pip", "make"):
        assert not list(machine.root.glob(f"usr/bin/{tool}")), "a bare machine"
    machine.without_network("dpkg", "-i", "/opt/earlier.deb")
    bootstrap, admin = (f"127.0.0.1:{port}" for port in lasting_ports(2))
    configured(machine, bootstrap, admin)
    return bootstrap, admin


def configured(machine: DebianMachine, bootstrap: str, admin: str) -> None:
    file = machine.root / "etc/appliance/appliance.toml"
    text = f'"listeners" = "{bootstrap}"\n"admin.address" = "{admin}"\n'
    text += '"export.address" = "127.0.0.1:0"\n'
    file.write_text(text + file.read_text())


def started_on_the_array(machine: DebianMachine) -> None:
    machine.run("mkdir", "-p", ARRAY, DISKS)
    machine.run("mount", "--bind", DISKS, ARRAY)
    assert machine.code("systemctl", "is-active", BROKER) != 0, "nothing starts by itself"
    machine.run("appliance", "install", "--data-dir", DATA, "--start")
    machine.until(BROKER, "active")
    assert "0.0.9" in machine.run("appliance", "--version")


def runs_as_its_user(machine: DebianMachine) -> None:
    status = machine.run("cat", f"/proc/{machine.property(BROKER, 'MainPID')}/status")
    user = machine.run("id", "-u", "appliance").strip()
    assert user != "0"
    assert f"Uid:\t{user}\t{user}\t{user}\t{user}" in status
    assert "NoNewPrivs:\t1" in status
    assert "Seccomp:\t2" in status
    for each in ("CapBnd", "CapEff", "CapPrm"):
        assert f"{each}:\t0000000000000000" in status


def the_units_are_good(machine: DebianMachine) -> Iterator[str]:
    names = [f"/etc/systemd/system/{each}" for each in units.names()]
    assert machine.run("systemd-analyze", "verify", "--man=no", *names) == ""
    for name, most in SCORES.items():
        told = machine.run("systemd-analyze", "security", name)
        found = re.search(r"exposure level for \S+: ([\d.]+)", told)
        assert found, told
        assert float(found[1]) <= most, name
        yield f"systemd-analyze security {name}: {found[1]}"


def the_doctor_answers(machine: DebianMachine) -> str:
    done = machine.run("sh", "-c", f"appliance doctor --json --data-dir {DATA}; echo $?")
    text, _, code = done.strip().rpartition("\n")
    found = json.loads(text)
    wrong = [each for each in found["checks"] if each["verdict"] in ("degraded", "failing")]
    assert {"name", "verdict", "why", "fix"} <= set(found["checks"][0])
    assert code == ("10" if wrong else "0")
    return f"doctor: {found['sentence']}"


def a_new_version_comes(machine: DebianMachine) -> None:
    time.sleep(LOAD_S)
    a_scheduler_of_another_environment_runs(machine)
    before = {each: machine.property(each, "MainPID") for each in (BROKER, SCHEDULE)}
    machine.run("dpkg", "-i", "/opt/now.deb")
    for unit, process in before.items():
        machine.until(unit, "active")
        assert machine.property(unit, "MainPID") != process, unit
    assert "0.0.9" not in machine.run("appliance", "--version")
    runs_as_its_user(machine)
    time.sleep(LOAD_S)


def a_scheduler_of_another_environment_runs(machine: DebianMachine) -> None:
    """Spark is not in the package. Here it is only of interest that it is restarted."""
    machine.run("install", "-d", "-o", "appliance-export", "/srv/lake")
    own = machine.root / f"etc/systemd/system/{SCHEDULE}.d/override.conf"
    own.parent.mkdir()
    own.write_text("[Service]\nExecStart=\nExecStart=/usr/bin/sleep infinity\n")
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", SCHEDULE)


def another_process_takes_over(machine: DebianMachine) -> None:
    before = machine.property(BROKER, "MainPID")
    machine.run("systemctl", "reload", BROKER)
    deadline = time.monotonic() + TAKES_OVER_S
    while machine.property(BROKER, "MainPID") == before:
        assert time.monotonic() < deadline, machine.run("journalctl", "-u", BROKER, "-n", "20")
        time.sleep(0.3)
    machine.until(BROKER, "active")
    time.sleep(LOAD_S)


def nothing_is_lost(load: SteadyLoad) -> str:
    assert load.failed == []
    found = held(load.bootstrap, TOPIC)
    for each in found:
        assert each == sorted(set(each)), "none twice, and in their order"
    numbers = set().union(*found)
    assert load.acknowledged <= numbers
    assert load.read == numbers
    assert committed(load.bootstrap, TOPIC) == len(numbers)
    return (f"upgrade under load: {len(load.acknowledged)} acknowledged, {len(numbers)} held and "
            f"read, none twice; longest pause {load.longest_pause_s:.2f} s")  # fmt: skip


def backups_run_in_their_sandbox(machine: DebianMachine, admin: str) -> None:
    machine.run("install", "-d", "-o", "appliance", f"{BACKUP}/box", f"{BACKUP}/scratch")
    as_the_broker(machine, f"backup create --target {BACKUP}/box --admin {admin}")
    (machine.root / "etc/appliance/backup.env").write_text(
        f"BACKUP_TARGET={BACKUP}/box\nSCRATCH={BACKUP}/scratch\n"
        f"APPLIANCE_ADMIN_ADDRESS={admin}\n"
    )
    for each in ("appliance-backup.service", "appliance-restore-test.service"):
        machine.run("systemctl", "start", each)
    listed = machine.run("appliance", "backup", "list", "--json", "--target", f"{BACKUP}/box")
    found = json.loads(listed)
    assert len(found) == 2
    assert [each for each in found if each["tested"]] == [found[-1]], "the newest"


def as_the_broker(machine: DebianMachine, words: str) -> str:
    return machine.run("setpriv", "--reuid=appliance", "--regid=appliance", "--clear-groups",
                       "--reset-env", "appliance", *words.split())  # fmt: skip


def an_array_that_is_away_fills_no_disk(machine: DebianMachine) -> None:
    """It was mounted by hand, so systemd knows nothing of it."""
    machine.run("systemctl", "stop", BROKER)
    before = sizes(machine, DISKS)
    machine.run("umount", ARRAY)
    assert machine.code("systemctl", "start", BROKER) != 0
    assert "Is its file system mounted?" in machine.run("journalctl", "-u", "appliance", "-n", "50")
    time.sleep(6)  # it has tried again
    assert int(machine.property(BROKER, "NRestarts")) >= 1
    assert machine.run("ls", "-A", ARRAY) == ""
    assert sizes(machine, DISKS) == before
    machine.run("mount", "--bind", DISKS, ARRAY)
    machine.until(BROKER, "active")  # by itself


def sizes(machine: DebianMachine, folder: str) -> str:
    return machine.run("find", folder, "-type", "f", "-printf", "%p %s\\n")


def a_mount_of_the_table_that_fails_is_waited_for(machine: DebianMachine) -> None:
    machine.run("systemctl", "stop", BROKER)
    machine.run("umount", ARRAY)
    named_in_the_table(machine, f"/srv/not-here.img {ARRAY} ext4 loop,nofail 0 2")
    assert machine.code("systemctl", "start", BROKER) != 0
    assert machine.property(BROKER, "ActiveState") == "inactive"
    assert machine.run("ls", "-A", ARRAY) == ""
    named_in_the_table(machine, f"{DISKS} {ARRAY} none bind,nofail 0 0")
    machine.run("systemctl", "start", BROKER)  # and its mount
    machine.run("mountpoint", ARRAY)


def named_in_the_table(machine: DebianMachine, line: str) -> None:
    (machine.root / "etc/fstab").write_text(f"{line}\n")
    machine.run("systemctl", "daemon-reload")


def data_outlives_removal_and_purge(machine: DebianMachine, bootstrap: str, admin: str) -> None:
    count = count_of(bootstrap, TOPIC)
    settings = machine.root / "etc/appliance/appliance.toml"
    kept, found = settings.read_text(), on_disks(machine)
    machine.run("systemctl", "enable", "--now", EXPORT_TIMER)
    machine.run("appliance", "uninstall")
    assert machine.code("systemctl", "is-active", EXPORT_TIMER) != 0
    assert not list((machine.root / "etc/systemd/system").glob("*.wants/appliance*"))
    machine.run("appliance", "uninstall")  # nothing is left to stop
    assert "apt purge" in machine.run("dpkg", "--remove", "appliance")
    assert not list((machine.root / "etc/systemd/system").glob("appliance*.service"))
    assert machine.code("systemctl", "is-active", BROKER) != 0
    assert (found / "catalog.db").exists()
    machine.run("dpkg", "-i", "/opt/now.deb")
    assert settings.read_text() == kept
    machine.run("appliance", "install", "--start")
    assert count_of(bootstrap, TOPIC) == count

    told = machine.run("dpkg", "--purge", "appliance")
    assert f"all records are still in {DATA}" in told
    assert not settings.parent.exists()
    marker = data_marker.read(found)
    machine.run("dpkg", "-i", "/opt/now.deb")
    configured(machine, bootstrap, admin)
    machine.run("appliance", "install", "--data-dir", DATA, "--start")
    assert f'"data.marker" = "{marker}"' in settings.read_text()
    assert count_of(bootstrap, TOPIC) == count


def on_disks(machine: DebianMachine) -> Path:
    """The data directory: what the machine has mounted is not seen from here."""
    return machine.root / DISKS[1:] / Path(DATA).relative_to(ARRAY)


def a_lost_box_is_restored(machine: DebianMachine, bootstrap: str, admin: str) -> str:
    """Its settings were copied, its disks are new: docs/backup.md."""
    count = count_of(bootstrap, TOPIC)
    as_the_broker(machine, f"backup create --existing --target {BACKUP}/box --admin {admin}")
    machine.run("systemctl", "stop", BROKER)
    shutil.rmtree(on_disks(machine))
    assert machine.code("systemctl", "start", BROKER) != 0
    machine.run("systemctl", "stop", BROKER)
    machine.run("appliance", "install", "--data-dir", DATA, "--new-data-dir")
    assert machine.code("appliance", "backup", "restore", "--target", f"{BACKUP}/box",
                        "--data-dir", DATA) == 1, "as root"  # fmt: skip
    as_the_broker(machine, f"backup restore --target {BACKUP}/box --data-dir {DATA}")
    machine.run("appliance", "install", "--start")
    machine.until(BROKER, "active")
    assert count_of(bootstrap, TOPIC) == committed(bootstrap, TOPIC) == count
    return f"restored into what `install` made: {count} records, its group goes on behind them"
