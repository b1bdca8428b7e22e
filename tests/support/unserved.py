"""A topic that cannot be opened, as on a full disk or after damage, and what makes it whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from appliance.broker import Broker
from appliance.errors import StorageFull
from appliance.log_dir import LogDir
from appliance.topics import Topic


@contextmanager
def unopened(data: Path, topic: str) -> Iterator[None]:
    """No start of a broker on this directory can open it meanwhile."""
    opens = LogDir._open_one

    def open_one(log_dir: LogDir, found: tuple[str, int, str], *given: Any) -> Any:
        if (log_dir.path, found[0]) == (data, topic):
            return StorageFull(f"{found[2]}: the log cannot be opened")
        return opens(log_dir, found, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogDir, "_open_one", open_one)
        yield


def serve(broker: Broker, topic: str) -> Any:
    """It can be opened now, and is, while the broker runs."""
    logs = broker.log_dir
    (row,) = [each for each in broker.catalog.topics() if each.name == topic]
    for key in [each for each in logs.unopened if each[0] == topic]:
        logs._logs[key], _ = logs.engine.open_log(f"{key[0]}-{key[1]}", broker.log_config)
        del logs.unopened[key]
    found = [logs.log(topic, each) for each in range(row.partitions)]
    served = Topic(topic, row.id, row.configs, found, row.created_ms)
    broker.topics[topic] = served
    broker._names[served.id] = topic
    broker.unserved.is_over(topic)
    broker._show(served)
    broker._configure(served)
    return served
