"""What lies between the file system and the disks: arrays, encryption, logical volumes."""

from __future__ import annotations

from collections.abc import Iterator

from appliance.doctor.check import Check
from appliance.machine.disks import Device
from appliance.machine.kernel_files import text_in

# Ends of the ids that LVM gives to the parts of a volume.
SNAPSHOT, THIN = "-real", ("-tpool", "-tdata")


def checks(devices: list[Device]) -> Iterator[Check]:
    if not devices:
        why = "nothing is known of what is below: a network's file system, or one in memory"
        yield Check("layers", "unknown", "the file system has no device", why)
        return
    by_kind: dict[str, list[str]] = {}
    for each in devices:
        by_kind.setdefault(each.kind, []).append(each.name)
    found = " on ".join(f"{kind} {', '.join(names)}" for kind, names in by_kind.items())
    yield Check("layers", "ok", found, "each of them can lose, delay or reorder writes")
    for each in devices:
        if each.kind == "volume":
            yield from of_volume(each.name, text_in(each.folder / "dm" / "uuid").strip())


def of_volume(name: str, uuid: str) -> Iterator[Check]:
    if uuid.endswith(SNAPSHOT):
        why = "each block that is written for the first time is copied before, to the same disks"
        found = "the volume of the data has a snapshot"
        yield Check(f"snapshot {name}", "advice", found, why, "`lvs`, and `lvremove` what is old")
    if uuid.endswith(THIN):
        why = "thin volumes promise more than the pool has: when it is full, writes fail or hang"
        fix = "`lvs -o+data_percent`; thin_pool_autoextend_threshold in /etc/lvm/lvm.conf"
        yield Check(f"thin pool {name}", "advice", "the data is in a thin pool", why, fix)
