"""The memory of a broker is in no core file, and no other program of its user reads it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from appliance import config
from appliance.process import core_dumps
from appliance.server import Server

ASK = """
import ctypes
from appliance.process import core_dumps
core_dumps.forbid()
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
"""


def test_the_kernel_is_told() -> None:
    """PR_GET_DUMPABLE. In a process of its own: it is for good."""
    said = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True)
    assert (said.stdout, said.stderr) == ("0\n", "")


class Told(Exception):
    """So that the broker does not start."""


@pytest.mark.parametrize(
    ("is_embedded", "setting", "is_told"),
    [(False, "false", True), (False, "true", False), (True, "false", False)],
    ids=["by default", "with the setting", "in somebody else's process"],
)
def test_a_broker_of_its_own_tells_it_unless_a_setting_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_embedded: bool, setting: str, is_told: bool
) -> None:
    told = []

    def stop(*_: object) -> None:
        raise Told

    monkeypatch.setattr(core_dumps, "forbid", lambda: told.append(True))
    monkeypatch.setattr("appliance.server.limits.require", stop)
    server = Server(
        config.load(pairs=[f"core.dumps.enable={setting}"], flags={"data.dir": str(tmp_path)}),
        is_embedded=is_embedded,
    )
    with pytest.raises(Told):
        asyncio.run(server.serve(lambda done, found: None))
    assert bool(told) is is_told
