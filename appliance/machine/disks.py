"""The block devices below a directory, with what the kernel says of each: kind, queue, errors.

kind        told by
partition   a file "partition" in its folder, which is in its disk's
array       a folder "md"
volume      dm/uuid begins with LVM-
encrypted   dm/uuid begins with CRYPT-
multipath   dm/uuid begins with mpath-
mapped      any other dm device
loop        a folder "loop"; the file system below is followed, too
disk        the rest
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from appliance.machine.devices import folders_beneath
from appliance.machine.kernel_files import KernelFiles, chosen_in, number_in, text_in

SECTOR = 512
MAPPED = {"LVM-": "volume", "CRYPT-": "encrypted", "mpath-": "multipath"}

# What a disk says of itself that is none, by the names that vendors give: one of a controller,
# whose own disks nobody sees from here, or one that a host made.
CONTROLLERS = (
    "PERC", "MegaRAID", "MR9", "ServeRAID", "LOGICAL VOLUME", "RAID", "PRAID", "ARC-", "3ware",
    "SmartArray", "MSCC",
)  # fmt: skip
HOSTS = ("QEMU", "VBOX", "VMware", "Virtual", "Msft", "Xen", "Amazon Elastic", "Google", "virtio")

# Of a SCSI disk; and an NVMe controller's.
RUNNING = ("", "running", "live", "created", "new", "connecting", "resetting")


class Device(NamedTuple):
    name: str
    kind: str
    folder: Path
    model: str  # "" of what is no disk
    behind: str  # "controller", "host": what is below is not seen; "": nothing
    is_rotating: bool
    scheduler: str  # "": it has none
    schedulers: tuple[str, ...]
    read_ahead_kb: int
    requests: int  # that its queue may hold
    write_cache: str  # "write back": the kernel flushes it. "write through": it believes in none
    physical_block: int
    optimal_io: int  # 0: not known
    offset: int  # bytes by which its beginning is off the device's own blocks
    start: int | None  # of a partition, in bytes
    size: int
    state: str  # of a disk; "": not known
    errors: int  # commands that failed since the boot; some fail on every disk
    timeouts: int

    @property
    def is_disk(self) -> bool:
        return self.kind == "disk"

    @property
    def is_nvme(self) -> bool:
        return self.name.startswith("nvme")

    @property
    def is_usb(self) -> bool:
        return "/usb" in str(self.folder)

    @property
    def is_running(self) -> bool:
        return self.state in RUNNING

    @property
    def is_seen(self) -> bool:
        """Whether it is the disk itself. A bridge of USB often calls flash rotating."""
        return self.is_disk and not self.behind and not self.is_usb


def look(directory: Path, kernel: KernelFiles) -> list[Device]:
    """From the file system down."""
    folders = folders_beneath(directory, kernel.sys, kernel.mounts)
    return [_device(each) for each in folders.values()]


def kind_of(folder: Path) -> str:
    if (folder / "partition").exists():
        return "partition"
    if (folder / "md").is_dir():
        return "array"
    if (folder / "loop").is_dir():
        return "loop"
    if (folder / "dm").is_dir():
        uuid = text_in(folder / "dm" / "uuid")
        return next((kind for begin, kind in MAPPED.items() if uuid.startswith(begin)), "mapped")
    return "disk"


def _device(folder: Path) -> Device:
    kind = kind_of(folder)
    queue = folder / "queue" if kind != "partition" else folder.parent / "queue"
    words = text_in(queue / "scheduler").split()
    start = number_in(folder / "start")
    model = _model(folder) if kind == "disk" else ""
    return Device(
        name=folder.name,
        kind=kind,
        folder=folder,
        model=model,
        behind=_behind(folder, model) if kind == "disk" else "",
        is_rotating=number_in(queue / "rotational") == 1,
        scheduler=chosen_in(queue / "scheduler"),
        schedulers=tuple(word.strip("[]") for word in words),
        read_ahead_kb=number_in(queue / "read_ahead_kb") or 0,
        requests=number_in(queue / "nr_requests") or 0,
        write_cache=text_in(queue / "write_cache").strip(),
        physical_block=number_in(queue / "physical_block_size") or SECTOR,
        optimal_io=number_in(queue / "optimal_io_size") or 0,
        offset=number_in(folder / "alignment_offset") or 0,
        start=None if start is None or kind != "partition" else start * SECTOR,
        size=(number_in(folder / "size") or 0) * SECTOR,
        state=text_in(folder / "device" / "state").strip(),
        errors=_hexadecimal(folder / "device" / "ioerr_cnt"),
        timeouts=_hexadecimal(folder / "device" / "iotmo_cnt"),
    )


def _model(folder: Path) -> str:
    vendor, model = (text_in(folder / "device" / each).strip() for each in ("vendor", "model"))
    vendor = "" if vendor in ("ATA", "NVMe") or vendor.startswith("0x") else vendor
    return f"{vendor} {model}".strip()


def _behind(folder: Path, model: str) -> str:
    if "/virtio" in str(folder) or any(each in model for each in HOSTS):
        return "host"
    return "controller" if any(each in model for each in CONTROLLERS) else ""


def _hexadecimal(file: Path) -> int:
    try:
        return int(text_in(file).strip() or "0", 16)
    except ValueError:
        return 0
