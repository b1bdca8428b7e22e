"""What `TxnClient` wants of a control plane, asked of whichever broker of a cluster has the say:
coordinators of transactions and groups, leaders of partitions."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

from appliance.protocol import ErrorCode
from appliance.protocol.messages.find_coordinator import FindCoordinatorRequest
from appliance.protocol.messages.produce import ProduceRequest
from appliance.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.support.remote_control import RemoteControl
from tests.support.remote_control import Sent as RemoteSent
from tests.support.three_brokers import DEADLINE_S, Brokers

GROUP, TRANSACTION = 0, 1

# Clients ask again.
LATER = frozenset({
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
})  # fmt: skip


class Sent(NamedTuple):
    to: RemoteControl
    sent: RemoteSent


class ClusterControl:
    def __init__(self, cluster: Brokers) -> None:
        self._cluster = cluster
        self._controls: dict[int, RemoteControl] = {}
        self.paused: set[int] = set()  # these would not answer

    def close(self) -> None:
        for each in self._controls.values():
            each.close()

    def at(self, node: int) -> RemoteControl:
        """A connection to a process that runs."""
        process = self._cluster.running[node]
        found = self._controls.get(node)
        if found is None or getattr(found, "process", None) is not process:
            if found is not None:
                found.close()
            found = self._controls[node] = RemoteControl(process.kafka)
            found.process = process  # type: ignore[attr-defined]
        return found

    def coordinator(self, name: str, kind: int = TRANSACTION) -> int:
        end = time.monotonic() + DEADLINE_S
        while True:
            asked = FindCoordinatorRequest(key_type=kind, coordinator_keys=[name])
            (found,) = self._any().ask(asked, 4).coordinators
            if not found.error_code and found.node_id in self._cluster.running:
                return int(found.node_id)
            assert time.monotonic() < end, found
            time.sleep(0.05)

    def _any(self) -> RemoteControl:
        return self.at(min({*self._cluster.running} - self.paused))

    def leader(self, topic: str, partition: int) -> int:
        running = self._cluster.running
        found = self._cluster.until(topic, lambda each: each.leader in running, partition)
        return int(found.leader)

    def topic_id(self, name: str) -> UUID:
        return self._any().topic_id(name)

    def ask(self, request: Any, version: int) -> Any:
        return self.answer(self.send(request, version))

    def send(self, request: Any, version: int) -> Sent:
        control = self.at(self._who(request))
        return Sent(control, control.send(request, version))

    def _who(self, request: Any) -> int:
        if isinstance(request, ProduceRequest):
            (topic,) = request.topic_data
            (partition,) = topic.partition_data
            return self.leader(topic.name, partition.index)
        if isinstance(request, TxnOffsetCommitRequest):
            return self.coordinator(request.group_id, GROUP)
        found = getattr(request, "transactional_id", "")
        name = found or getattr(request, "v3_and_below_transactional_id", "")
        return self.coordinator(name or request.transactional_ids[0])

    def answer(self, sent: Sent) -> Any:
        return sent.to.answer(sent.sent)


def until_answered(ask: Callable[[], Any]) -> Any:
    """Its error code, or codes, once that is none at which a client asks again."""
    end = time.monotonic() + DEADLINE_S
    while True:
        found = ask()
        codes = found if isinstance(found, list) else [found]
        if LATER.isdisjoint(codes):
            return found
        assert time.monotonic() < end, f"still {found}"
        time.sleep(0.05)
