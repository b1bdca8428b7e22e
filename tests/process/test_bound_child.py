"""A child that ends with the process that started it, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from appliance.process import bound_child
from tests.support.children import child_of, is_there, until_gone

PARENT = """
import subprocess, threading, time
from appliance.process.bound_child import bound

def start():
    subprocess.Popen(bound(["sleep", "60"]))

{how}
print("started", flush=True)
time.sleep(60)
"""
BY_ITSELF = "start()"
BY_A_THREAD = "thread = threading.Thread(target=start); thread.start(); thread.join()"


@contextmanager
def parent(how: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PARENT.format(how=how)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        try:
            yield process
        finally:
            process.kill()


def test_it_ends_when_its_parent_is_killed() -> None:
    with parent(BY_ITSELF) as process:
        child = child_of(process.pid, "sleep")
        status = Path(f"/proc/{child}/status").read_text()
        ignored = int(status.partition("SigIgn:")[2].split()[0], 16)
        assert ignored & 1 << signal.SIGPIPE - 1 == 0, "as any program begins"
        assert is_there(child)
        process.kill()
        until_gone(child)


def test_one_of_another_thread_does_not_end_with_that() -> None:
    with parent(BY_A_THREAD) as process:
        child = child_of(process.pid, "sleep")
        process.kill()
        process.wait()
        assert is_there(child)
        os.kill(child, signal.SIGKILL)


def test_nothing_is_begun_for_a_parent_that_is_gone() -> None:
    command = [sys.executable, "-IS", bound_child.__file__, "1", "9", "echo", "begun"]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (said.stdout, said.stderr) == ("", "")
