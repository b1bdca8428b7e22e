"""`partition.metadata` in each partition's directory, as Kafka writes it:

    version: 0
    topic_id: 7gxDFHLZRl-H1PzvcVlmdA

Kafka's tools need it, and a lost catalog is rebuilt from it. The catalog is the truth: the next
start rewrites a file that is missing, torn or has another id. So the file is not synced.
"""

from __future__ import annotations

import uuid
from pathlib import Path

from appliance.catalog import kafka_uuid
from appliance.process import event_log, owner_only

events = event_log.named("topics")

NAME = "partition.metadata"
SIZE_MAX = 4096  # of a read: a wrong file must not fill the memory


def read(directory: Path) -> uuid.UUID | None:
    """None if there is no such file or it has no id."""
    try:
        with (directory / NAME).open("rb") as file:
            lines = file.read(SIZE_MAX).decode("ascii").splitlines()
        facts = dict(line.split(": ", 1) for line in lines)
        return kafka_uuid.parse(facts["topic_id"]) if facts["version"] == "0" else None
    except (OSError, ValueError, KeyError):
        return None


def write(directory: Path, topic_id: uuid.UUID) -> None:
    """A failure is only logged: the next start tries again."""
    text = f"version: 0\ntopic_id: {kafka_uuid.text_of(topic_id)}\n"
    try:
        owner_only.write(directory / NAME, text.encode("ascii"))
    except OSError as error:
        events.warning("a topic's id is not written", path=directory / NAME, error=error)
