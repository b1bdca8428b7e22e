"""A broker with several directories of records, without a network."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from appliance.broker.broker import Broker
from appliance.broker.health import of_logs
from appliance.broker.health_of_directories import of_storage
from appliance.config import BrokerConfig, TopicsConfig
from appliance.config.names import Paths
from tests.support.broker import Recorder
from tests.support.logs import STORAGE, batch, everything, log_config, values

Result = TypeVar("Result")


def config_of(root: Path, *names: str) -> BrokerConfig:
    """`names` of directories in `root`; none: data.dir alone."""
    return BrokerConfig(
        data_dir=root / "data",
        log_dirs=Paths(tuple(str(root / each) for each in names)),
        storage=STORAGE,
        log=log_config(),
        topics=TopicsConfig(),
    )


def live(
    root: Path,
    use: Callable[[Broker], Coroutine[Any, Any, Result]],
    *names: str,
    is_killed: bool = False,
) -> Result:
    async def run() -> Result:
        broker = await asyncio.to_thread(Broker.open, config_of(root, *(names or ("a", "b"))))
        broker.connect(Recorder())
        try:
            return await use(broker)
        finally:
            if is_killed:
                broker.log_dir.abandon()
                broker.catalog.close()
            else:
                await broker.close()

    return asyncio.run(run())


def found(root: Path, name: str, topic: str = "t") -> list[str]:
    return sorted(each.name for each in (root / name).glob(f"{topic}-*"))


def records(broker: Broker) -> dict[int, list[str]]:
    return {
        log.partition: values(everything(log)) for log in broker.topics["t"].logs if log is not None
    }


async def fill(broker: Broker) -> None:
    topic = await broker.topics.create("t", 4)
    for log in topic.all_logs():
        log.append_durable(batch(f"of {log.partition}"))


WHOLE = {each: [f"of {each}"] for each in range(4)}


def away(root: Path) -> Path:
    """As if the file system of `b` was not mounted."""
    place = root / "b-elsewhere"
    (root / "b").rename(place)
    (root / "b").mkdir()
    return place


def come_back(root: Path, place: Path) -> None:
    shutil.rmtree(root / "b")
    place.rename(root / "b")


def texts(broker: Broker) -> list[str]:
    return [each.text for area in (of_storage, of_logs) for each in area(broker)]
