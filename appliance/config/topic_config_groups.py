"""The configs of a topic as people look for them: what belongs together, and what changes nothing.

Some configs of Kafka do nothing here, some do nothing on one box, and some do nothing under the
topic's own cleanup.policy. The first two stand apart; the third stay where one looks for them.
"""

from __future__ import annotations

from collections.abc import Mapping

APART = "No effect here"

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Retention": ("cleanup.policy", "retention.ms", "retention.bytes"),
    "Compaction": (
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "max.compaction.lag.ms",
        "delete.retention.ms",
    ),
    "Messages": (
        "max.message.bytes",
        "message.timestamp.type",
        "message.timestamp.before.max.ms",
        "message.timestamp.after.max.ms",
    ),
    "Durability": ("flush.messages", "flush.ms", "visibility"),
    "Segments": ("segment.bytes", "segment.ms", "segment.index.bytes", "index.interval.bytes"),
    "Replication": (
        "min.insync.replicas",
        "unclean.leader.election.enable",
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
    ),
    "Mirror": ("mirror.source",),
    APART: (
        "compression.type",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "file.delete.delay.ms",
        "local.retention.bytes",
        "local.retention.ms",
        "preallocate",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
        "segment.jitter.ms",
    ),
}
_OF = {name: group for group, names in GROUPS.items() for name in names}
ORDER = {name: number for number, name in enumerate(_OF)}

ON_ONE_BOX = "Only topics of a cluster have replicas to act on."
WANTS = {"Compaction": "compact"}


def group_of(name: str, is_replicated: bool) -> str:
    group = _OF[name]
    return APART if group == "Replication" and not is_replicated else group


def no_effect(name: str, policy: str, is_replicated: bool) -> str:
    """Why it changes nothing now, where its documentation does not say so; "": it does."""
    group, policies = _OF[name], policy.split(",")
    if group == "Replication" and not is_replicated:
        return ON_ONE_BOX
    wanted = "delete" if name in ("retention.ms", "retention.bytes") else WANTS.get(group)
    if wanted and wanted not in policies:
        return f"No effect while cleanup.policy is {policy or 'empty'}."
    return ""
