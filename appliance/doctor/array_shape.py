"""Advice on arrays of Linux' software RAID below the data: level, chunk, stripe cache, bitmap, and
what happens to a stripe that a power cut tears."""

from __future__ import annotations

from collections.abc import Iterator

from appliance.doctor.check import Check, block_setting
from appliance.machine import raid
from appliance.machine.devices import beneath
from appliance.machine.kernel_files import number_in, text_in
from appliance.machine.raid import Array
from appliance.machine.watch import Machine
from appliance.process.spoken import size

CHUNK_MIN, CHUNK_MAX = 64 << 10, 1 << 20
STRIPE_CACHE_MIN, STRIPE_CACHE_WANTED = 1024, 4096  # pages for each disk
PAGE = 4096
SAFE_POLICIES = ("ppl", "journal")
CHUNKED = ("raid0", "raid4", "raid5", "raid6", "raid10")


def checks(machine: Machine) -> Iterator[Check]:
    kernel = machine.kernel
    mine = beneath(machine.directory, kernel.sys, kernel.mounts) or frozenset()
    for array in machine.arrays:
        if array["name"] in mine:
            yield from of_array(array, machine)


def of_array(array: Array, machine: Machine) -> Iterator[Check]:
    md = machine.kernel.sys / "block" / array["name"] / "md"
    yield level(array)
    if array["level"] in CHUNKED:
        yield chunk(array, number_in(md / "chunk_size") or 0)
    if array["level"] in raid.PARITY:
        yield torn_stripes(array)
        yield stripe_cache(array, number_in(md / "stripe_cache_size") or 0)
    if array["level"] not in raid.WITHOUT_REDUNDANCY:
        yield bitmap(array, text_in(md / "bitmap" / "location").strip())


def level(array: Array) -> Check:
    name, found = f"raid level {array['name']}", f"{array['level']} of {array['disks']} disks"
    if array["level"] in raid.WITHOUT_REDUNDANCY:
        why = "the first disk that fails takes all data: there is no other copy on this box"
        fix = "back up, make it anew as raid1 or raid10 (`mdadm --create --level 10`), restore"
        return Check(name, "advice", found, why, fix)
    if array["level"] in raid.PARITY:
        why = (
            "each small commit reads and writes data and parity: two reads and two writes, where "
            "raid10 has two writes"
        )
        fix = "for many small acknowledged writes choose raid10; for large batches it is right"
        return Check(name, "advice", found, why, fix)
    return Check(name, "ok", found, "copies make a commit cheap, and a disk may fail")


def chunk(array: Array, chunk_bytes: int) -> Check:
    name = f"raid chunk {array['name']}"
    why = "small chunks make every read use all arms, large ones make writes wait for one"
    if CHUNK_MIN <= chunk_bytes <= CHUNK_MAX:
        return Check(name, "ok", size(chunk_bytes), why)
    found = f"{size(chunk_bytes)}, wanted {size(CHUNK_MIN)} to {size(CHUNK_MAX)}"
    return Check(name, "advice", found, why, "choose 512 KiB when the array is made anew")


def torn_stripes(array: Array) -> Check:
    """The write hole: a power cut, and then a disk that fails before the resync is over."""
    name, policy = f"raid policy {array['name']}", array["policy"] or "not told"
    why = (
        "after a power cut a stripe may have new data and old parity; if a disk fails before the "
        "resync is over, what is computed from it is wrong"
    )
    if policy in SAFE_POLICIES:
        return Check(name, "ok", policy, why)
    fix = (
        f"`mdadm --grow --consistency-policy=ppl /dev/{array['name']}` (raid5 without a bitmap, "
        "costs a third of the writes), or a power supply with a battery"
    )
    return Check(name, "advice", policy, why, fix)


def stripe_cache(array: Array, pages: int) -> Check:
    name = f"raid stripe cache {array['name']}"
    why = "whole stripes are written without a read, if they come together in this cache"
    takes = size(pages * PAGE * array["disks"])
    if pages >= STRIPE_CACHE_MIN:
        return Check(name, "ok", f"{pages} pages a disk, {takes}", why)
    fix, change = block_setting(array["name"], "md/stripe_cache_size", STRIPE_CACHE_WANTED)
    wanted = f"wanted {STRIPE_CACHE_WANTED} ({size(STRIPE_CACHE_WANTED * PAGE * array['disks'])})"
    return Check(name, "advice", f"{pages} pages a disk, {takes}, {wanted}", why, fix, (change,))


def bitmap(array: Array, location: str) -> Check:
    name = f"raid bitmap {array['name']}"
    why = "with it a resync after a power cut reads what was being written, not all of the disks"
    if location not in ("", "none") or array["policy"] in SAFE_POLICIES:
        return Check(name, "ok", location or array["policy"] or "", why)
    fix = f"`mdadm --grow --bitmap=internal --bitmap-chunk=128M /dev/{array['name']}`"
    return Check(name, "advice", "none", why, fix)
