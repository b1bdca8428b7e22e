"""Partitions that cannot be opened, as on a full disk or after damage, and how they get whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from appliance.broker.broker import Broker
from appliance.data_dir.recovery import Recovery
from appliance.errors import StorageFull
from appliance.topics.topic import Topic


@contextmanager
def unopened(data: Path, topic: str, *partitions: int) -> Iterator[None]:
    """No start of a broker on this directory can open these meanwhile; all, when none is named."""
    opens = Recovery._open_one

    def open_one(start: Recovery, found: tuple[str, int, str], *given: Any) -> Any:
        is_named = not partitions or found[1] in partitions
        if (start.where.path, found[0]) == (data, topic) and is_named:
            return StorageFull(f"{found[2]}: the log cannot be opened")
        return opens(start, found, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recovery, "_open_one", open_one)
        yield


async def serve(broker: Broker, topic: str) -> Topic:
    """It can be opened now, and is, while the broker runs."""
    assert await broker.reopening.retry() > 0
    return broker.topics[topic]
