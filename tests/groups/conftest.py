"""A group by a clock that the test turns, and two brokers that may lead it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.classic_group import World
from tests.support.two_brokers import TwoBrokers


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[TwoBrokers]:
    made = TwoBrokers(tmp_path)
    made.create("t", 3)
    made.make_offsets_topic()
    yield made
    made.close()
