"""`partition.metadata` in each partition's directory, as Kafka writes it:

    version: 0
    topic_id: 7gxDFHLZRl-H1PzvcVlmdA

Kafka's tools want it, and a lost catalog is built again from it. The catalog is the truth: a file
that is missing, torn or tells another id is written anew at the next start, so it is not synced.
"""

from __future__ import annotations

import uuid
from pathlib import Path

from appliance.catalog import kafka_uuid
from appliance.process import event_log, owner_only

events = event_log.named("topics")

NAME = "partition.metadata"
SIZE_MAX = 4096  # of what is read: a file that is no such file must not fill the memory


def read(directory: Path) -> uuid.UUID | None:
    """None when there is no such file or it does not say."""
    try:
        with (directory / NAME).open("rb") as file:
            lines = file.read(SIZE_MAX).decode("ascii").splitlines()
        facts = dict(line.split(": ", 1) for line in lines)
        return kafka_uuid.parse(facts["topic_id"]) if facts["version"] == "0" else None
    except (OSError, ValueError, KeyError):
        return None


def write(directory: Path, topic_id: uuid.UUID) -> None:
    """A failure is told and no more: the next start tries again."""
    text = f"version: 0\ntopic_id: {kafka_uuid.text_of(topic_id)}\n"
    try:
        owner_only.write(directory / NAME, text.encode("ascii"))
    except OSError as error:
        events.warning("a topic's id is not written", path=directory / NAME, error=error)
