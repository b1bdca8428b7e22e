"""The control plane: how much it does at a time."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.config.setting import KIB, MIB, Part, setting


@dataclass(frozen=True)
class ControlConfig(Part):
    """How much the control plane, which answers all but Produce and Fetch, does at a time."""

    requests_max: int = setting(
        "control.max.requests",
        1000,
        "Requests in work at a time, such as creations of topics; more wait in order. Each takes "
        "the memory of its request.",
        minimum=1,
        maximum=1_000_000,
    )
    bytes_max: int = setting(
        "control.max.bytes",
        4 * MIB,
        "Bytes of requests in work at a time, beyond which one of more than 4 KiB must wait: as "
        "objects they take up to 35 times as much.",
        minimum=KIB,
    )
    threads: int = setting(
        "control.threads",
        8,
        "Threads on which requests read the disk or wait for it: searches by time, deletions of "
        "records. Kafka's number of I/O threads.",
        minimum=1,
        maximum=256,
    )
