"""Clients in other languages: each is a small program of ours around one library, whose version its
own files pin. It is built once, when a suite wants it.

    PROGRAM produce ADDRESS TOPIC SIZE COUNT ACKS CODEC
    PROGRAM consume ADDRESS TOPIC COUNT

prints the records that it moved, and the seconds and processor seconds from the first record to the
last acknowledgement, or to the last record read. Connecting is not in them. The partition is the
topic's first.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.peers import clients
from tests.interop import kafka_jars
from tests.support.made_once import made_once

BUILD_S = 900  # on a busy machine; the first build fetches the library


class Client:
    """The interface of a client."""

    library: str
    is_one_thread: bool

    def missing(self) -> str | None:
        """What to install, or None."""
        raise AssertionError("each kind of client needs something else")

    def words(self) -> Sequence[str]:
        """What starts it."""
        raise AssertionError("each kind of client starts in its own way")


@dataclass(frozen=True)
class Built(Client):
    """A program whose sources are in a folder beside this file."""

    library: str
    folder: str
    tool: str  # that builds it, on PATH
    get: str  # where the tool comes from
    build: Sequence[Sequence[str]]  # run one after the other in a copy of the sources
    start: Sequence[str]  # {} is that copy
    is_one_thread: bool = False

    def missing(self) -> str | None:
        return None if shutil.which(self.tool) else f"{self.tool} is not on PATH ({self.get})"

    def words(self) -> Sequence[str]:
        made = self._made()
        return [each.format(made) for each in self.start]

    def _made(self) -> Path:
        """Where its sources have changed, it is built again."""
        sources = clients.HERE / self.folder
        texts = b"".join(each.read_bytes() for each in sorted(sources.rglob("*")) if each.is_file())
        named = hashlib.sha256(texts).hexdigest()[:16]
        wanted = kafka_jars.CACHE / f"client-{self.folder}-{named}"
        with made_once(wanted) as folder:
            if folder is not None:
                shutil.copytree(sources, folder, dirs_exist_ok=True)
                for words in self.build:
                    must_run(words, folder)
        return wanted


@dataclass(frozen=True)
class OfPython(Client):
    """A module of `bench`, around a library of PyPI with the same name."""

    library: str
    module: str
    is_one_thread: bool = True  # the GIL's

    def missing(self) -> str | None:
        if importlib.util.find_spec(self.library) is None:
            return f"there is no module {self.library} (PyPI: {self.library})"
        return None

    def words(self) -> Sequence[str]:
        return [sys.executable, "-m", self.module]


CLIENTS: dict[str, Client] = {
    "go": Built("franz-go", "go", "go", "https://go.dev/dl",
                [["go", "build", "-buildvcs=false", "-trimpath", "-o", "program"]],
                ["{}/program"]),
    "node": Built("kafkajs", "node", "npm", "https://nodejs.org",
                  [["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]],
                  ["node", "{}/main.mjs"], is_one_thread=True),
    "rust": Built("rskafka", "rust", "cargo", "https://rustup.rs",
                  [["cargo", "build", "--release", "--locked", "--target-dir", "built"],
                   ["mv", "built/release/program", "."], ["rm", "-r", "built"]],
                  ["{}/program"], is_one_thread=True),
    "aiokafka": OfPython("aiokafka", "bench.peers.aiokafka_client"),
}  # fmt: skip


def must_run(words: Sequence[str], folder: Path) -> None:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=BUILD_S)
    if done.returncode:
        output = done.stdout + done.stderr
        raise clients.ClientFailed(f"{' '.join(words)} ended with {done.returncode}:\n{output}")


@functools.cache
def program(name: str) -> Sequence[str]:
    return CLIENTS[name].words()


@dataclass(frozen=True)
class Done:
    """What a client tells of its job."""

    records: int
    seconds: float
    cpu: float


def run(name: str, words: Sequence[str], count: int) -> Done:
    """Raises if not all records were moved."""
    library = CLIENTS[name].library
    output = clients.run([*program(name), *words])
    told = [line for line in output.splitlines() if line.startswith("{")]  # warnings stand around
    if len(told) != 1:
        raise clients.ClientFailed(f"wanted one answer of {library}, got {len(told)}:\n{output}")
    done = Done(**json.loads(told[0]))
    if done.records != count:
        raise clients.ClientFailed(f"{library} moved {done.records:,} of {count:,}")
    return done


def produce(name: str, address: str, topic: str, size: int, count: int, acks: str,
            codec: str) -> Done:
    return run(name, ["produce", address, topic, str(size), str(count), acks, codec], count)


def consume(name: str, address: str, topic: str, count: int) -> Done:
    return run(name, ["consume", address, topic, str(count)], count)
