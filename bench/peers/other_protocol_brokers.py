"""Brokers of other protocols, if installed: NATS JetStream, Redis streams and RabbitMQ streams.

Their promises differ. JetStream 2.9 always syncs its files every two minutes. Redis syncs its AOF
each second or, with appendfsync=always, before it responds. A RabbitMQ stream confirms records in
the page cache and has no setting for more.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.peers.brokers import STOP_S, Broker, ended_in_time, has_not_ended
from loadtest.ports import lasting_port
from tests.interop.kafka_broker import wait_until

# Each program with its Debian package; the client's module; the client's PyPI package
NEEDS: dict[str, tuple[Mapping[str, str], str, str]] = {
    "nats": ({"nats-server": "nats-server"}, "nats", "nats-py"),
    "redis": ({"redis-server": "redis-server"}, "redis", "redis"),
    "rabbitmq": ({"rabbitmq-server": "rabbitmq-server", "erl": "erlang-base",
                  "epmd": "erlang-base"}, "rstream", "rstream"),
}


def missing(name: str) -> str | None:
    """What to install for the peer, or None."""
    programs, module, pypi = NEEDS[name]
    for program, debian in programs.items():
        if shutil.which(program) is None:
            return f"{program} is not on PATH (Debian: {debian})"
    if importlib.util.find_spec(module) is None:
        return f"there is no module {module} (PyPI: {pypi})"
    return None


class Streams(Broker):
    """A server with one program and one port."""

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        directory.mkdir()
        self.directory = directory
        self.pid = 0
        self.start()

    def words(self, port: int) -> Sequence[str]:
        raise AssertionError("each server has its own command")

    def environment(self) -> Mapping[str, str]:
        """Variables in addition to those of this process."""
        return {}

    def start(self) -> float:
        begin = time.perf_counter()
        self._port = lasting_port()
        self.address = f"127.0.0.1:{self._port}"
        self._process = self._run(self.words(self._port), self._port)
        self.pid = self._process.pid
        return time.perf_counter() - begin

    def _run(self, words: Sequence[str], port: int) -> subprocess.Popen[bytes]:
        """Starts a process and waits until it listens on the port."""
        path = self.directory / "log"
        with open(path, "ab") as log:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       env={**os.environ, **self.environment()})
        try:
            wait_until(lambda: listens(process.pid, port, path), f"{words[0]} on port {port}")
        except BaseException:
            process.kill()
            process.wait()
            raise
        return process

    def stop(self) -> None:
        ended_in_time(self._process)


def listens(pid: int, port: int, log: Path) -> bool:
    if not has_not_ended(pid):
        raise RuntimeError(log.read_text()[-2000:])
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


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
        """The first record creates the stream."""
        with self._client() as client:
            client.config_set("appendfsync", configs.get("appendfsync", "everysec"))

    def delete_topic(self, topic: str) -> None:
        with self._client() as client:
            client.delete(topic)

    def _client(self) -> Any:
        return importlib.import_module("redis").Redis(port=self._port, socket_timeout=STOP_S)
