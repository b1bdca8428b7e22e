"""Asks the disks for their state by smartctl, which prints JSON (`json_format_version` 1.0).

`smartctl --scan-open` finds them, also behind controllers that it knows. Its exit code is a set of
bits: 1 the command line, 2 the device did not open (or is asleep), 4 a command failed; 8 and above
tell of the disk, and are in the JSON, too. A disk that sleeps is not woken up.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from appliance.errors import ApplianceError
from appliance.machine.disk_report import DISKS_MAX, TEXT_MAX, DiskState

TIMEOUT_S = 60.0  # a disk that is failing answers after many tries
NOT_OPENED = 2
ASLEEP = "STANDBY"

# Attributes of ATA disks, by number; the raw value is a count.
REALLOCATED, REPORTED_UNCORRECTABLE, PENDING, OFFLINE_UNCORRECTABLE, CABLE = 5, 187, 197, 198, 199
LOW_32 = 0xFFFFFFFF  # some disks have other things in the upper bytes


class SmartctlMissing(ApplianceError):
    """It is not installed."""


class SmartctlFailed(ApplianceError):
    """It printed nothing that can be read."""


def look() -> list[DiskState]:
    program = shutil.which("smartctl")
    if program is None:
        raise SmartctlMissing("smartctl is not there: install smartmontools")
    found = asked(program, "--scan-open").get("devices", [])
    return [_state(program, each) for each in _rows(found)[:DISKS_MAX]]


def asked(program: str, *arguments: str) -> dict[str, Any]:
    line = [program, "--json=c", *arguments]
    try:
        done = subprocess.run(line, capture_output=True, timeout=TIMEOUT_S, check=False)
        answer = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise SmartctlFailed(f"smartctl did not answer within {TIMEOUT_S:.0f} s") from None
    except (OSError, ValueError) as error:
        raise SmartctlFailed(f"smartctl {' '.join(arguments)}: {error}") from error
    if not isinstance(answer, dict):
        raise SmartctlFailed(f"smartctl {' '.join(arguments)}: got no JSON object")
    return answer


def _state(program: str, device: dict[str, Any]) -> DiskState:
    path, kind = str(device.get("name", "")), str(device.get("type", ""))
    name = _named(path, kind)
    if "open_error" in device:
        return DiskState(name, error=_text(device["open_error"]))
    try:
        answer = asked(program, "-n", "standby", "-a", *(["-d", kind] if kind else []), path)
    except SmartctlFailed as error:
        return DiskState(name, error=str(error)[:TEXT_MAX])
    return state_of(name, answer)


def _named(path: str, kind: str) -> str:
    """sda; of a disk behind a controller, which shares its path with others, bus-0 megaraid,3."""
    name = path.removeprefix("/dev/").replace("/", "-")
    return f"{name} {kind}" if "," in kind else name


def state_of(name: str, answer: dict[str, Any]) -> DiskState:
    """What it told, as far as it told it."""
    attributes = {
        each.get("id"): each for each in _rows(_at(answer, "ata_smart_attributes", "table"))
    }
    health = _at(answer, "nvme_smart_health_information_log")
    warning = _number(_at(health, "critical_warning"))
    error = _error(answer)
    return DiskState(
        name=name,
        model=_text(answer.get("model_name") or answer.get("scsi_model_name") or ""),
        serial=_text(answer.get("serial_number") or ""),
        error=error,
        is_asleep=ASLEEP in error or None,
        passed=_flag(_at(answer, "smart_status", "passed")),
        self_test_passed=_self_test(answer),
        is_read_only=None if warning is None else bool(warning & 8),
        rotation_rate=_number(answer.get("rotation_rate")) if health is None else 0,
        temperature_c=_number(_at(answer, "temperature", "current")),
        temperature_max_c=_number(_at(answer, "temperature", "op_limit_max"))
        or _number(_at(answer, "temperature", "drive_trip")),
        pending_sectors=_raw(attributes, PENDING),
        offline_uncorrectable=_raw(attributes, OFFLINE_UNCORRECTABLE),
        reallocated_sectors=_reallocated(answer, attributes),
        uncorrectable_errors=_uncorrectable(answer, attributes),
        cable_errors=_raw(attributes, CABLE),
        media_errors=_number(_at(health, "media_errors")),
        wear_percent=_number(_at(answer, "endurance_used", "current_percent"))
        or _number(_at(health, "percentage_used")),
        spare_percent=_number(_at(health, "available_spare")),
        spare_min_percent=_number(_at(health, "available_spare_threshold")),
        power_on_hours=_number(_at(answer, "power_on_time", "hours")),
        failed_attributes=", ".join(
            _text(each.get("name", "")) for each in attributes.values()
            if each.get("when_failed") == "now"
        ),
    )  # fmt: skip


def _error(answer: dict[str, Any]) -> str:
    status = _number(_at(answer, "smartctl", "exit_status")) or 0
    said = _rows(_at(answer, "smartctl", "messages"))
    texts = [_text(each.get("string", "")) for each in said]
    asleep = [each for each in texts if ASLEEP in each]
    if asleep:
        return asleep[0]
    if not status & (1 | NOT_OPENED):
        return ""
    return "; ".join(filter(None, texts))[:TEXT_MAX] or f"smartctl ended with {status}"


def _self_test(answer: dict[str, Any]) -> bool | None:
    """Of the last that ended: one that runs, or was stopped, says nothing."""
    return _flag(_at(answer, "ata_smart_data", "self_test", "status", "passed"))


def _reallocated(answer: dict[str, Any], attributes: dict[Any, dict[str, Any]]) -> int | None:
    grown = _number(answer.get("scsi_grown_defect_list"))
    return grown if grown is not None else _raw(attributes, REALLOCATED)


def _uncorrectable(answer: dict[str, Any], attributes: dict[Any, dict[str, Any]]) -> int | None:
    """SAS disks count by what they did: read, write, verify."""
    counters = _at(answer, "scsi_error_counter_log")
    if not isinstance(counters, dict):
        return _raw(attributes, REPORTED_UNCORRECTABLE)
    counts = [_number(_at(each, "total_uncorrected_errors")) or 0 for each in counters.values()]
    return sum(counts)


def _raw(attributes: dict[Any, dict[str, Any]], number: int) -> int | None:
    value = _number(_at(attributes.get(number), "raw", "value"))
    return None if value is None else value & LOW_32


def _at(found: Any, *names: str) -> Any:
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _rows(found: Any) -> list[dict[str, Any]]:
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _text(value: Any) -> str:
    return str(value).strip()[:TEXT_MAX]


def rows(states: list[DiskState]) -> Iterator[dict[str, Any]]:
    """As the file has them: what was not told is left out."""
    for each in states:
        yield {name: value for name, value in asdict(each).items() if value not in (None, "")}
