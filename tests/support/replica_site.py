"""Brokers without a control plane: each with its directory, its data plane, and what it fetches
from others. Who leads is told by the test."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from appliance._log import Log
from appliance.config import LogConfig, NetworkConfig, ReplicationConfig
from appliance.data_dir.log_dir import LogDir
from appliance.network._data_plane import DataPlane
from appliance.network._tls_context import TlsContext
from appliance.replication._replica_fetcher import Fetcher, PartitionState
from tests.support.logs import STORAGE, log_config, until
from tests.support.wire_client import TOPIC_ID, WireClient

NETWORK = NetworkConfig(drain_timeout_ms=1000)
REPLICATION = ReplicationConfig(fetch_backoff_ms=100)


class ReplicaNode:
    """One broker with the topic `t`."""

    def __init__(
        self,
        path: Path,
        node: int,
        partitions: int = 1,
        *,
        port: int = 0,
        network: dict[str, Any] | None = None,
        replication: dict[str, Any] | None = None,
        listens_with: TlsContext | None = None,
        **log: Any,
    ) -> None:
        self.path, self.node, self.life = path, node, node * 100
        self.log_config: LogConfig = log_config(**log)
        self.network = replace(NETWORK, **(network or {}))
        self.replication = replace(REPLICATION, **(replication or {}))
        self.listens_with = listens_with
        self.security: dict[str, Any] = {}  # of connections to leaders
        self.fetchers: dict[int, Fetcher] = {}
        self.log_dir = LogDir.open(path, STORAGE, log_config=lambda topic, number: self.log_config)
        found = self.log_dir.logs()
        self.logs = [
            found.get(("t", each)) or self.log_dir.create("t", each, self.log_config)
            for each in range(partitions)
        ]
        self.serve(port)

    def serve(self, port: int = 0) -> None:
        self.data_plane = DataPlane(self.network)
        listener = socket.create_server(("127.0.0.1", port))
        self.address = listener.getsockname()
        self.data_plane.listen(listener, False, self.listens_with)
        self.data_plane.put_topic("t", TOPIC_ID.bytes, list[Log | None](self.logs))
        self.data_plane.start()

    @property
    def log(self) -> Log:
        return self.logs[0]

    def client(self) -> WireClient:
        return WireClient(self.address)

    def lead(
        self, epoch: int, others: Sequence[int], in_sync: Sequence[int] | None = None,
        min_in_sync: int = 1,
    ) -> None:
        """All partitions."""
        for fetcher in self.fetchers.values():
            for each in range(len(self.logs)):
                fetcher.remove(TOPIC_ID.bytes, each)
        for log in self.logs:
            log.lead(epoch, self.node, others, others if in_sync is None else in_sync, min_in_sync)

    def follow(self, epoch: int, leader: ReplicaNode, unclean: int = -1) -> None:
        """`unclean`: the epoch of the last unclean election."""
        for node, fetcher in self.fetchers.items():
            if node != leader.node:
                for each in range(len(self.logs)):
                    fetcher.remove(TOPIC_ID.bytes, each)
        for log in self.logs:
            log.follow(epoch, leader.node)
        if leader.node not in self.fetchers:
            host, port = leader.address
            made = Fetcher(
                leader.node, host, port, self.node, self.life, self.replication, **self.security
            )
            made.start()
            self.fetchers[leader.node] = made
        for number, log in enumerate(self.logs):
            self.fetchers[leader.node].add(TOPIC_ID.bytes, "t", number, log, unclean)

    def states(self, leader: ReplicaNode) -> list[PartitionState]:
        return self.fetchers[leader.node].states()

    def stop_fetching(self) -> None:
        for fetcher in self.fetchers.values():
            assert fetcher.stop(5000)
        self.fetchers.clear()

    def stop(self, *, is_killed: bool = False) -> None:
        self.stop_fetching()
        self.data_plane.stop(1000)
        if is_killed:
            self.log_dir.abandon()
        else:
            self.log_dir.close()


def files_of(node: ReplicaNode, partition: int = 0) -> list[tuple[str, bytes]]:
    """What a partition has on disk of records, segment by segment."""
    folder = node.path / f"t-{partition}"
    return [(each.name, each.read_bytes()) for each in sorted(folder.glob("*.log"))]


def wait_until_equal(leader: ReplicaNode, *followers: ReplicaNode) -> None:
    """All have on disk what the leader has, and know that all have it."""
    ends = [log.log_end_offset for log in leader.logs]
    for each in followers:
        until(lambda each=each: [log.durable_offset for log in each.logs] == ends)
        until(lambda each=each: [log.high_watermark for log in each.logs] == ends)


def on_disk(log: Log, *batches: bytes) -> None:
    """Appends, and waits for this broker's disk alone."""
    for each in batches:
        log.append(each)
    log.ask_commit()
    until(lambda: log.durable_offset == log.log_end_offset)
