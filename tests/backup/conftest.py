"""A target of backups for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.backups import Backups


@pytest.fixture
def backups(tmp_path: Path) -> Backups:
    return Backups(tmp_path)
