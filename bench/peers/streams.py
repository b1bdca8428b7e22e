"""Brokers of other protocols, where they are installed: NATS JetStream and Redis Streams.

What each promises is the case's to say: JetStream of 2.9 syncs its files every two minutes,
whatever is asked; Redis appends to its AOF, and syncs it each second or, with appendfsync=always,
before it answers.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.peers.brokers import STOP_S, Broker, has_not_ended
from tests.interop.kafka_broker import free_ports, wait_until

# The program, the Debian package that has it, and the module of the client with its package on PyPI
NEEDS = {"nats": ("nats-server", "nats-server", "nats", "nats-py"),
         "redis": ("redis-server", "redis-server", "redis", "redis")}


def missing(name: str) -> str | None:
    """What to install, of a peer that cannot be had here."""
    program, debian, module, pypi = NEEDS[name]
    if shutil.which(program) is None:
        return f"{program} is not on PATH (Debian: {debian})"
    if importlib.util.find_spec(module) is None:
        return f"there is no module {module} (PyPI: {pypi})"
    return None


class Streams(Broker):
    """A server of one program, which is asked on one port."""

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        directory.mkdir()
        self.directory = directory
        self.pid = 0
        self.start()

    def words(self, port: int) -> Sequence[str]:
        raise AssertionError("each server has words of its own")

    def start(self) -> float:
        begin = time.perf_counter()
        (self._port,) = free_ports(1)
        self.address = f"127.0.0.1:{self._port}"
        with open(self.directory / "log", "ab") as log:
            self._process = subprocess.Popen(self.words(self._port), stdout=log, stderr=log)
        self.pid = self._process.pid
        wait_until(self._answers, f"the start of {self.name}")
        return time.perf_counter() - begin

    def _answers(self) -> bool:
        if not has_not_ended(self.pid):
            raise RuntimeError((self.directory / "log").read_text()[-2000:])
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", self._port)) == 0

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_S)
        finally:
            self._process.kill()


class Nats(Streams):
    name = "nats"

    def words(self, port: int) -> Sequence[str]:
        return ["nats-server", "-a", "127.0.0.1", "-p", str(port), "-js",
                "-sd", str(self.directory)]

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        asyncio.run(self._ask("add_stream", name=topic, subjects=[topic]))

    def delete_topic(self, topic: str) -> None:
        asyncio.run(self._ask("delete_stream", topic))

    async def _ask(self, what: str, *words: Any, **more: Any) -> None:
        client: Any = await importlib.import_module("nats").connect(f"nats://{self.address}")
        try:
            await getattr(client.jetstream(timeout=STOP_S), what)(*words, **more)
        finally:
            await client.close()


class Redis(Streams):
    name = "redis"

    def words(self, port: int) -> Sequence[str]:
        return ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--dir",
                str(self.directory), "--appendonly", "yes", "--save", ""]

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        """The first record makes it."""
        with self._client() as client:
            client.config_set("appendfsync", configs.get("appendfsync", "everysec"))

    def delete_topic(self, topic: str) -> None:
        with self._client() as client:
            client.delete(topic)

    def _client(self) -> Any:
        return importlib.import_module("redis").Redis(port=self._port, socket_timeout=STOP_S)
