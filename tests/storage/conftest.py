"""The log of t-0, alone or in its directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance._log import Log
from appliance.data_dir.log_dir import LogDir
from tests.support.logs import log_config, one_log, opened


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with one_log(tmp_path) as each:
        yield each


@pytest.fixture
def log_dir(tmp_path: Path) -> Iterator[LogDir]:
    with opened(tmp_path) as each:
        each.create("t", 0, log_config())
        yield each
