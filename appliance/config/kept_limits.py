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
        "Groups of all kinds. Each takes some KiB, and a start reads its state. Tools that create "
        "a group per run leave them behind: offsets.retention.minutes removes them, and "
        "offsets.memberless.retention.minutes those that never had a member.",
        minimum=1,
    )
    groups_bytes: int = setting(
        "max.groups.bytes",
        256 * MIB,
        "Memory of groups: offsets with metadata, subscriptions and assignments of members. A "
        "committed offset takes 500 bytes and its metadata.",
        minimum=MIB,
    )
    member_max_bytes: int = setting(
        "group.member.max.bytes",
        MIB,
        "Largest metadata of a member at its join. A consumer with ten thousand topics sends 250 "
        "KB; the leader of the group gets the metadata of all.",
        minimum=KIB,
    )
    transactions_max: int = setting(
        "max.transactional.ids.total",
        50_000,
        "Transactional ids. Unused ones expire after transactional.id.expiration.ms.",
        minimum=1,
    )
    transactions_bytes: int = setting(
        "max.transactional.ids.bytes",
        64 * MIB,
        "Memory of transactional ids and their partitions, at 100 bytes per partition.",
        minimum=MIB,
    )
    entities_max: int = setting(
        "max.entities.total",
        20_000,
        "ACLs, quotas of clients, credentials, delegation tokens, configs of groups and "
        "subscriptions to clients' metrics together.",
        minimum=1,
    )
    entities_bytes: int = setting(
        "max.entities.bytes",
        64 * MIB,
        "Memory of these.",
        minimum=MIB,
    )
    percent_per_ip: int = setting(
        "max.kept.percent.per.ip",
        50,
        "Largest share of each of these limits that the clients of one address, of IPv6 of one "
        "network of 64 bits, may use between two starts, which leaves space for others. 100 is no "
        "limit.",
        unit="percent",
        minimum=1,
        maximum=100,
    )
