"""Catalogs on a real disk."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from appliance.catalog.catalog import NAME, Catalog
from appliance.catalog.config_rows import ConfigRows
from appliance.topics.topic_rows import TopicRow, TopicRows

ORDERS = TopicRow("orders", uuid.UUID(int=7 << 64), 3, {"retention.ms": "5"}, 1_700_000_000_000)
CLICKS = TopicRow("clicks", uuid.UUID(int=8 << 64), 1, {}, 1_700_000_000_001)


@contextmanager
def opened(folder: Path) -> Iterator[Catalog]:
    catalog = Catalog.open(folder / NAME)
    try:
        yield catalog
    finally:
        catalog.close()


def of_broker(catalog: Catalog) -> ConfigRows[bool, str]:
    return ConfigRows(catalog, "broker_configs", "is_default")


def of_clients(catalog: Catalog) -> ConfigRows[str, float]:
    return ConfigRows(catalog, "client_quotas", "entity")


def of_metrics(catalog: Catalog) -> ConfigRows[str, str]:
    return ConfigRows(catalog, "client_metrics", "subscription")


def state_of(catalog: Catalog) -> tuple[object, ...]:
    topics = TopicRows(catalog)
    return topics.all(), topics.deletions(), of_broker(catalog).all(), topics.is_settled


def killed(folder: Path, target: Path) -> Path:
    """A copy of the files as they lie on disk now: the state after a kill, and after a power cut as
    far as it was synced."""
    target.mkdir()
    for path in folder.glob(f"{NAME}*"):
        shutil.copy(path, target)
    return target
