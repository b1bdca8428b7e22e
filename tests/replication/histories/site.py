"""The cluster under test: its network, ensemble and machines; who leads it now; and its healing."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.replication.histories import mutants
from tests.replication.histories.ensemble import ZooKeepers
from tests.replication.histories.machine import PORT, Machine
from tests.replication.histories.network import Network
from tests.replication.histories.schedule import BROKERS, CONTROLLER, LEADER

LAG_S = 5.0  # after which a follower is out of sync: half of what is usual, so that it comes about
ASK_S = 5.0
CREATE_S = 60.0
MADE = "made-"  # begins the names of topics that are made and deleted under faults
Partition = tuple[str, int]


class Site:
    def __init__(
        self,
        network: Network,
        zookeepers: ZooKeepers,
        root: str,
        folder: Path,
        session_ms: int,
        mutant: str = "",
    ) -> None:
        self.network, self.zookeepers, self.folder = network, zookeepers, folder
        self.in_zookeeper = f"{zookeepers.connect}{root}"
        self.session_s = session_ms / 1000
        self.machines: dict[str, Machine] = {}
        environment = mutants.environment(mutant)
        for number, name in enumerate(BROKERS, 1):
            self.machines[name] = Machine(network, name, folder / name, {
                "node.id": number, "zookeeper.connect": self.in_zookeeper,
                "zookeeper.format": "cluster", "allow.open.listeners": "true",
                "zookeeper.session.timeout.ms": session_ms,
                # Clients of the round before know this address, too, and ask for its topics.
                "auto.create.topics.enable": "false",
                "replica.lag.time.max.ms": int(LAG_S * 1000),
            }, environment, mutant)  # fmt: skip

    @property
    def bootstrap(self) -> str:
        return ",".join(map(self.address, BROKERS))

    def start(self, *names: str) -> None:
        for name in names:
            machine = self.machines[name]
            machine.is_wanted = True
            machine.do(machine.start)

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})

    def create(self, topic: str, partitions: int, **configs: str) -> None:
        wanted = NewTopic(topic, partitions, 3, config={
            name.replace("_", "."): value for name, value in configs.items()})  # fmt: skip
        admin = self.admin()
        for done in admin.create_topics([wanted], operation_timeout=CREATE_S).values():
            done.result(CREATE_S)

    def named(self, place: str, amount: float) -> str:
        """The broker that is meant now."""
        if place not in (CONTROLLER, LEADER):
            return place
        with contextlib.suppress(KafkaException, KeyError, AttributeError):
            found = self.admin().list_topics(timeout=ASK_S)
            partitions = found.topics["log"].partitions
            number = found.controller_id if place == CONTROLLER else (
                partitions[int(amount * len(partitions))].leader)  # fmt: skip
            return BROKERS[number - 1] if 0 < number <= len(BROKERS) else BROKERS[0]
        return BROKERS[int(amount * len(BROKERS))]

    def heal(self, timeout_s: float) -> str:
        """All faults are over. What is wrong when the time is: empty if all is as it should be."""
        end = time.monotonic() + timeout_s
        self.network.heal()
        if not self.zookeepers.heal(timeout_s):
            return "the ensemble does not serve"
        for machine in self.machines.values():
            machine.send(signal.SIGCONT)
            machine.clock.set(0)
            machine.do(machine.empty_disk)
        self.start(*BROKERS)
        for machine in self.machines.values():
            if not machine.until_idle(max(1.0, end - time.monotonic())):
                return f"{machine.name} does not come up"
        return self.until_in_sync(end)

    def until_in_sync(self, end: float) -> str:
        while True:
            wrong = self._out_of_sync()
            at_fault = [words for each in self.machines.values() for words in each.wrong]
            if not wrong or time.monotonic() > end or at_fault:
                return "; ".join([wrong, *at_fault]) if wrong else ""
            time.sleep(0.2)

    def _out_of_sync(self) -> str:
        """By what each of them tells."""
        return next(filter(None, map(self._told_by, BROKERS)), "")

    def address(self, name: str) -> str:
        return f"{self.address_of(name)}:{PORT}"

    def address_of(self, name: str) -> str:
        return self.network.address(name)

    def metadata(self, name: str) -> Any:
        asking = AdminClient({"bootstrap.servers": self.address(name), "log_level": 2})
        return asking.list_topics(timeout=ASK_S)

    def topics_by_broker(self) -> dict[str, set[str]]:
        return {each: {*self.metadata(each).topics} for each in BROKERS}

    def _told_by(self, name: str) -> str:
        try:
            found = self.metadata(name)
        except KafkaException as error:
            return f"{name} does not answer: {error}"
        if len(found.brokers) != len(BROKERS):
            return f"{name} knows {sorted(found.brokers)} alone"
        for topic in found.topics.values():
            for number, each in topic.partitions.items():
                if is_forsaken(topic.topic, each):
                    continue
                if topic.topic.startswith("__") and len(each.replicas) < len(BROKERS):
                    return f"{name} says that {topic.topic} is on {each.replicas} alone, as yet"
                if each.leader == -1 or len(each.isrs) != len(each.replicas):
                    return (f"{name} says that {topic.topic}-{number} is led by {each.leader}, "
                            f"ISR {each.isrs}")  # fmt: skip
        return ""

    def partitions(self) -> dict[Partition, list[str]]:
        """With who has each: an internal topic may have been made while a broker was away."""
        found: Any = self.admin().list_topics(timeout=CREATE_S)
        return {(topic.topic, number): [BROKERS[node - 1] for node in each.replicas]
                for topic in found.topics.values() for number, each in topic.partitions.items()
                if not is_forsaken(topic.topic, each)}  # fmt: skip

    def files(self, name: str, partition: Partition) -> bytes:
        folder = self.machines[name].disk.root / "data" / f"{partition[0]}-{partition[1]}"
        return b"".join(each.read_bytes() for each in sorted(folder.glob("*.log")))

    def close(self) -> None:
        self.network.heal()
        for machine in self.machines.values():
            machine.close()


def is_forsaken(topic: str, partition: Any) -> bool:
    """Made under faults, it may have been on one broker alone, whose disk was lost then. Nothing of
    it counted, and to lead it is a person's word."""
    return topic.startswith(MADE) and partition.leader == -1 and not partition.isrs


@contextlib.contextmanager
def site(*given: Any) -> Iterator[Site]:
    found = Site(*given)
    try:
        found.start(*BROKERS)
        yield found
    finally:
        found.close()


def until(is_so: Callable[[], bool], timeout_s: float, look_s: float = 0.1) -> bool:
    end = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(look_s)
    return True
