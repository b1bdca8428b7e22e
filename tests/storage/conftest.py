"""The log of t-0, alone or in its directory; and as a power cut left it, to be damaged further."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance._log import Log
from appliance.data_dir.log_dir import LogDir
from tests.support.damaged import POINT, Damaged, build
from tests.support.logs import copied, log_config, one_log, opened
from tests.support.watermarks import note


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with one_log(tmp_path) as each:
        yield each


@pytest.fixture
def log_dir(tmp_path: Path) -> Iterator[LogDir]:
    with opened(tmp_path) as each:
        each.create("t", 0, log_config())
        yield each


@pytest.fixture(scope="session")
def unclean(tmp_path_factory: pytest.TempPathFactory) -> Damaged:
    path = tmp_path_factory.mktemp("recovery") / "data"
    return Damaged(path, build(path))


@pytest.fixture(scope="session")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Damaged:
    path = tmp_path_factory.mktemp("recovery") / "data"
    return Damaged(path, build(path, cleanly=True))


@pytest.fixture
def damaged(unclean: Damaged, tmp_path: Path) -> Damaged:
    return Damaged(copied(unclean.path, tmp_path / "data"), unclean.batches)


@pytest.fixture
def unfinished(damaged: Damaged) -> Damaged:
    """The same, where nothing behind the recovery point was ever acknowledged."""
    note(damaged.path, "t-0", POINT)
    return damaged
