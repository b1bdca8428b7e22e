"""The machines that doctor and health are shown: a tree each, and what was done to it.

`python -m tests.doctor.machines` writes what is said of each (`tests/data/machines/NAME.txt`), to
be read before it is committed.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from appliance.broker.health import of_machine
from appliance.cli.doctor import lines
from appliance.config import NO_FILE, BrokerConfig, MachineConfig
from appliance.doctor import examination
from appliance.doctor.check import Check, sentence, worst_first
from appliance.machine.clock_state import Clock
from appliance.machine.sync_rate import SyncRate
from appliance.machine.watch import Machine
from tests.support.recorded_machine import TREES, Room, made

NOW_S = 1_764_093_600.0
HONEST = SyncRate(16, 8.4, 17.1)
LYING = SyncRate(16, 0.11, 0.4)
FLASH = SyncRate(16, 0.9, 2.2)
REPORT = "var/lib/appliance-disk-watch/report.json"


@dataclass(frozen=True)
class Recorded:
    tree: str
    then: str = ""  # what was done to it
    syncs: SyncRate = HONEST
    wall_s: float = NOW_S
    is_synchronised: bool = True
    has_watch: bool = False
    is_accepted: bool = False


MD = "sys/devices/virtual/block"
SDC_GONE = f"""
{MD}/md0/md/degraded = 1
{MD}/md0/md/dev-sdc1/state = faulty
{MD}/md0/md/dev-sdc1/slot = none
"""

WELL = {
    "raid5": Recorded("raid5"),
    "raid10": Recorded("raid10"),
    "nvme": Recorded("nvme", syncs=FLASH),
    "hardware_raid": Recorded("hardware_raid", syncs=LYING),
    "hardware_raid_watched": Recorded("hardware_raid", f"{REPORT} = " + (
        '{"version": 1, "at_ms": 1764093300000, "fault": "", "disks": ['
        '{"name": "bus-0 megaraid,0", "model": "ST10000NM0256", "passed": true},'
        '{"name": "bus-0 megaraid,1", "model": "ST10000NM0256", "passed": true}]}'),
        has_watch=True, syncs=LYING),
    "usb": Recorded("usb", syncs=LYING),
    "volume_on_luks": Recorded("volume_on_luks"),
    "cache_accepted": Recorded("raid5", syncs=LYING, is_accepted=True),
}  # fmt: skip

WRONG = {
    "raid5_degraded": Recorded("raid5", SDC_GONE),
    "raid5_two_gone": Recorded("raid5", f"""{SDC_GONE}
{MD}/md0/md/degraded = 2
! {MD}/md0/md/dev-sde1
"""),
    "raid5_resync": Recorded("raid5", f"""
{MD}/md0/md/array_state = active
{MD}/md0/md/sync_action = resync
{MD}/md0/md/sync_completed = 1953443072 / 7813773184
"""),
    "raid5_mismatches": Recorded("raid5", f"{MD}/md0/md/mismatch_cnt = 128"),
    "raid5_write_error": Recorded("raid5", f"""
{MD}/md0/md/dev-sdd1/state = in_sync,write_error
{MD}/md0/md/dev-sdd1/bad_blocks = 1875432 8
{MD}/md0/md/dev-sdd1/errors = 2
"""),
    "raid10_one_gone": Recorded("raid10", f"""
{MD}/md1/md/degraded = 1
! {MD}/md1/md/dev-sdb1
"""),
    "raid0_broken": Recorded("raid0", f"""
{MD}/md2/md/array_state = broken
{MD}/md2/md/dev-sdb1/state = faulty
"""),
    "read_only": Recorded("raid5", f"{MD}/md0/md/array_state = readonly"),
    "lying_cache": Recorded("raid5", "sys/block/sd{a..f}/queue/write_cache = write through",
                            syncs=LYING),
    "unmounted": Recorded("unmounted", syncs=FLASH),
    "wrong_clock": Recorded("raid10", "sys/class/rtc/rtc0/since_epoch = 946685043",
                            wall_s=946_685_043.5, is_synchronised=False),
    "empty_battery": Recorded("raid10", "sys/class/rtc/rtc0/since_epoch = 946685043"),
    "disk_offline": Recorded("raid0", "sys/block/sdb/device/state = offline"),
    "disk_timeouts": Recorded("raid10", "sys/block/sdb/device/iotmo_cnt = 0x3"),
    "kernel_bug": Recorded("kernel_bug", syncs=FLASH),
    "silent_watch": Recorded("raid10", f"{REPORT} = " +
        '{"version": 1, "at_ms": 1764086400000, "fault": "", "disks": [{"name": "sda"}]}',
        has_watch=True),
    "failing_disk": Recorded("raid10", f"{REPORT} = " + (
        '{"version": 1, "at_ms": 1764093300000, "fault": "", "disks": ['
        '{"name": "sda", "model": "ST4000NM0035-1V4107", "serial": "ZC1", "passed": false,'
        ' "rotation_rate": 7200, "temperature_c": 63, "temperature_max_c": 60,'
        ' "pending_sectors": 16, "offline_uncorrectable": 16, "reallocated_sectors": 3232,'
        ' "failed_attributes": "Reallocated_Sector_Ct"},'
        '{"name": "sdb", "model": "ST4000NM0035-1V4107", "serial": "ZC2", "passed": true,'
        ' "rotation_rate": 7200, "temperature_c": 34, "power_on_hours": 20144}]}'),
        has_watch=True),
    "behind_a_controller": Recorded("hardware_raid", f"{REPORT} = " + (
        '{"version": 1, "at_ms": 1764093300000, "fault": "", "disks": ['
        '{"name": "bus-0 megaraid,3", "serial": "Z", "pending_sectors": 8, "cable_errors": 2}]}'),
        has_watch=True, syncs=LYING),
    "nvme_read_only": Recorded("nvme", f"{REPORT} = " + (
        '{"version": 1, "at_ms": 1764093300000, "fault": "", "disks": ['
        '{"name": "nvme0", "model": "SAMSUNG MZVL21T0HCLR-00B00", "serial": "S1", '
        '"passed": false, "is_read_only": true, "rotation_rate": 0, "temperature_c": 41, '
        '"wear_percent": 102, "spare_percent": 5, "spare_min_percent": 10}]}'),
        has_watch=True, syncs=FLASH),
    "file_system_errors": Recorded("raid10", "sys/fs/ext4/md1/errors_count = 3"),
    "out_of_memory": Recorded("raid10", "sys/fs/cgroup/system.slice/appliance.service/memory.events"
                              " = low 0\\noom_kill 2"),
}  # fmt: skip

ALL = WELL | WRONG


def machine_of(recorded: Recorded, root: Path, *, is_guest: bool) -> Machine:
    """Looked at, and measured."""
    text = f"< {recorded.tree}\n{recorded.then}"
    kernel, data = made(root, text)
    config = MachineConfig(
        disk_watch_file=root / REPORT if recorded.has_watch else NO_FILE,
        write_cache_accepted=recorded.is_accepted,
    )
    machine = Machine(
        data,
        config,
        kernel,
        clock=Clock(lambda: recorded.wall_s, lambda: 100.0, lambda: recorded.is_synchronised),
        measure=lambda _: recorded.syncs,
        wall_s=lambda: recorded.wall_s,
        statvfs=lambda _: Room(),  # type: ignore[arg-type, return-value]
        is_guest=is_guest,
    )
    machine.look()
    return machine


def doctor_of(recorded: Recorded, root: Path) -> list[Check]:
    machine = machine_of(recorded, root, is_guest=True)
    missing = list(examination.measure_syncs(machine))
    config = BrokerConfig(data_dir=machine.directory)
    return worst_first([*examination.checks(machine, config), *missing])


def said_of(recorded: Recorded, root: Path) -> str:
    checks = doctor_of(recorded, root)
    machine = machine_of(recorded, root, is_guest=False)
    health = [f"{each.level} {each.area}: {each.text}" for each in of_machine(machine)]
    parts = ["doctor:", *lines(checks), sentence(checks), "", "health:", *(health or ["healthy"])]
    return "\n".join(parts).replace(str(machine.directory), "DATA").replace(str(root), "") + "\n"


def golden(name: str) -> Path:
    return TREES / f"{name}.txt"


def write() -> None:
    for name, recorded in ALL.items():
        with tempfile.TemporaryDirectory() as folder:
            golden(name).write_text(said_of(recorded, Path(folder)))


if __name__ == "__main__":
    write()
