"""Advice on block devices: scheduler, read-ahead, queue, the kernel's belief about the cache, and
whether partitions begin where blocks do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from appliance.doctor.check import Check, block_setting
from appliance.machine.disks import Device
from appliance.process.spoken import size

# Of the device that the file system is on: consumers far behind read whole segments from it.
READ_AHEAD_KB = {"array": 4096, "disk": 1024}
REQUESTS_MIN = 32  # what a scheduler may choose from
FOR_PLATTERS = ("mq-deadline", "bfq", "deadline", "cfq")


def checks(devices: list[Device]) -> Iterator[Check]:
    for each in devices:
        if each.is_disk:
            yield from scheduler(each)
            yield queue(each)
            yield believed_cache(each)
        yield from alignment(each)
    if devices:
        yield read_ahead(devices)


def scheduler(disk: Device) -> Iterator[Check]:
    name = f"scheduler {disk.name}"
    if not disk.schedulers:
        return
    if disk.is_rotating and not disk.behind:
        why = "without a scheduler readers far behind make each commit wait for seeks"
        if disk.scheduler in FOR_PLATTERS:
            yield Check(name, "ok", f"{disk.scheduler}, for platters", why)
            return
        wanted = next((each for each in FOR_PLATTERS if each in disk.schedulers), "mq-deadline")
        fix, change = block_setting(disk.name, "queue/scheduler", wanted)
        yield Check(name, "advice", f"{disk.scheduler}, for platters", why, fix, (change,))
        return
    why = "flash has no arm to spare: sorting its requests only takes time"
    if disk.is_nvme and disk.scheduler != "none":
        fix, change = block_setting(disk.name, "queue/scheduler", "none")
        yield Check(name, "advice", f"{disk.scheduler}, for NVMe", why, fix, (change,))
    else:
        yield Check(name, "ok", disk.scheduler or "none", why)


def queue(disk: Device) -> Check:
    name, why = f"queue {disk.name}", "a scheduler sorts only what is in its queue"
    if 0 < disk.requests < REQUESTS_MIN and disk.is_rotating and not disk.behind:
        fix, change = block_setting(disk.name, "queue/nr_requests", 4 * REQUESTS_MIN)
        return Check(name, "advice", f"{disk.requests} requests", why, fix, (change,))
    return Check(name, "ok", f"{disk.requests} requests", why)


def believed_cache(disk: Device) -> Check:
    name = f"flushes {disk.name}"
    why = "where the kernel believes in no cache it flushes none"
    if disk.write_cache == "write back":
        return Check(name, "ok", "the disk has a cache, and the kernel flushes it", why)
    if disk.write_cache == "write through" and disk.is_seen and disk.is_rotating:
        found = "the kernel believes that the disk has no cache, or that it is switched off"
        return Check(name, "ok", f"{found}; the measured sync tells", why)
    return Check(name, "ok", disk.write_cache or "not told by the kernel", why)


def read_ahead(devices: list[Device]) -> Check:
    """The first device is the one below the file system."""
    top = devices[0]
    kind = "array" if any(each.kind == "array" for each in devices) else "disk"
    on_platters = any(each.is_disk and each.is_rotating and not each.behind for each in devices)
    wanted = READ_AHEAD_KB[kind] if on_platters else 0
    name = f"read-ahead {top.name}"
    why = "a consumer far behind reads from the disk: long reads are cheap, seeks are not"
    if top.read_ahead_kb >= wanted:
        return Check(name, "ok", size(top.read_ahead_kb * 1024), why)
    owner = top if top.kind != "partition" else next(
        (each for each in devices if each.is_disk or each.kind == "array"), top
    )  # fmt: skip
    fix, change = block_setting(owner.name, "queue/read_ahead_kb", wanted)
    found = f"{size(top.read_ahead_kb * 1024)}, wanted {size(wanted * 1024)}"
    return Check(name, "advice", found, why, fix, (change,))


def alignment(device: Device) -> Iterator[Check]:
    if device.kind != "partition" or device.start is None:
        return
    name = f"alignment {device.name}"
    why = "a block that lies across two of the disk's is read before it is written"
    off = device.offset or device.start % device.physical_block
    if off:
        found = (
            f"it begins at byte {device.start}, {device.start % device.physical_block} beyond a "
            f"block of {device.physical_block}"
        )
        fix = "partition the disk anew from 1 MiB on (`parted -a optimal`), and restore its data"
        yield Check(name, "advice", found, why, fix)
    else:
        yield Check(name, "ok", f"begins at {size(device.start)}", why)


def rotating(devices: Iterable[Device]) -> list[Device]:
    return [each for each in devices if each.is_disk and each.is_rotating and not each.behind]
