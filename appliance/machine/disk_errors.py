"""Commands that a disk did not do, as the kernel counts them since the boot.

Some fail on every disk: it was asked for what it does not know. So the count at the first look is
no news; what it grows by is, for a day. Timeouts are always news: a disk that does not answer at
all is about to leave.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from appliance.machine.disks import Device
from appliance.machine.kernel_counters import Grown
from appliance.process.spoken import some

ERRORS_TOLD_MS = 86_400_000
TIMEOUTS_TOLD_MS = 7 * 86_400_000


class DiskErrors:
    def __init__(self, grown: Grown) -> None:
        self._grown = grown
        self._since_boot: dict[str, int] = {}  # at the first look of this process
        self._told: list[str] = []

    def note(self, devices: Sequence[Device]) -> None:
        self._told = [text for each in devices if each.is_disk for text in self._of_disk(each)]

    def _of_disk(self, disk: Device) -> Iterator[str]:
        if not disk.is_running:
            yield f"{disk.name} is {disk.state}: the kernel has given it up"
        new = disk.errors - self._since_boot.setdefault(disk.name, disk.errors)
        # Its own name: the count begins again with each process.
        if self._grown.is_new(f"disk/{disk.name}/errors", max(0, new), ERRORS_TOLD_MS):
            yield f"{some(new, 'command')} failed on {disk.name} within a day"
        if disk.behind == "host":
            return  # it may pause its guests, whose disks then answer late
        if self._grown.is_new(f"disk/{disk.name}/timeouts", disk.timeouts, TIMEOUTS_TOLD_MS):
            yield f"{disk.name} did not answer {some(disk.timeouts, 'command')} in time"

    def warnings(self) -> Iterator[str]:
        yield from self._told
