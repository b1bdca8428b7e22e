"""The broker of `tests/test_server.py`, started without importing itself: see `warm_serving`."""

from __future__ import annotations

import subprocess
import sys

from tests.support.warm_serving import nursery
from tests.test_server import Broker


class WarmBroker(Broker):
    def _start(self, command: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
        if environment:  # an import may read it, and a loader does
            return super()._start(command, environment)
        assert command[:3] == [sys.executable, "-m", "appliance"]
        return nursery().start_with_pipes(command[3:])
