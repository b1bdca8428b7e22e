"""Three ZooKeepers as one ensemble, each in its own network namespace."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from appliance.zookeeper.server import Peer, ZooKeeperServer
from tests.replication.histories.network import Network, inside
from tests.replication.histories.schedule import ZOOKEEPERS

CLIENT_PORT = 2181


class ZooKeeperNode(ZooKeeperServer):
    def __init__(
        self, network: Network, name: str, folder: Path, tick_ms: int, output: IO[bytes]
    ) -> None:
        self._within = inside(network.namespace(name))
        peers = [Peer(number, network.address(each))
                 for number, each in enumerate(ZOOKEEPERS, 1)]  # fmt: skip
        super().__init__(
            folder, CLIENT_PORT, tick_ms, output, {"forceSync": "no"},
            host=network.address(name), number=ZOOKEEPERS.index(name) + 1, peers=peers,
        )  # fmt: skip

    def check_port(self) -> None:
        pass  # nobody else is in its network

    def command(self) -> list[str]:
        return [*self._within, *super().command()]

    def send(self, number: signal.Signals) -> None:
        if self.process and self.process.poll() is None:
            os.kill(self.process.pid, number)


class ZooKeepers:
    def __init__(self, network: Network, folder: Path, tick_ms: int) -> None:
        self._outputs = [(folder / f"{each}.log").open("wb") for each in ZOOKEEPERS]
        self.nodes = {
            name: ZooKeeperNode(network, name, folder / name, tick_ms, output)
            for name, output in zip(ZOOKEEPERS, self._outputs, strict=True)
        }
        self.connect = ",".join(f"{network.address(each)}:{CLIENT_PORT}" for each in ZOOKEEPERS)

    def start(self, *names: str) -> None:
        for name in names:
            node = self.nodes[name]
            if node.process is None or node.process.poll() is not None:
                node.start()

    def kill(self, *names: str) -> None:
        for name in names:
            self.nodes[name].kill()

    def heal(self, timeout_s: float) -> bool:
        """Whether all of them serve in time."""
        for node in self.nodes.values():
            node.send(signal.SIGCONT)
        self.start(*ZOOKEEPERS)
        end = time.monotonic() + timeout_s
        while not all(each.is_serving() for each in self.nodes.values()):
            if time.monotonic() > end:
                return False
            time.sleep(0.1)
        return True

    def close(self) -> None:
        for node in self.nodes.values():
            node.send(signal.SIGCONT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                node.kill()
        for each in self._outputs:
            each.close()


@contextlib.contextmanager
def ensemble(network: Network, folder: Path, tick_ms: int) -> Iterator[ZooKeepers]:
    folder.mkdir(parents=True, exist_ok=True)
    found = ZooKeepers(network, folder, tick_ms)
    try:
        assert found.heal(120), "the ensemble does not serve"
        yield found
    finally:
        found.close()
