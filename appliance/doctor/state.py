"""What one look at the machine says: the one judge for health and doctor.

Health takes what is wrong, word for word; doctor shows all, with why and what to do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from appliance.doctor import known_bugs
from appliance.doctor.check import Check, Verdict
from appliance.machine import limits, raid, sync_rate
from appliance.machine.disk_report import WEAR_ADVICE_PERCENT, WEAR_MAX_PERCENT, DiskState
from appliance.machine.disks import Device
from appliance.machine.raid import READ_ONLY, Array
from appliance.machine.watch import Machine
from appliance.process.spoken import size, some


def checks(machine: Machine) -> Iterator[Check]:
    yield from of_mount(machine)
    yield from of_arrays(machine.arrays)
    yield from of_disks(machine)
    yield from of_disk_watch(machine)
    yield from of_write_cache(machine)
    yield from of_file_system(machine)
    yield from of_kernel(machine)
    yield from of_clock(machine)
    yield from of_memory(machine)
    yield from of_limits(machine)


# Where the data is


def of_mount(machine: Machine) -> Iterator[Check]:
    why = (
        "an empty mount point is on the system's disk: the broker would find none of its data, "
        "and fill that disk"
    )
    expected = machine.unmounted
    if expected is None:
        yield Check("mount", "ok", f"what should hold {machine.directory} does", why)
        return
    found = (
        f"{expected.source} should hold {machine.directory} ({expected.named_by}), and is not "
        f"mounted at {expected.place}: the data directory is on another disk"
    )
    fix = f"stop the broker, `mount {expected.place}`; `journalctl -b -u local-fs.target` says why"
    yield Check("mount", "failing", found, why, fix)


# Arrays

ARRAY_WHY = "an array without its disks, or with copies that differ, loses data at the next failure"


def of_arrays(arrays: Iterable[Array]) -> Iterator[Check]:
    for array in arrays:
        name = f"raid {array['name']}"
        text = raid.reason(array)
        if text is None:
            yield Check(name, "ok", whole(array), ARRAY_WHY, area="raid")
        else:
            verdict: Verdict = "failing" if raid.is_failing(array) else "degraded"
            yield Check(name, verdict, text, ARRAY_WHY, array_fix(array), area="raid")


def whole(array: Array) -> str:
    spares = sum(each["slot"] is None for each in array["members"])
    beside = f" and {some(spares, 'spare')}" if spares else ""
    left = array["survives"]
    bears = "" if left is None else f", survives {left} more"
    return (
        f"{array['name']} ({array['level']}) is {array['state']}, "
        f"{some(array['disks'], 'disk')}{beside}{bears}"
    )


def array_fix(array: Array) -> str:
    device = f"/dev/{array['name']}"
    if array["state"] in READ_ONLY:
        return f"`mdadm --readwrite {device}`, once `mdadm --detail {device}` shows why it was set"
    if array["condition"] == "failed":
        return (
            "write nothing to it; `mdadm --examine` each member and keep what it says; a disk that "
            f"only lost its cable comes back by `mdadm --assemble --force {device}`; else restore "
            "the backup on new disks"
        )
    troubled = [each["name"] for each in array["members"] if is_troubled(each["state"])]
    if array["missing"] and array["action"] == "idle":
        gone = "".join(f" --fail /dev/{each} --remove /dev/{each}" for each in troubled)
        away = f"`mdadm {device}{gone}`, " if gone else ""
        return f"{away}put a new disk in, partition it alike, `mdadm {device} --add /dev/NEW`"
    if array["action"] in raid.REBUILDS:
        return f"wait, and watch /proc/mdstat: it goes on by itself; `mdadm --detail {device}`"
    if array["mismatches"]:
        return f"`echo repair > /sys/block/{array['name']}/md/sync_action`, then `appliance scrub`"
    first = next((each["name"] for each in array["members"] if each["errors"]), "")
    member = troubled[0] if troubled else first
    return (
        f"`smartctl -a /dev/{disk_of(member)}`; if it is failing: `mdadm {device} --add /dev/NEW`, "
        f"`mdadm {device} --replace /dev/{member}`"
    )


def disk_of(member: str) -> str:
    """sda of sda1, nvme0n1 of nvme0n1p1."""
    return re.sub(r"^(sd[a-z]+)\d+$|^(nvme\d+n\d+)p\d+$", r"\1\2", member)


def is_troubled(state: str) -> bool:
    return bool(set(state.split(",")) & set(raid.MEMBER_TROUBLE))


# Disks

DISK_WHY = "a disk tells of its end days before it comes, to who asks"


def of_disks(machine: Machine) -> Iterator[Check]:
    told = list(machine.disk_errors.warnings())
    for text in told:
        fix = f"look at cable and power; `smartctl -a /dev/{text.split(' ')[0]}`; `journalctl -k`"
        yield Check("disk errors", "degraded", text, DISK_WHY, fix, area="disk")
    disks = [each for each in machine.devices if each.is_disk]
    behind = [each for each in machine.disk_report.disks if each.is_behind]
    for each in disks:
        yield from seen(each, len(behind))
    if disks and not told:
        yield Check("disk errors", "ok", f"none on {named(disks)}", DISK_WHY)


def seen(disk: Device, disks_behind: int) -> Iterator[Check]:
    """`disks_behind`: of controllers, which the disk watch tells of."""
    what = f"{disk.name}: {disk.model or 'a disk'}, {size(disk.size)}"
    kind = "platters" if disk.is_rotating else "flash"
    if disk.behind == "controller" and disks_behind:
        found = f"{what}, of a RAID controller; the disk watch tells of {disks_behind} behind it"
        yield Check(f"disk {disk.name}", "ok", found, DISK_WHY)
    elif disk.behind == "controller":
        found = f"{what}, made by a RAID controller: its disks and its cache are not seen from here"
        why = "a disk may be gone for months while the controller's volume works"
        fix = (
            "ask the controller's own program (perccli, storcli, ssacli) for the volume, its disks "
            "and its battery, on a timer that mails"
        )
        yield Check(f"disk {disk.name}", "unknown", found, why, fix)
    elif disk.behind == "host":
        found = f"{what}, made by a host: its disks and its cache are the host's"
        why = "whether a sync reaches a disk is decided there"
        fix = "ask whoever runs the host that the disk's cache mode honours flushes"
        yield Check(f"disk {disk.name}", "unknown", found, why, fix)
    elif disk.is_usb:
        why = "bridges of USB lose their disks for moments, and some confirm syncs too early"
        fix = "attach it by SATA or NVMe"
        yield Check(f"disk {disk.name}", "advice", f"{what}, at USB", why, fix)
    else:
        yield Check(f"disk {disk.name}", "ok", f"{what}, {kind}", DISK_WHY)


def named(disks: Iterable[Device]) -> str:
    return ", ".join(sorted(each.name for each in disks))


def of_disk_watch(machine: Machine) -> Iterator[Check]:
    why = "without SMART a disk that is failing is seen when it has failed"
    fix = "`systemctl enable --now appliance-disk-watch.timer`"
    report = machine.disk_report
    if silence := machine.silence():
        yield Check("disk watch", "degraded", silence, why, fix)
        return
    if report.path is None:
        if any(each.is_seen for each in machine.devices):
            fix = f"{fix}, and set disk.watch.file"
            yield Check("disk watch", "advice", "no disk watch is set up", why, fix)
        return
    yield Check("disk watch", "ok", f"it tells of {some(len(report.disks), 'disk')}", why)
    for disk in report.disks:
        yield from of_smart(disk)
    for disk, text in machine.disk_news:
        fix = f"`{disk.command}`; replace the disk if it goes on"
        told = f"{disk.called}: {text}"
        yield Check(f"smart {disk.name}", "degraded", told, DISK_WHY, fix, area="disk")


def of_smart(disk: DiskState) -> Iterator[Check]:
    name = f"smart {disk.name}"
    failures, warnings = list(disk.failures()), list(disk.warnings())
    fix = f"`{disk.command}`; have a new disk ready"
    for text in failures:
        yield Check(name, "failing", f"{disk.called} {text}", DISK_WHY, fix, area="disk")
    for text in warnings:
        yield Check(name, "degraded", f"{disk.called} {text}", DISK_WHY, fix, area="disk")
    if failures or warnings:
        return
    worn = disk.wear_percent
    if worn is not None and WEAR_ADVICE_PERCENT <= worn < WEAR_MAX_PERCENT:
        found = f"{disk.called} has used {worn} % of its guaranteed writes"
        yield Check(name, "advice", found, DISK_WHY, "order its successor")
    elif disk.is_asleep:
        yield Check(name, "unknown", f"{disk.called} is asleep, and is not woken up", DISK_WHY)
    else:
        yield Check(name, "ok", f"{disk.called}: {well(disk)}", DISK_WHY)


def well(disk: DiskState) -> str:
    facts = [
        "says that it is well" if disk.passed else "gives no verdict of itself",
        f"{disk.temperature_c} °C" if disk.temperature_c is not None else "",
        f"{disk.wear_percent} % worn" if disk.wear_percent is not None else "",
        f"{disk.reallocated_sectors} sectors replaced" if disk.reallocated_sectors else "",
        f"{disk.power_on_hours} h on" if disk.power_on_hours is not None else "",
    ]
    return ", ".join(filter(None, facts))


CACHE_WHY = "what a cache confirmed and did not write is lost in a power cut, acknowledged or not"
CACHE_FIX = (
    "`hdparm -W 0 /dev/DISK` switches a disk's cache off; if it has a battery or flash, set "
    "storage.write.cache.accepted=true"
)


def of_write_cache(machine: Machine) -> Iterator[Check]:
    rate, config = machine.sync_rate, machine.config
    if rate is None:
        return
    measured = f"a sync takes {rate.median_ms:.2f} ms ({some(rate.samples, 'sample')}, the slowest "
    measured += f"{rate.slowest_ms:.1f} ms)"
    disks = [each for each in machine.devices if each.is_disk]
    doubt = sync_rate.doubt(rate, machine.devices)
    if doubt and not config.write_cache_accepted:
        yield Check("write cache", "degraded", doubt, CACHE_WHY, CACHE_FIX)
    elif doubt:
        found = f"{measured}; accepted by storage.write.cache.accepted"
        yield Check("write cache", "ok", found, CACHE_WHY)
    elif not disks or not all(each.is_seen for each in disks):
        found = f"{measured}; what is below is not seen, so nothing is proven by it"
        fix = "ask the host or the controller's program for its cache and battery"
        yield Check("write cache", "unknown", found, CACHE_WHY, fix)
    elif rate.median_ms < sync_rate.FLASH_MS_MIN:
        found = f"{measured}: flash without a capacitor is slower"
        fix = "see its data sheet for power-loss protection"
        yield Check("write cache", "unknown", found, CACHE_WHY, fix)
    else:
        yield Check("write cache", "ok", f"{measured}: it waits for the disk", CACHE_WHY)


# File system, clock, memory, limits


def of_file_system(machine: Machine) -> Iterator[Check]:
    found = machine.file_system
    why = "the kernel stops a file system whose structures are damaged, and then nothing is written"
    check = f"umount and check it: `fsck -n /dev/{found.device}`" if found.device else "dmesg"
    failures, warnings = list(found.failures()), list(found.warnings())
    for text in failures:
        yield Check("file system", "failing", text, why, check)
    for text in warnings:
        yield Check("file system", "degraded", text, why, check)
    if found.kind and not failures and not warnings:
        on = f" on {found.device}" if found.device else ""
        yield Check("file system", "ok", f"{found.kind}{on} counts no errors", why)


def of_kernel(machine: Machine) -> Iterator[Check]:
    release, why = machine.release, "some versions of Linux lose what was written to a disk"
    version = known_bugs.upstream_of(release, machine.banner)
    if version is None:
        yield Check("kernel", "unknown", release or "its version is not told", why)
        return
    has = frozenset({machine.file_system.kind, *(each.kind for each in machine.devices)})
    bugs = known_bugs.found_in(version, has)
    for bug in bugs:
        mended = ".".join(map(str, bug.mended))
        text = f"Linux {release}: {bug.what} ({bug.source})"
        fix = f"install a kernel of {mended} or later, or one in which your distribution mended it"
        yield Check("kernel", "degraded", text, why, fix)
    if not bugs:
        yield Check("kernel", "ok", f"Linux {release} has none of the known bugs", why)


def of_clock(machine: Machine) -> Iterator[Check]:
    why = "retention, expiry and every timestamp go by it"
    fix = "`timedatectl set-ntp true`, or install chrony"
    warnings = list(machine.clock.warnings())
    for text in warnings:
        yield Check("clock", "degraded", text, why, fix)
    board = machine.hardware_clock
    of_board = board.warnings()
    for text in of_board:
        mend = f"{fix}; then `hwclock --systohc`, and replace the battery (CR2032) of the board"
        yield Check("clock", "degraded", text, why, mend)
    for text in board.advice():
        yield Check("clock of the board", "advice", text, why, "`hwclock --systohc`")
    if not warnings and not of_board:
        state = machine.clock.now()["state"]
        if state == "synchronised":
            yield Check("clock", "ok", state, why)
        else:
            yield Check("clock", "advice", state, why, fix)


def of_memory(machine: Machine) -> Iterator[Check]:
    why = "without memory the kernel kills processes, the broker among them"
    found = [*machine.memory.warnings(), *machine.kills.warnings()]
    for text in found:
        yield Check("memory", "degraded", text, why, "`ps aux --sort -rss | head` says who has it")
    if not found:
        left, total = machine.memory.available_bytes, machine.memory.total_bytes
        yield Check("memory", "ok", f"{size(left)} of {size(total)} available", why)


def of_limits(machine: Machine) -> Iterator[Check]:
    why = "at a limit no thread, map or file is given any more"
    found = list(limits.warnings(machine.limits))
    for text in found:
        yield Check("limits", "degraded", text, why, "raise it in the unit of the service")
    if not found:
        yield Check("limits", "ok", "none is near", why)
