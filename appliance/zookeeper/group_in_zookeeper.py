"""A group of consumers that lives in ZooKeeper, as it was read. Here, so that who shows it imports
no library for ZooKeeper, which takes a start 50 ms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Place = tuple[str, int]  # topic and partition


@dataclass
class GroupInZooKeeper:
    name: str
    members: list[str] = field(default_factory=list)  # consumers
    owners: dict[Place, str] = field(default_factory=dict)  # consumer that reads it
    offsets: dict[Place, tuple[int, int]] = field(default_factory=dict)  # and when, in ms
    has_topic_ids: bool = False


@dataclass(frozen=True)
class Look:
    groups: Mapping[str, GroupInZooKeeper]
    left_out: int  # groups
