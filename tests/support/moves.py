"""Partitions that move between two directories of records."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from appliance._log import Log
from appliance.broker.broker import Broker
from appliance.data_dir import durable_directories
from appliance.data_dir.partition_move import futures_in
from appliance.process.interval import Interval
from tests.support.logs import end_txn, everything, produced


async def finish(broker: Broker) -> None:
    """All moves that are under way."""

    async def stops(interval: Interval) -> bool:
        await asyncio.sleep(0.001)
        return not broker.moves.under_way

    await broker.moves.run(stops)


async def move(broker: Broker, topic: str = "t", partition: int = 0) -> None:
    log = broker.topics[topic].log(partition)
    path = next(
        each.path
        for each in broker.log_dir.directories
        if not log.directory.startswith(f"{each.path}/")
    )
    await broker.moves.ask(topic, partition, str(path))


def place(root: Path, name: str = "t-0") -> list[str]:
    return [each for each in ("a", "b") if (root / each / name).exists()]


def nothing_is_left(root: Path) -> None:
    assert [each for name in ("a", "b") for each in futures_in(root / name)] == []
    for name in ("a", "b"):
        deleted = root / name / durable_directories.DELETED
        assert not deleted.exists() or [*deleted.iterdir()] == []


def facts(log: Log) -> tuple[Any, ...]:
    """What must be the same in another directory."""
    return (
        everything(log), log.log_start_offset, log.log_end_offset, log.leader_epoch,
        log.high_watermark, log.last_stable_offset, sorted(log.producers()), log.holes(),
        [each[:3] for each in log.segments()],
    )  # fmt: skip


async def fill_with_all(broker: Broker) -> Log:
    """Segments, a start inside of one, sequences, an aborted transaction and an open one."""
    topic = await broker.topics.create("t", 1)
    log = topic.log(0)
    for each in range(5):
        log.append(produced(each, pid=3))
    log.roll()
    log.append(produced(0, pid=7, txn=True), origin="coordinator")
    end_txn(log, "abort", pid=7)
    log.append(produced(0, count=2, pid=8, txn=True), origin="coordinator")
    log.flush()
    log.delete_before(3)
    log.append_durable(produced(5, pid=3))
    return log
