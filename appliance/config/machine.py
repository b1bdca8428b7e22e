"""The machine below the broker: its disks, and who watches them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from appliance.config.setting import SECOND_MS, Part, setting
from appliance.config.tls import NO_FILE


@dataclass(frozen=True)
class MachineConfig(Part):
    disk_watch_file: Path = setting(
        "disk.watch.file",
        NO_FILE,
        "The file of `appliance disk watch`, which asks the disks for their state (SMART) as root. "
        "Health warns of what is in it, and if it is missing or old.",
        default_words="none",
    )
    disk_watch_silent_ms: int = setting(
        "disk.watch.silent.ms",
        3600 * SECOND_MS,
        "How old the file of the disk watch may be. Its timer writes it every ten minutes.",
        minimum=SECOND_MS,
    )
    write_cache_accepted: bool = setting(
        "storage.write.cache.accepted",
        False,
        "Whether a sync may be faster than platters turn. Only if the cache that confirms it "
        "survives a power cut: one with a battery, or with flash.",
    )
