"""Bulk export: how fast it may read, and how much of it there may be at a time."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.config.setting import GIB, Part, setting


@dataclass(frozen=True)
class ExportConfig(Part):
    """Bulk export: how fast it may read, and how much of it there may be at a time."""

    bytes_per_second: int = setting(
        "export.bytes.per.second",
        0,
        "Bytes a second that all exports read together, so that they leave the disk to producers. "
        "0: as many as the disk and the readers take.",
        minimum=0,
    )
    beside_commits_bytes_per_second: int = setting(
        "export.beside.commits.bytes.per.second",
        200_000_000,
        "Bytes a second that all exports read together while there was a commit within the last "
        "second. At full speed an export takes a core and the disk, and producers wait longer for "
        "both. 0: no bound but export.bytes.per.second.",
        minimum=0,
    )
    threads: int = setting(
        "export.threads",
        2,
        "Threads that read for exports. They come last at the disk, and a reader that takes "
        "nothing away holds none.",
        minimum=1,
        maximum=64,
    )
    streams_max: int = setting(
        "export.streams.max",
        256,
        "Exports that are read at a time; each holds up to 3 MiB. More are refused and may ask "
        "again.",
        minimum=1,
        maximum=10_000,
    )

    hold_bytes: int = setting(
        "export.hold.bytes",
        10 * GIB,
        "Bytes that a retention hold keeps at most when whoever puts it does not say. A hold that "
        "would keep more lets go.",
        minimum=0,
    )
    runs_max: int = setting(
        "export.runs.max",
        1000,
        "Runs of each export that its history has; the oldest go.",
        minimum=1,
        maximum=100_000,
    )
