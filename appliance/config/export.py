"""Bulk export: how fast it may read, and how much of it there may be at a time."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.config.addresses import NO_ADDRESS, Address
from appliance.config.admin import AUTO, OFF, ON
from appliance.config.setting import GIB, Part, setting


@dataclass(frozen=True)
class ExportConfig(Part):
    address: Address = setting(
        "export.address",
        NO_ADDRESS,
        "Where bulk data is served. As long as nobody has a password it is loopback, whatever is "
        "set. The admin port can be closed to those who only read data here.",
        default_words="admin.address, one port on",
    )
    advertised_address: Address = setting(
        "export.advertised.address",
        NO_ADDRESS,
        "Where the admin port sends who asks it for bulk data: a name or address that reaches this "
        "machine from theirs. Port 0 means the one that is listened on.",
        default_words="export.address; of every interface, the name by which the admin port was "
        "reached",
    )
    tls: str = setting(
        "export.tls",
        AUTO,
        "Whether the port of bulk data speaks TLS only. auto: if the admin port does, which sends "
        "its clients there, or if there is a certificate, and export.address is not loopback.",
        choices=(AUTO, ON, OFF),
    )
    bytes_per_second: int = setting(
        "export.bytes.per.second",
        0,
        "Bytes a second that all exports read together, which leaves the disk to producers. 0: no "
        "limit.",
        minimum=0,
    )
    beside_commits_bytes_per_second: int = setting(
        "export.beside.commits.bytes.per.second",
        200_000_000,
        "Bytes a second that all exports read together if there was a commit within the last "
        "second. At full speed an export takes a core and the disk, which slows producers. 0: no "
        "limit but export.bytes.per.second.",
        minimum=0,
    )
    threads: int = setting(
        "export.threads",
        2,
        "Threads that read for exports. They have the lowest priority at the disk, and a stalled "
        "reader holds none.",
        minimum=1,
        maximum=64,
    )
    streams_max: int = setting(
        "export.streams.max",
        256,
        "Exports that are read at a time; each takes up to 3 MiB. Further requests are refused "
        "and may be retried.",
        minimum=1,
        maximum=10_000,
    )
    decoded_streams_max: int = setting(
        "export.decoded.streams.max",
        32,
        "Exports of those that the broker decodes (format=jsonl, parquet, ...) at a time. Each has "
        "some 4 MiB of records in memory until its reader takes them, Parquet 20 MiB; or the "
        "largest batch, decompressed: 128 MiB.",
        minimum=1,
        maximum=10_000,
    )

    hold_bytes: int = setting(
        "export.hold.bytes",
        10 * GIB,
        "Default for the bytes that a retention hold keeps. A hold that would keep more is "
        "released.",
        minimum=0,
    )
    runs_max: int = setting(
        "export.runs.max",
        1000,
        "Runs in the history of each export; older ones are deleted.",
        minimum=1,
        maximum=100_000,
    )
