"""A group by a clock that the test turns."""

from __future__ import annotations

import pytest

from tests.support.classic_group import World


@pytest.fixture
def world() -> World:
    return World()
