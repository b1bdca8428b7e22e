"""What clients may make the broker keep."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.config.setting import KIB, MIB, Part, setting


@dataclass(frozen=True)
class KeptConfig(Part):
    """What clients may make the broker keep, across restarts too: nobody logs in."""

    groups_max: int = setting(
        "max.groups.total",
        50_000,
        "Groups of all kinds. Each takes some KiB, and a start reads what it has. Tools that make "
        "a group for each run leave one behind each time: offsets.retention.minutes clears them, "
        "and offsets.memberless.retention.minutes those that never had a member.",
        minimum=1,
    )
    groups_bytes: int = setting(
        "max.groups.bytes",
        256 * MIB,
        "What groups have in memory: offsets with their metadata, what members say of themselves, "
        "what they are assigned. A committed offset is 500 bytes and its metadata.",
        minimum=MIB,
    )
    member_max_bytes: int = setting(
        "group.member.max.bytes",
        MIB,
        "What one member of a group may say of itself when it joins. A consumer that subscribes to "
        "ten thousand topics says 250 KB; the leader of the group is sent that of all.",
        minimum=KIB,
    )
    transactions_max: int = setting(
        "max.transactional.ids.total",
        50_000,
        "Transactional ids. One that nobody uses goes after transactional.id.expiration.ms.",
        minimum=1,
    )
    transactions_bytes: int = setting(
        "max.transactional.ids.bytes",
        64 * MIB,
        "What transactional ids and their partitions have in memory, at 100 bytes a partition.",
        minimum=MIB,
    )
    entities_max: int = setting(
        "max.entities.total",
        20_000,
        "ACLs, quotas of clients, credentials, configs of groups and subscriptions to clients' "
        "metrics together.",
        minimum=1,
    )
    entities_bytes: int = setting(
        "max.entities.bytes",
        64 * MIB,
        "What these have in memory.",
        minimum=MIB,
    )
    percent_per_ip: int = setting(
        "max.kept.percent.per.ip",
        50,
        "Which part of each of these limits the clients of one address may fill between two "
        "starts, so that one that does it leaves room for the others. 100 is no limit.",
        unit="percent",
        minimum=1,
        maximum=100,
    )
