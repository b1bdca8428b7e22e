"""Advice on the file system of the data: its kind, options, reserve, stripes, room, and the disk it
shares."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from appliance.config import BrokerConfig
from appliance.doctor.check import Check
from appliance.machine import raid
from appliance.machine.kernel_files import number_in, text_in
from appliance.machine.mounts import Mount, holding, of_number
from appliance.machine.sync_guarantee import NO_FLUSH, syncs_on
from appliance.machine.watch import Machine
from appliance.process.spoken import size

RESERVED_MAX = 0.02  # of the size
ROOM_MIN = 0.1
SECTOR = 512
_STRIPE = re.compile(r"stripe=(\d+)")
_SWIDTH = re.compile(r"swidth=(\d+)")
BLOCK = 4096


def checks(machine: Machine, config: BrokerConfig) -> Iterator[Check]:
    kernel = machine.kernel
    lines = text_in(kernel.mounts)
    try:
        number = os.stat(machine.directory).st_dev
    except OSError as error:
        found = f"{machine.directory}: {error.strerror}"
        yield Check("data directory", "unknown", found, "nothing of its file system can be said",
                    "create it, or name another by --data-dir")  # fmt: skip
        return
    yield kind(machine, config, lines)
    mount = of_number(f"{os.major(number)}:{os.minor(number)}", kernel.mounts)
    mount = mount or holding(machine.directory.resolve(), lines)
    if mount is not None:
        yield options(mount)
        yield own_disk(mount, lines)
        yield from stripes(mount, machine)
    yield from room(machine, mount, config)


def kind(machine: Machine, config: BrokerConfig, lines: str) -> Check:
    syncs = syncs_on(machine.directory, lines)
    why = "an acknowledged record must survive a power cut, which the file system has to honour"
    if syncs.is_proven:
        return Check("syncs", "ok", syncs.text, why)
    if syncs.is_accepted(config.storage.file_system_accepted):
        return Check("syncs", "ok", f"{syncs.text}; storage.file.system.accepted", why)
    fix = "move the data directory to ext4 or XFS"
    return Check("syncs", "degraded", syncs.text, why, fix, area="file system")


def options(mount: Mount) -> Check:
    said = ", ".join(sorted(mount.options))
    if "data=writeback" in mount.options:
        why = "after a power cut files may have old content of other files in them"
        return Check("mount options", "advice", said, why, "mount it without data=writeback")
    why = "each read that is noted, and each freed block that is told at once, is a write"
    if "strictatime" in mount.options or not {"relatime", "noatime"} & mount.options:
        fix = f"mount -o remount,noatime {mount.place}; and in /etc/fstab"
        return Check("mount options", "advice", said, why, fix)
    if "discard" in mount.options and not NO_FLUSH & mount.options:
        fix = f"`systemctl enable --now fstrim.timer`; mount -o remount,nodiscard {mount.place}"
        return Check("mount options", "advice", said, why, fix)
    return Check("mount options", "ok", said, why)


def own_disk(mount: Mount, lines: str) -> Check:
    why = "what fills the system's disk stops the broker, and the broker's data can fill it"
    root = holding(mount.place.__class__("/"), lines)
    if root is not None and root.number == mount.number:
        fix = "give the data a disk or an array of its own, and mount it at the data directory"
        return Check("own disk", "advice", "the data is on the system's disk", why, fix)
    return Check("own disk", "ok", f"{mount.source} at {mount.place}", why)


def stripes(mount: Mount, machine: Machine) -> Iterator[Check]:
    """Whether the file system knows the stripes of the array that it is on."""
    array = next((each for each in machine.arrays if each["holds_data"]), None)
    if array is None or array["level"] not in (*raid.PARITY, "raid0", "raid10"):
        return
    md = machine.kernel.sys / "block" / array["name"] / "md"
    chunk = number_in(md / "chunk_size") or 0
    data = array["disks"] - raid.PARITY.get(str(array["level"]), 0)
    data = data // 2 if array["level"] == "raid10" else data
    told = stripe_of(mount)
    why = "a file system that knows the stripes allocates whole ones: fewer reads of parity"
    found = f"{size(told)} told to {mount.kind}, {size(chunk * data)} in {array['name']}"
    if told == chunk * data or (array["level"] == "raid10" and told):
        yield Check("stripes", "ok", found, why)
    else:
        fix = f"`tune2fs -E stride={chunk // BLOCK},stripe_width={chunk * data // BLOCK} /dev/..`"
        if mount.kind == "xfs":
            fix = f"mount with sunit={chunk // SECTOR},swidth={chunk * data // SECTOR}"
        yield Check("stripes", "advice", found, why, fix)


def stripe_of(mount: Mount) -> int:
    text = ",".join(mount.options)
    if mount.kind == "xfs":
        found = _SWIDTH.search(text)
        return int(found[1]) * SECTOR if found else 0
    found = _STRIPE.search(text)
    return int(found[1]) * BLOCK if found else 0


def room(machine: Machine, mount: Mount | None, config: BrokerConfig) -> Iterator[Check]:
    found = machine.statvfs(machine.directory)
    whole, free = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
    reserved = (found.f_bfree - found.f_bavail) * found.f_frsize
    why = "below storage.low.water.bytes writes are refused"
    low = config.storage.low_water_bytes
    text = f"{size(free)} free of {size(whole)}"
    fix = "shorten what topics keep, delete topics, or add disks"
    if free < 2 * low:
        yield Check("room", "degraded", text, why, fix, area="storage")
    elif free < ROOM_MIN * whole:
        yield Check("room", "advice", text, why, fix)
    else:
        yield Check("room", "ok", text, why)
    if mount is not None and mount.kind.startswith("ext"):
        yield reserve(mount, reserved, whole)


def reserve(mount: Mount, reserved: int, whole: int) -> Check:
    why = "ext4 keeps a part for root alone, which the broker, that is not root, cannot use"
    found = f"{size(reserved)} of {size(whole)}"
    if reserved > RESERVED_MAX * whole:
        return Check("reserved blocks", "advice", found, why, f"tune2fs -m 1 {mount.source}")
    return Check("reserved blocks", "ok", found, why)
