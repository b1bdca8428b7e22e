"""Two brokers of this process, for a mirror between them; tests/interop/test_mirror_kills.py kills
one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.testing import RunningBroker, running_broker


@pytest.fixture
def source(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "source") as broker:
        yield broker


@pytest.fixture
def target(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "target") as broker:
        yield broker
