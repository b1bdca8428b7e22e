"""The disk watch: smartctl is called, its JSON becomes a file, the broker tells what is in it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from appliance.cli.main import main
from appliance.doctor import disk_watch, smartctl
from appliance.machine import disk_report
from appliance.machine.disk_report import POINTS_MAX, DiskReport, DiskState, Point
from appliance.machine.kernel_counters import Grown
from appliance.testing import running_broker
from tests.doctor import smart_answers
from tests.doctor.machines import Recorded, machine_of

# A smartctl that prints what was recorded, for the device that is asked for, with its exit code.
PROGRAM = """#!/bin/sh
for last; do :; done
echo "$@" >> {folder}/calls
file={folder}/$(echo "$last" | tr / _).json
cat "$file"
exit "$(cat "$file.code")"
"""
ANSWERS = {
    "--scan-open": smart_answers.SCAN,
    "_dev_sda": smart_answers.WELL,
    "_dev_sdb": smart_answers.FAILING,
    "_dev_nvme0": smart_answers.NVME,
    "_dev_bus_0": smart_answers.ASLEEP,
}


def installed(folder: Path, answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "smartctl"
    program.write_text(PROGRAM.format(folder=folder))
    program.chmod(0o755)
    for name, answer in answers.items():
        (folder / f"{name}.json").write_text(json.dumps(answer))
        (folder / f"{name}.json.code").write_text(str(answer["smartctl"]["exit_status"]))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def watched(output: Path, *line: str) -> tuple[int, str]:
    line = ("disk", "watch", "--once", "--output", str(output), *line)
    result = CliRunner().invoke(main, line)
    return result.exit_code, result.output


def test_all_disks_are_asked_and_their_state_is_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, ANSWERS, monkeypatch)
    output = tmp_path / "report.json"
    code, text = watched(output)
    assert code == 10
    assert "sdb (ST4000NM0035-1V4107) says of itself that it is failing" in text
    assert output.stat().st_mode & 0o777 == 0o644
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls == [
        "--json=c --scan-open",
        "--json=c -n standby -a -d sat /dev/sda",
        "--json=c -n standby -a -d sat /dev/sdb",
        "--json=c -n standby -a -d nvme /dev/nvme0",
        "--json=c -n standby -a -d megaraid,3 /dev/bus/0",
    ]
    report = disk_report.read(output)
    sda, sdb, nvme, behind, gone = report.disks
    assert (sda.passed, sda.temperature_c, sda.pending_sectors, sda.rotation_rate) == (
        True, 34, 0, 7200
    )  # fmt: skip
    assert list(sda.warnings()) == []
    assert (sdb.reallocated_sectors, sdb.cable_errors) == (65528, 3)  # its low 32 bits
    assert list(sdb.warnings()) == [
        "says of itself that it is failing (Reallocated_Sector_Ct): replace it now",
        "failed its last self-test: replace it",
        "has 48 sectors that cannot be read: what they hold is gone unless another disk has it",
        "found 48 sectors that it cannot correct",
        "has 63 °C, more than 60: look at the fans",
    ]
    assert (nvme.wear_percent, nvme.spare_percent, nvme.temperature_max_c) == (3, 100, 81)
    assert list(nvme.warnings()) == []
    assert (behind.name, behind.is_asleep, list(behind.warnings())) == (
        "bus-0 megaraid,3",
        True,
        [],
    )
    assert list(gone.warnings()) == ["does not tell its state: No such device"]


def test_without_smartctl_the_file_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    output = tmp_path / "report.json"
    code, _ = watched(output)
    assert code == 10
    now_ms = round(time.time() * 1000)
    silence = disk_report.read(output).silence(now_ms, 3_600_000)
    assert silence == ("the disk watch says nothing: smartctl is not there: install smartmontools")


def test_one_that_prints_no_json_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "smartctl"
    program.write_text("#!/bin/sh\necho Segmentation fault\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    code, text = watched(tmp_path / "report.json")
    assert code == 10
    assert "smartctl --scan-open: Expecting value" in text


def test_of_two_disks_that_do_not_open_each_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = smart_answers.head(["-a"], 2, "Smartctl open device: /dev/sda failed: Permission "
                                 "denied")  # fmt: skip
    scan = smart_answers.SCAN | {"devices": smart_answers.SCAN["devices"][:2]}
    installed(
        tmp_path, {"--scan-open": scan, "_dev_sda": refused, "_dev_sdb": refused}, monkeypatch
    )
    code, text = watched(tmp_path / "report.json")
    assert code == 10
    assert text.count("does not tell its state: Smartctl open device: /dev/sda failed") == 2


NVME_WARNINGS = {
    "takes no more writes: replace it": {"critical_warning": 8},
    "has used 95 % of the writes that its maker guarantees": {"percentage_used": 95},
    "has 9 % of its spare blocks left, and wants 10 %": {"available_spare": 9},
}


@pytest.mark.parametrize(("text", "facts"), NVME_WARNINGS.items(), ids=NVME_WARNINGS)
def test_what_an_nvme_tells(text: str, facts: dict[str, int]) -> None:
    log = smart_answers.NVME["nvme_smart_health_information_log"] | facts
    answer = smart_answers.NVME | {"nvme_smart_health_information_log": log}
    if "percentage_used" in facts:
        answer |= {"endurance_used": {"current_percent": facts["percentage_used"]}}
    state = smartctl.state_of("nvme0", answer)
    assert [*state.failures(), *state.warnings()] == [text]


def test_what_a_sas_disk_tells() -> None:
    state = smartctl.state_of("sdc", smart_answers.SAS)
    assert state.called == "sdc (SEAGATE ST4000NM0025)"
    assert (state.reallocated_sectors, state.uncorrectable_errors, state.limit_c) == (4, 3, 60)
    assert list(state.warnings()) == []


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"smart_status": 3},
        {"ata_smart_attributes": {"table": 1}},
        {"temperature": {"current": "hot"}},
        {"smartctl": []},
    ],
)
def test_what_is_not_as_it_should_be_was_not_told(answer: dict[str, Any]) -> None:
    assert smartctl.state_of("sda", answer) == DiskState("sda")


# The file, as the broker reads it

BAD_FILES = {
    "empty": b"",
    "no JSON": b"\xff\xfe",
    "a list": b"[]",
    "deep": b"[" * 100_000,
    "another version": b'{"version": 2}',
    "no disks": b'{"version": 1, "at_ms": 1}',
    "disks that are none": b'{"version": 1, "at_ms": 1, "disks": [1, 2]}',
    "a time that is none": b'{"version": 1, "at_ms": "x", "disks": []}',
    "large": b" " * (disk_report.FILE_BYTES_MAX + 1),
    "a history that is none": b'{"version": 1, "at_ms": 1, "disks": [{"name": "a"}], '
    b'"history": {"a": [[]]}}',
    "a time beyond all": b'{"version": 1, "at_ms": 1e999, "disks": []}',
}


@pytest.mark.parametrize("data", BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_is_a_watch_that_says_nothing(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(data)
    found = disk_report.read(path)
    assert found.disks == []
    assert found.silence(0, 1000).startswith("the disk watch says nothing: ")


def test_a_pipe_in_place_of_the_file_holds_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "is not the file" in disk_report.read(tmp_path / "pipe").fault


def test_text_and_numbers_that_others_could_not_print(tmp_path: Path) -> None:
    row = {"name": "sda", "model": "\ud800\x1b[2J\n", "temperature_c": 10**400}
    path = tmp_path / "report.json"
    path.write_text(json.dumps({"version": 1, "at_ms": 5, "disks": [row]}))
    assert disk_report.read(path).disks == [DiskState("sda", model="??[2J?")]


def test_values_of_other_types_were_not_told(tmp_path: Path) -> None:
    row = {"name": "sda", "passed": 1, "temperature_c": True, "pending_sectors": "3", "what": 1}
    path = tmp_path / "report.json"
    path.write_text(json.dumps({"version": 1, "at_ms": 5, "disks": [row, row]}))
    assert disk_report.read(path) == DiskReport(path, 5, "", [DiskState("sda")])


def test_a_file_that_is_missing_old_or_of_the_future_is_silence(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    assert disk_report.read(None).silence(0, 1) == ""
    assert "is not there" in disk_report.read(path).silence(0, 1)
    report = DiskReport(path, at_ms=10_000_000)
    assert report.silence(10_000_000, 3_600_000) == ""
    assert "silent for 2.0 h" in report.silence(17_200_001, 3_600_000)
    assert "ahead" in report.silence(0, 3_600_000)


def test_a_disk_has_a_point_of_history_for_each_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, ANSWERS, monkeypatch)
    output, now = tmp_path / "report.json", [1_764_093_600.0]
    monkeypatch.setattr(disk_watch.time, "time", lambda: now[0])
    for _ in range(4):  # twice in one hour, twice in the next
        watched(output)
        now[0] += 1800
    report = disk_report.read(output)
    times = [each.at_ms for each in report.history["sda"]]
    assert times == [1_764_095_400_000, 1_764_099_000_000]
    assert report.history["sdb"][-1] == (1_764_099_000_000, 63, 48, 65528, None)
    many = DiskReport(history={"sda": [Point(0, 1, 0, 0, None)] * POINTS_MAX})
    assert len(disk_watch.continued(report.disks[0], many, 10**13)) == POINTS_MAX


def test_without_once_it_looks_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, ANSWERS, monkeypatch)
    output = tmp_path / "report.json"
    line = ["-m", "appliance", "disk", "watch", "--every", "1", "--output", str(output)]
    with subprocess.Popen([sys.executable, *line], stderr=subprocess.DEVNULL) as running:
        deadline = time.monotonic() + 30
        while not output.exists() or (tmp_path / "calls").read_text().count("--scan-open") < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        running.terminate()
        assert running.wait(30) == 128 + signal.SIGTERM
    assert len(disk_report.read(output).disks) == 5


def test_after_a_boot_the_watch_may_take_its_time(tmp_path: Path) -> None:
    up = tmp_path / "proc/uptime"
    machine = machine_of(Recorded("raid10", has_watch=True), tmp_path, is_guest=True)
    assert "is not there" in machine.silence()
    up.write_text("42.17 160.02\n")
    machine.look()
    assert machine.silence() == ""
    up.write_text("301.00 160.02\n")
    machine.look()
    assert "is not there" in machine.silence()


def test_sectors_that_were_replaced_are_news_for_a_week(tmp_path: Path) -> None:
    now = [0]
    disk = DiskState("sda", serial="Z", reallocated_sectors=8)

    def told(count: int) -> list[str]:
        return list(DiskState("sda", serial="Z", reallocated_sectors=count).news(
            Grown(tmp_path, lambda: now[0])))  # fmt: skip

    assert told(8) == ["8 sectors were replaced by spare ones; the count grew within a week"]
    now[0] += 7 * 86_400_000
    assert told(8) == []
    assert told(9) == ["9 sectors were replaced by spare ones; the count grew within a week"]
    assert list(disk.warnings()) == []


def test_health_and_metrics_tell_of_a_failing_disk_and_of_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, ANSWERS, monkeypatch)
    output = tmp_path / "report.json"
    watched(output)
    settings = {"disk.watch.file": str(output)}
    with running_broker(tmp_path / "data", settings) as broker:
        told = health_of(broker.admin)
        areas = {each["area"] for each in told["findings"]}
        assert (told["status"], "disk" in areas, "disk watch" in areas) == ("degraded", True, False)
        page = metrics_of(broker.admin)
        assert 'appliance_disk_smart_passed{disk="sdb"} 0.0' in page
        assert 'appliance_disk_temperature_celsius{disk="nvme0"} 41.0' in page
        assert 'appliance_disk_temperature_max_celsius{disk="nvme0"} 81.0' in page
        assert "appliance_disk_watch_silent 0.0" in page
        output.unlink()
        deadline = time.monotonic() + 20
        while "appliance_disk_watch_silent 1.0" not in metrics_of(broker.admin):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        (silence,) = [each for each in health_of(broker.admin)["findings"]
                      if each["area"] == "disk watch"]  # fmt: skip
        assert "is not there" in silence["text"]


def health_of(admin: object) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://{admin}/api/v1/health", timeout=10) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def metrics_of(admin: object) -> str:
    with urllib.request.urlopen(f"http://{admin}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
        return text
