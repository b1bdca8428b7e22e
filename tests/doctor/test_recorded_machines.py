"""Doctor and health of recorded machines: what is wrong is told by both, in the same words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from appliance.broker.health import of_machine
from appliance.cli.doctor import machines
from appliance.cli.main import main
from appliance.cli.settings_options import load_config
from appliance.doctor import examination, state
from appliance.machine.kernel_files import KernelFiles
from tests.doctor.machines import ALL, WELL, WRONG, Recorded, golden, machine_of, said_of
from tests.support.recorded_machine import expanded, made


@pytest.mark.parametrize("name", ALL)
def test_what_is_said_of_a_machine(name: str, tmp_path: Path) -> None:
    """If it should be said: python -m tests.doctor.machines"""
    assert said_of(ALL[name], tmp_path) == golden(name).read_text()


@pytest.mark.parametrize("name", ALL)
def test_nothing_that_is_wrong_is_healthy(name: str, tmp_path: Path) -> None:
    machine = machine_of(ALL[name], tmp_path, is_guest=False)
    wrong = {each.found for each in state.checks(machine) if each.is_wrong}
    told = {each.text for each in of_machine(machine)}
    assert told == wrong
    assert bool(told) == (name in WRONG)
    assert ("Not healthy" in golden(name).read_text()) == (name in WRONG)


def test_the_broker_measures_where_only_platters_are(tmp_path: Path) -> None:
    on_platters = machine_of(WELL["raid5"], tmp_path / "1", is_guest=False)
    assert on_platters.sync_rate is not None
    assert machine_of(WELL["nvme"], tmp_path / "2", is_guest=False).sync_rate is None
    assert machine_of(WELL["raid5"], tmp_path / "3", is_guest=True).sync_rate is None


def test_an_array_of_others_does_not_fail_the_broker(tmp_path: Path) -> None:
    then = """
sys/devices/virtual/block/md9/md
  array_state = broken
  level = raid0
  raid_disks = 2
sys/block/md9 -> sys/devices/virtual/block/md9
"""
    machine = machine_of(Recorded("nvme", then), tmp_path, is_guest=False)
    (found,) = of_machine(machine)
    assert (found.level, found.area) == ("degraded", "raid")
    assert found.text.endswith("the logs are not on it")


def test_errors_of_a_disk_are_news_when_they_grow(tmp_path: Path) -> None:
    machine = machine_of(WELL["raid10"], tmp_path, is_guest=False)
    assert list(of_machine(machine)) == []
    (tmp_path / "sys/block/sdc/device/ioerr_cnt").write_text("0x7\n")
    machine.look()
    (found,) = of_machine(machine)
    assert found[:3] == ("degraded", "disk", "5 commands failed on sdc within a day")


# The command


def shown(root: Path, *line: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["doctor", "--root", str(root), "--data-dir",
                                       str(root / "data"), *line])  # fmt: skip
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout


def test_what_is_wrong_below_other_directories_is_told_once(tmp_path: Path) -> None:
    one, other = (
        machine_of(WRONG["raid5_degraded"], tmp_path / each, is_guest=True) for each in "ab"
    )
    well = machine_of(WELL["raid5"], tmp_path / "c", is_guest=True)
    (raid,) = [each for each in state.checks(one) if each.name == "raid md0"]
    assert examination.beside([well, one, other], []) == [raid]
    assert examination.beside([one], [raid]) == []


def test_the_command_looks_below_each_directory_of_records(tmp_path: Path) -> None:
    paths = [tmp_path / each for each in ("a", "b")]
    for each in paths:
        each.mkdir()
    config = load_config(None, [f"data.dir={paths[0]}", f"log.dirs={paths[0]},{paths[1]}"], [])
    assert [each.directory for each in machines(config, KernelFiles(Path("/")))] == paths


def test_the_command_prints_one_object_with_all_checks(tmp_path: Path) -> None:
    made(tmp_path, f"< raid5\n{WRONG['raid5_degraded'].then}")
    code, text = shown(tmp_path, "--json", "--no-measure")
    checks = json.loads(text)["checks"]
    assert code == 10
    assert all({"name", "verdict", "why", "fix"} <= set(each) for each in checks)
    (raid,) = [each for each in checks if each["name"] == "raid md0"]
    assert raid["verdict"] == "degraded"
    assert "--add /dev/NEW" in raid["fix"]
    assert all(each["why"] for each in checks)
    assert all(each["fix"] for each in checks if each["verdict"] in ("degraded", "failing"))


def test_this_machine_is_examined(tmp_path: Path) -> None:
    """Live: whatever it is, each check is made, and the exit code is as the verdicts are."""
    result = CliRunner().invoke(main, ["doctor", "--json", "--data-dir", str(tmp_path / "new")])
    checks = json.loads(result.stdout)["checks"]
    wrong = [each for each in checks if each["verdict"] in ("degraded", "failing")]
    assert result.exit_code == (10 if wrong else 0)
    names = {each["name"] for each in checks}
    assert {"mount", "kernel", "clock", "memory", "syncs", "write cache", "room", "dirty limits",
            "descriptors", "port admin"} <= names  # fmt: skip
    assert not (tmp_path / "new").exists()


def test_a_port_that_another_has_is_told(tmp_path: Path) -> None:
    taken = ("  0: 0100007F:2384 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0"
             "        0 1 1 0 100 0 0 10 0")  # fmt: skip
    made(tmp_path, "< raid10")
    tcp = tmp_path / "proc/net/tcp"
    tcp.write_text(tcp.read_text() + taken + "\n")
    code, text = shown(tmp_path, "--no-measure")
    assert code == 10
    assert "failing   port PLAINTEXT: 9092 is taken, and not by a broker of this data dir" in text


# --fix


def test_fix_writes_values_and_keeps_them_for_the_next_start(tmp_path: Path) -> None:
    made(tmp_path, """< raid5
proc/sys/vm/dirty_background_bytes = 0
proc/sys/vm/dirty_background_ratio = 10
! sys/class/rtc
sys/block/sd{b..c}/queue/scheduler = [none] mq-deadline
etc/sysctl.d/90-appliance.conf = vm.dirty_bytes = 1\\nvm.other = 7
""")  # fmt: skip
    code, text = shown(tmp_path, "--no-measure", "--fix")
    assert code == 0
    assert (
        "fixed     scheduler sdb: /sys/block/sdb/queue/scheduler was none, is mq-deadline" in text
    )
    assert (tmp_path / "sys/block/md0/md/stripe_cache_size").read_text() == "4096\n"
    assert (tmp_path / "proc/sys/vm/dirty_background_bytes").read_text() == "268435456\n"
    kept = (tmp_path / "etc/sysctl.d/90-appliance.conf").read_text().splitlines()[1:]
    assert kept == [
        "vm.other = 7", "vm.dirty_background_bytes = 268435456", "vm.dirty_bytes = 1073741824",
    ]  # fmt: skip
    rules = (tmp_path / "etc/udev/rules.d/90-appliance.rules").read_text()
    assert (
        'ACTION=="add|change", KERNEL=="sd*", ENV{DEVTYPE}=="disk", '
        'ATTR{queue/rotational}=="1", ATTR{queue/scheduler}="mq-deadline"\n'
    ) in rules
    assert rules.count("scheduler") == 1
    for each in ("sdb", "sdc"):  # as the kernel shows it
        (tmp_path / f"sys/block/{each}/queue/scheduler").write_text("none [mq-deadline]\n")
    _, again = shown(tmp_path, "--no-measure", "--fix")
    assert "fixed" not in again


def test_fix_leaves_disks_and_arrays_alone(tmp_path: Path) -> None:
    made(tmp_path, f"< raid5\n{WRONG['raid5_mismatches'].then}")
    before = (tmp_path / "sys/block/md0/md/sync_action").read_text()
    code, _ = shown(tmp_path, "--no-measure", "--fix")
    assert code == 10
    assert (tmp_path / "sys/block/md0/md/sync_action").read_text() == before


def test_what_cannot_be_written_is_told_and_not_kept(tmp_path: Path) -> None:
    made(tmp_path, "< raid5\n! sys/class/rtc")
    file = tmp_path / "sys/block/md0/md/stripe_cache_size"
    file.unlink()
    file.mkdir()
    code, text = shown(tmp_path, "--no-measure", "--fix")
    assert code == 0
    assert "not fixed raid stripe cache md0: /sys/block/md0/md/stripe_cache_size: Is a dir" in text
    assert not (tmp_path / "etc/udev/rules.d/90-appliance.rules").exists()


def test_ranges_of_a_tree_go_on_together() -> None:
    assert expanded("sd{a..c}/{1..3} = x") == ["sda/1 = x", "sdb/2 = x", "sdc/3 = x"]
    with pytest.raises(ValueError, match="longer"):
        expanded("{a..b}{1..3}")
