"""A broker that starts without importing itself, which is nine tenths of a start's processor time:
forked from a process that has done so. It is the same program from there on, with a process, a
memory and an end of its own. Its resident memory is not what a broker has that imported for itself.
"""

from __future__ import annotations

import atexit
import functools
import gc
import json
import os
import runpy
import select
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

from tests.support.serving import Serving

MESSAGE_BYTES_MAX = 100_000  # the environment, mostly
REPOSITORY = Path(__file__).resolve().parents[2]


class WarmServing(Serving):
    def _start(
        self,
        command: list[str],
        log: IO[str],
        environment: dict[str, str] | None,
        package: Path | None,
    ) -> subprocess.Popen[str]:
        assert command[:3] == [sys.executable, "-m", "appliance"], "only an exec sets limits"
        assert environment is None, "an import may read it"
        assert package is None, "this build is imported"
        return nursery().start(command[3:], log)


@functools.cache
def nursery() -> Nursery:
    """The one of this test process."""
    made = Nursery()
    atexit.register(made.close)
    return made


class Nursery:
    """Starts brokers, and tells how they ended: it is their parent."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._asking, asked = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with asked:
            command = [sys.executable, "-m", __name__, str(asked.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[asked.fileno()], cwd=REPOSITORY)

    def close(self) -> None:
        self._asking.close()
        self._process.wait()

    def start(self, words: list[str], log: IO[str]) -> Forked:
        """Its standard error goes to the log."""
        reader, writer = os.pipe()
        try:
            pid = self._fork(words, [writer, log.fileno()])
        finally:
            os.close(writer)
        return Forked(self, pid, os.fdopen(reader))

    def start_with_pipes(self, words: list[str]) -> Forked:
        """As `subprocess.Popen` with two pipes; any command of `appliance`."""
        (reader, writer), (error_reader, error_writer) = os.pipe(), os.pipe()
        try:
            pid = self._fork(words, [writer, error_writer])
        finally:
            os.close(writer)
            os.close(error_writer)
        return Forked(self, pid, os.fdopen(reader), os.fdopen(error_reader))

    def _fork(self, words: list[str], descriptors: list[int]) -> int:
        asked = {"words": words, "folder": os.getcwd(), "environment": dict(os.environ)}
        return self.ask(asked, descriptors)

    def ask(self, what: dict[str, Any], descriptors: list[int]) -> int:
        with self._guard:
            socket.send_fds(self._asking, [json.dumps(what).encode()], descriptors)
            return int(self._asking.recv(MESSAGE_BYTES_MAX))


class Forked(subprocess.Popen[str]):
    """A child of the nursery's, as if it were this process's."""

    def __init__(
        self, parent: Nursery, pid: int, stdout: IO[str], stderr: IO[str] | None = None
    ) -> None:
        self._parent = parent
        self._ends = os.pidfd_open(pid)
        self.pid = pid
        self.returncode: int | None = None
        self.stdin, self.stdout, self.stderr = None, stdout, stderr

    def poll(self) -> int | None:
        return self.returncode if self._has_ended(0) else None

    def wait(self, timeout: float | None = None) -> int:
        if not self._has_ended(timeout):
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def communicate(
        self,
        input: str | None = None,  # noqa: A002 - Popen's name
        timeout: float | None = None,
    ) -> tuple[str, str]:
        assert input is None, "it has no standard input"
        pipes = [each for each in (self.stdout, self.stderr) if each is not None]
        with ThreadPoolExecutor(len(pipes)) as threads:
            said = [threads.submit(_rest_of, each) for each in pipes]
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()  # the threads read to its end
                raise
        texts = [each.result() for each in said]
        return texts[0], "".join(texts[1:])

    def _has_ended(self, timeout_s: float | None) -> bool:
        poll = select.poll()  # select.select ends at descriptor 1023
        poll.register(self._ends, select.POLLIN)
        if self.returncode is None and poll.poll(None if timeout_s is None else timeout_s * 1000):
            self.returncode = self._parent.ask({"ended": self.pid}, [])
            os.close(self._ends)
        return self.returncode is not None


def _rest_of(pipe: IO[str]) -> str:
    if pipe.closed:
        return ""
    with pipe:
        return pipe.read()


# The process that brokers are forked from


def main() -> None:
    import appliance.cli.main
    import appliance.server  # noqa: F401

    gc.freeze()  # a collection would write into pages that all have in common
    with socket.socket(fileno=int(sys.argv[1])) as asked:
        words = serve_until_forked(asked)
    if words:
        sys.argv[1:] = words
        runpy.run_module("appliance", run_name="__main__", alter_sys=True)


def serve_until_forked(asked: socket.socket) -> list[str]:
    """Answers in the child, with its words; in the parent, with none, when the tests have ended."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(asked, MESSAGE_BYTES_MAX, 2)
        if not message:
            return []
        what = json.loads(message)
        if "ended" in what:
            _, status = os.waitpid(what["ended"], 0)
            asked.send(b"%d" % os.waitstatus_to_exitcode(status))
            continue
        pid = os.fork()
        if not pid:
            become(what, descriptors)
            return list(what["words"])
        for each in descriptors:
            os.close(each)
        asked.send(b"%d" % pid)


def become(what: dict[str, Any], descriptors: list[int]) -> None:
    for number, each in enumerate(descriptors, 1):
        os.dup2(each, number)
        os.close(each)
    os.chdir(what["folder"])
    os.environ.clear()
    os.environ.update(what["environment"])


if __name__ == "__main__":
    main()
