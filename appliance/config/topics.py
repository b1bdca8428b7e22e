"""Topics: how they come and go, and how many there may be."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.config.setting import Part, setting


@dataclass(frozen=True)
class TopicsConfig(Part):
    auto_create: bool = setting(
        "auto.create.topics.enable",
        True,
        "Whether a client's request for a topic by name creates it. Most clients expect that; but "
        "a misspelt name creates an empty topic.",
    )
    num_partitions: int = setting(
        "num.partitions",
        1,
        "Partitions of a topic whose creator gives no number.",
        minimum=1,
        maximum=100_000,
    )
    may_delete: bool = setting(
        "delete.topic.enable",
        True,
        "Whether clients may delete topics.",
    )
    partitions_per_topic_max: int = setting(
        "max.partitions.per.topic",
        1000,
        "A request for a topic with more partitions is refused. Each is a directory, some syncs "
        "and two open files: a mistyped number must not keep the disk busy for minutes.",
        minimum=1,
        maximum=100_000,  # five digits in the name of a directory
    )
    per_request_max: int = setting(
        "max.topics.per.request",
        500,
        "Topics that one request may create, each with some syncs of the disk: with more, the "
        "client times out first. CreateTopics refuses the rest; a consumer gets the rest with its "
        "next request.",
        minimum=1,
        maximum=100_000,
    )
    partitions_max: int = setting(
        "max.partitions.total",
        10_000,
        "Partitions of all topics together. They cost memory, two open files each while in use, "
        "and time at a start after a crash.",
        minimum=1,
        maximum=10_000_000,
    )
