"""A broker's control state for tests: real files, no network, a data plane that writes down what it
is told."""

from __future__ import annotations

import asyncio
import functools
import shutil
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from appliance._log import Log
from appliance.access.client_quotas import Rate
from appliance.broker.broker import Broker
from appliance.catalog.config_rows import ConfigRows
from appliance.config import BrokerConfig, LogConfig, TopicsConfig
from appliance.data_dir import partition_metadata
from appliance.data_dir.log_dir import LogDir
from appliance.topics.topic_rows import TopicRows
from tests.support.logs import STORAGE, log_config

Result = TypeVar("Result")


@dataclass
class Recorder:
    """Stands where the data plane is."""

    topics: dict[str, tuple[bytes, list[Log | None]]] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    rates: dict[int, list[Rate]] = field(default_factory=dict)
    connections_per_ip: int = 0
    connection_limits: dict[int, tuple[int, int]] = field(default_factory=dict)
    logged_in: dict[int, tuple[str, int]] = field(default_factory=dict)
    last_slots: dict[int, int] = field(default_factory=dict)
    raw: set[int] = field(default_factory=set)
    closed: set[int] = field(default_factory=set)

    def put_topic(
        self,
        name: str,
        topic_id: bytes,
        logs: list[Log | None],
        is_internal: bool,
        mirror_source: str,
        leaders: Sequence[tuple[int, int] | None] = (),
    ) -> None:
        self.topics[name] = (topic_id, list(logs))
        self.told.append(f"put {name} {len(logs)}")

    def remove_topic(self, name: str) -> None:
        del self.topics[name]
        self.told.append(f"remove {name}")

    def set_rates(self, kind: int, rates: list[Rate]) -> None:
        self.rates[kind] = rates

    def log_in(self, connection: int, principal: str, expires_ns: int = 0) -> None:
        self.logged_in[connection] = (principal, expires_ns)

    def close_after(self, connection: int, slot: int) -> None:
        self.last_slots[connection] = slot

    def expect_raw(self, connection: int) -> None:
        self.raw.add(connection)

    def close(self, connection: int) -> None:
        self.closed.add(connection)

    def limit_connections_per_ip(self, most: int) -> None:
        self.connections_per_ip = most

    def limit_connections(self, most: int, rate: int, listener: int = -1) -> None:
        self.connection_limits[listener] = (most, rate)


def broker_config(data: Path, log: LogConfig | None = None, **topics: Any) -> BrokerConfig:
    return BrokerConfig(
        data_dir=data, storage=STORAGE, log=log or log_config(), topics=TopicsConfig(**topics)
    )


def with_broker(
    data: Path,
    use: Callable[[Broker], Coroutine[Any, Any, Result]],
    log: LogConfig | None = None,
    is_killed: bool = False,
    **topics: Any,
) -> Result:
    """One life of a broker: opened, used, closed, or let go of as a killed process would."""

    async def live() -> Result:
        broker = await asyncio.to_thread(Broker.open, broker_config(data, log, **topics))
        broker.connect(Recorder())
        try:
            return await use(broker)
        finally:
            if is_killed:
                broker.log_dir.abandon()
                broker.catalog.close()
            else:
                await broker.close()

    return asyncio.run(live())


# Where a kill may fall: before and after each of these
STEPS: list[tuple[Any, str]] = [
    (TopicRows, "put"),
    (TopicRows, "set_partitions"),
    (TopicRows, "set_configs"),
    (ConfigRows, "set"),
    (TopicRows, "begin_deletions"),
    (TopicRows, "end_deletions"),
    (TopicRows, "settle"),
    (LogDir, "create_new"),
    (LogDir, "take_back"),
    (LogDir, "delete_all"),
    (LogDir, "set_aside"),
    (Path, "mkdir"),
    (Path, "rename"),
    (partition_metadata, "write"),
]


def kill_points(
    data: Path,
    copies: Path,
    patch: pytest.MonkeyPatch,
    steps: Sequence[tuple[Any, str]] = STEPS,
) -> list[Path]:
    """Copies the data directory around each step that happens while `patch` holds."""
    found: list[Path] = []
    is_copying = threading.Lock()  # a step within a step, or one on another thread meanwhile

    def copy(name: str) -> None:
        if not data.exists() or not is_copying.acquire(blocking=False):
            return
        found.append(copies / f"{len(found):03d}-{name}")
        shutil.copytree(data, found[-1], symlinks=True)
        is_copying.release()

    def around(name: str, step: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(step)
        def stepped(*given: Any, **named: Any) -> Any:
            copy(f"before-{name}")
            result = step(*given, **named)
            copy(f"after-{name}")
            return result

        return stepped

    for owner, name in steps:
        patch.setattr(owner, name, around(name, getattr(owner, name)))
    return found
