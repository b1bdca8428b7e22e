"""Every file call, every n-th occurrence, every possible errno: an error or a stopped log, and
never a false acknowledgement. CRASH_NIGHTLY=1 has every errno at every call, once and from then on.
In the gate each call fails, by turns with another errno."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

from .build import engine_environment, recorded, run_module, scratch
from .harness import NIGHTLY
from .sweep import ERRORS

# between two calls of which each fails, and of which each and all after it fail
STEPS = (1, 1) if NIGHTLY else (2, 3)


@pytest.mark.parametrize("what", ERRORS)
def test_a_failing_call_fails_its_request_or_stops_its_log(what: str) -> None:
    with tempfile.TemporaryDirectory(prefix="sweep-", dir=scratch()) as directory:
        root, trace = Path(directory) / "root", Path(directory) / "trace"
        root.mkdir()
        environment = recorded(
            trace, root, engine_environment(), CRASH_CACHE="1", CRASH_SKIP_SYNC="1"
        )
        done = run_module("crash.sweep", what, root, trace, *STEPS, environment=environment)
    assert done.returncode == 0, f"the process did not stay up: {done.stderr[-4000:]}"
    result = json.loads(done.stdout.splitlines()[-1])
    print(f"{what}: {result['stories']} stories")
    assert result["failed"] == 0, "\n".join(result["problems"])
