"""Metrics of the machine under the broker: disks, file system, memory, clock. All are of the last
look, which is some seconds old."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from appliance.admin.metrics_of_broker import counter, gauge, one
from appliance.broker.broker import Broker
from appliance.machine.disk_report import DiskState
from appliance.machine.file_system import FileSystem
from appliance.machine.memory import Memory
from appliance.machine.raid import Array
from appliance.machine.watch import Machine

CONDITIONS = ("well", "degraded", "read-only", "failed")


def families(machine: Machine, broker: Broker | None) -> Iterator[Metric]:
    yield from of_raid(machine.arrays)
    yield from of_disks(machine.disk_report.disks)
    yield from of_disk_watch(machine)
    yield from of_file_system(machine.file_system)
    yield from of_memory(machine.memory)
    yield from of_clock(machine, broker)


def of_raid(arrays: list[Array]) -> Iterator[Metric]:
    condition = gauge("raid_condition", "1 for what the array is.", ["array", "condition"])
    missing = gauge("raid_missing_disks", "Members that it lacks.", ["array"])
    survives = gauge("raid_survives_disks", "More members that may fail.", ["array"])
    action = gauge("raid_action_done", "Share of a rebuild or check.", ["array", "action"])
    differ = gauge("raid_mismatch_bytes", "Copies that differ, by the last check.", ["array"])
    errors = gauge("raid_member_errors", "Read errors that others mended.", ["array", "member"])
    for each in arrays:
        name = each["name"]
        for one_of in CONDITIONS:
            condition.add_metric([name, one_of], each["condition"] == one_of)
        missing.add_metric([name], each["missing"])
        if each["survives"] is not None:
            survives.add_metric([name], max(0, each["survives"]))
        if each["done"] is not None:
            action.add_metric([name, each["action"]], each["done"])
        differ.add_metric([name], each["mismatches"])
        for member in each["members"]:
            errors.add_metric([name, member["name"]], member["errors"])
    yield from (condition, missing, survives, action, differ, errors)


NUMBERS_OF_DISKS = {
    "temperature_c": ("disk_temperature_celsius", "Of the disk, by itself."),
    "limit_c": ("disk_temperature_max_celsius", "Above it the disk is too hot."),
    "pending_sectors": ("disk_pending_sectors", "Sectors that cannot be read now."),
    "reallocated_sectors": ("disk_reallocated_sectors", "Sectors replaced by spare ones."),
    "uncorrectable_errors": ("disk_uncorrectable_errors", "Reads that could not be corrected."),
    "cable_errors": ("disk_cable_errors", "Transfers that were damaged on the way."),
    "media_errors": ("disk_media_errors", "Errors of the medium that an NVMe tells."),
    "wear_percent": ("disk_wear_percent", "Used of the writes that its maker guarantees."),
    "power_on_hours": ("disk_power_on_hours", "How long it has been on."),
}


def of_disks(disks: list[DiskState]) -> Iterator[Metric]:
    """As the disk watch wrote them. What a disk does not tell has no row."""
    passed = gauge("disk_smart_passed", "0: the disk says that it is failing.", ["disk"])
    for each in disks:
        if each.passed is not None:
            passed.add_metric([each.name], each.passed)
    yield passed
    for name, (metric, text) in NUMBERS_OF_DISKS.items():
        family = gauge(metric, text, ["disk"])
        for each in disks:
            if (value := getattr(each, name)) is not None:
                family.add_metric([each.name], value)
        yield family


def of_disk_watch(machine: Machine) -> Iterator[Metric]:
    silent = gauge("disk_watch_silent", "1: the file of the disk watch is missing, old or bad.")
    yield one(silent, bool(machine.silence()))
    if machine.disk_report.at_ms is not None:
        at = gauge("disk_watch_time_seconds", "When the disk watch wrote its file.")
        yield one(at, machine.disk_report.at_ms / 1000)
    if machine.sync_rate is not None:
        rate = gauge("disk_sync_seconds", "Median of rewrites with a sync, measured at the start.")
        yield one(rate, machine.sync_rate.median_ms / 1000)


def of_file_system(found: FileSystem) -> Iterator[Metric]:
    stopped = gauge("file_system_stopped", "1: it is read-only, shut down or away.")
    yield one(stopped, bool(found.is_read_only or found.stopped or found.unseen))
    text = "Errors that the file system counts, in its structures or of its devices."
    yield one(gauge("file_system_errors", text), sum(found.errors.values()))
    missing = gauge("file_system_missing_devices", "Devices that a btrfs lacks.")
    yield one(missing, len(found.missing))


def of_memory(found: Memory) -> Iterator[Metric]:
    for name, text, value in (
        ("memory_total_bytes", "Of the machine.", found.total_bytes),
        ("memory_available_bytes", "Of the machine, without pushing out.", found.available_bytes),
        ("memory_limit_bytes", "Of the broker's control group, if it has one.", found.limit_bytes),
        ("memory_used_bytes", "Of that limit, what cannot be given back.", found.used_bytes),
    ):
        if value is not None:
            yield one(gauge(name, text), value)
    kills = counter("memory_kills", "Processes of the control group killed for want of memory.")
    yield one(kills, found.kills or 0)


def of_clock(machine: Machine, broker: Broker | None) -> Iterator[Metric]:
    state = machine.clock.now()["state"]
    synchronised = gauge("clock_synchronised", "1: the machine's clock is known to be kept right.")
    yield one(synchronised, state == "synchronised")
    lost = gauge("clock_synchronisation_lost", "1: it was, and no longer is.")
    yield one(lost, state == "no longer synchronised")
    doubt = broker.clock.doubt() if broker else None
    text = "How far the machine's clock is ahead of what is believed; below 0: behind; 0: no doubt."
    ahead_ms = doubt.wall_ms - doubt.believed_ms if doubt else 0
    yield one(gauge("clock_doubt_seconds", text), ahead_ms / 1000)
