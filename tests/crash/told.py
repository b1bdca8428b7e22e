"""Reports of health for an open directory without a broker: its logs, its disk, and the file
system."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from appliance.broker.health import of_logs, of_storage
from appliance.data_dir.record_dir import RecordDir
from appliance.machine import file_system


def told(log_dir: Any) -> list[str]:
    """Empty: all records are readable, and writes succeed."""
    topics = SimpleNamespace(undeleted={}, not_open=lambda: log_dir.unopened)
    only = SimpleNamespace(
        directories=[RecordDir(log_dir.path, logs=log_dir)], logs=log_dir.logs,
        in_words=lambda each: "", away=lambda topic, partition: "",
    )  # fmt: skip
    broker: Any = SimpleNamespace(log_dir=only, topics=topics)
    found = [each.text for area in (of_logs, of_storage) for each in area(broker)]
    return [*found, *file_system.look(log_dir.path).failures()]
