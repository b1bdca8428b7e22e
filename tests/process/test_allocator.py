"""Memory of large requests goes back to the kernel, whichever thread had it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from appliance import config
from appliance.process import allocator
from appliance.record import _batch_builder
from appliance.server import Server
from tests.support.serving import Serving
from tests.support.wire_client import WireClient

MIB = 1 << 20
KEPT_MAX = 16 * MIB  # of everything: two requests of 30 MB would be more than three times that
BATCH = _batch_builder.batch([(1_700_000_000_000, None, bytes(1_000_000))])

# A thread's heap gets it only once as much has been freed.
ASK = """
import sys, threading
from pathlib import Path
from appliance.process import allocator

def resident():
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in x)
    return int(line.split()[1]) << 10

def use():
    for _ in range(3):
        bytearray(b"x") * (30 << 20)

if sys.argv[1] == "tuned":
    allocator.tune()
before = resident()
for _ in range(3):
    at_work = threading.Thread(target=use)
    at_work.start()
    at_work.join()
print(resident() - before)
"""


@pytest.mark.parametrize("way", ["tuned", "as it was"])
def test_a_thread_gives_back_what_was_large(way: str) -> None:
    said = subprocess.run([sys.executable, "-c", ASK, way], capture_output=True, text=True)
    assert said.stderr == ""
    assert (int(said.stdout) < KEPT_MAX) is (way == "tuned")


def test_a_broker_gives_back_what_large_requests_took(tmp_path: Path) -> None:
    """Of several sizes, and on connections of all its threads."""
    serving = Serving(tmp_path, **{"num.network.threads": 4})
    with WireClient(serving.kafka) as client:
        client.create_topic("t", 32, visibility="appended")
        client.produce(BATCH)
    before = serving.resident_bytes
    for count in (26, 29, 27, 30, 28, 31, 26, 32):
        with WireClient(serving.kafka) as client:
            assert {each.error_code for each in client.produce(*[BATCH] * count)} == {0}
    growth = serving.resident_bytes - before
    assert serving.stop() == 0, serving.log
    assert growth < KEPT_MAX


class Told(Exception):
    """So that the broker does not start."""


@pytest.mark.parametrize("is_embedded", [False, True], ids=["its own", "somebody else's"])
def test_it_is_told_in_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_embedded: bool
) -> None:
    told = []

    def stop(*_: object) -> None:
        raise Told

    monkeypatch.setattr(allocator, "tune", lambda: told.append(True))
    monkeypatch.setattr("appliance.server.limits.require", stop)
    made = config.load(pairs=["core.dumps.enable=true"], flags={"data.dir": str(tmp_path)})
    with pytest.raises(Told):
        asyncio.run(Server(made, is_embedded=is_embedded).serve(lambda done, found: None))
    assert bool(told) is not is_embedded
