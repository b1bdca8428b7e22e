"""The name of a partition's directory: TOPIC-NUMBER, by Kafka's rule."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from appliance.errors import ApplianceError

Key = tuple[str, int]

# 249 characters leave room for "-" and five digits in a file name of 255 bytes.
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_DIRECTORY = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,4})")


class TopicNameInvalid(ApplianceError):
    kafka_code = 17


def directory_name(topic: str, partition: int) -> str:
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise TopicNameInvalid(f"{topic!r} is not a topic name: wanted 1 to 249 characters out of "
                               "a-z A-Z 0-9 . _ -, and neither '.' nor '..'")
    if not 0 <= partition <= 99_999:
        raise TopicNameInvalid(f"partition {partition} is not between 0 and 99999")
    return f"{topic}-{partition}"


def key_of(name: str) -> Key | None:
    """None: no directory of a partition."""
    match = _DIRECTORY.fullmatch(name)
    return None if match is None else (match[1], int(match[2]))


def partitions_in(path: Path) -> Iterator[tuple[str, int, str]]:
    """Topic, number and name of the partition directories in `path`."""
    with os.scandir(path) as entries:
        for entry in entries:
            key = key_of(entry.name)
            if key and entry.is_dir(follow_symlinks=False):
                yield *key, entry.name
