"""Two brokers of a cluster in one process: real logs, and a control plane each. A thread stands in
the place of the followers' fetches, and who leads is what the test says."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from appliance._log import Log
from appliance.broker.broker import Broker
from appliance.broker.members import NOBODY, Node, OneBroker, Placement
from appliance.broker.replica_roles import Coordinators
from appliance.config import GroupsConfig, ShareStateConfig, TransactionsConfig
from appliance.config.topic_config import Configs
from appliance.protocol.messages.list_groups import ListGroupsRequest
from appliance.topics.replicated_topics import ReplicatedTopics, Wanted
from appliance.topics.topic import OFFSETS, Topic
from appliance.topics.topics import NewTopic
from tests.support.control import Control, Sent
from tests.support.logs import until

NODES = (1, 2)
PARTITIONS = 2  # of __consumer_offsets: group g stands in 1, h in 0
LIFE = 1

LOADING, NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16


class Member(Control):
    """A broker of the two; nothing is led before the first election."""

    def __init__(
        self, cluster: TwoBrokers, path: Path, node: int, groups: GroupsConfig,
        transactions: TransactionsConfig,
    ) -> None:  # fmt: skip
        self.node, self._cluster = node, cluster
        super().__init__(
            path / str(node), groups=groups, transactions=transactions,
            share_state=ShareStateConfig(partitions=PARTITIONS),
        )  # fmt: skip

    async def _start(self) -> None:
        self.broker.topics.cluster = Agreed(self._cluster, self.broker)
        self.broker.members = Elected(self._cluster, self.broker)
        await super()._start()

    def log(self, partition: int) -> Log:
        return self.broker.topics[self._cluster.topic].log(partition)


class TwoBrokers:
    topic = OFFSETS  # whose partitions are led by one or the other

    def __init__(self, path: Path, **given: Any) -> None:
        groups = GroupsConfig(
            initial_rebalance_delay_ms=0, offsets_partitions=PARTITIONS, **given
        )
        transactions = TransactionsConfig(log_partitions=PARTITIONS)
        self.ids: dict[str, uuid.UUID] = {}
        self.leaders = [(NOBODY, 0)] * PARTITIONS  # node and epoch
        self.one, self.two = self.both = [
            Member(self, path, each, groups, transactions) for each in NODES
        ]
        self.replication = Replication(self)

    def create(self, name: str, partitions: int = 1) -> None:
        for each in self.both:
            each.create(name, partitions)

    def make_offsets_topic(self) -> None:
        for each in self.both:
            each.run(each.broker.group_places.make_offsets_topic())

    def coordinator(self, member: Member) -> Coordinators:
        return member.broker.groups

    def elect(self, leader: Member | None, *partitions: int, raised: int = 1) -> None:
        """Of all partitions, when none is named. Both brokers are told, and the logs before them.
        With epochs that are not `raised` one pauses, or goes on."""
        for number in partitions or range(PARTITIONS):
            node = NOBODY if leader is None else leader.node
            epoch = self.leaders[number][1] + raised
            with self.replication.guard:
                self._tell_logs(number, node, epoch)
                self.leaders[number] = node, epoch
            for each in self.both:
                each.run(self._tell(each, number, epoch, is_led=each.node == node))

    def elect_logs(self, leaders: Sequence[Member], number: int) -> None:
        """One after the other; coordinators do not hear of it."""
        with self.replication.guard:
            for each in leaders:
                epoch = self.leaders[number][1] + 1
                self._tell_logs(number, each.node, epoch)
                self.leaders[number] = each.node, epoch

    def _tell_logs(self, number: int, leader: int, epoch: int) -> None:
        for each in self.both:
            log, others = each.log(number), [node for node in NODES if node != each.node]
            if each.node == leader:
                log.lead(epoch, leader, others, others, 2)
            else:
                log.follow(epoch, leader)

    async def _tell(self, member: Member, number: int, epoch: int, is_led: bool) -> None:
        coordinator = self.coordinator(member)
        if is_led:
            coordinator.on_led(number, epoch)
        else:
            coordinator.on_resigned(number)

    def loaded(self, member: Member) -> None:
        """After what it leads was read."""
        member.run(member.broker.groups.loading.loaded())

    def move(self, leader: Member, *partitions: int) -> None:
        self.elect(leader, *partitions)
        self.loaded(leader)

    def close(self) -> None:
        self.replication.stop()
        for each in self.both:
            each.close()


class Replication:
    """Followers fetch, append, have it on disk, and fetch again."""

    def __init__(self, cluster: TwoBrokers) -> None:
        self.guard = threading.RLock()
        self.error: Exception | None = None
        self._cluster = cluster
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="replication")
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
        if self.error is not None:
            raise self.error

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nothing gets to the follower meanwhile."""
        with self.guard:
            yield

    def _run(self) -> None:
        while not self._stopped.wait(0.001):
            try:
                for number in range(PARTITIONS):
                    with self.guard:
                        self._fetch(number)
            except Exception as error:  # noqa: BLE001 - raised again by `stop`
                self.error = error
                return

    def _fetch(self, number: int) -> None:
        node, epoch = self._cluster.leaders[number]
        if node == NOBODY:
            return
        leader, follower = sorted(self._cluster.both, key=lambda each: each.node != node)
        self.fetch(leader.log(number), follower.log(number), follower.node, epoch)

    def fetch(self, leader: Log, follower: Log, node: int, epoch: int) -> None:
        last, _ = follower.end_offset_for_epoch(epoch)
        while found := leader.diverging(last, follower.log_end_offset):
            follower.cut(*found)
            last, _ = follower.end_offset_for_epoch(epoch)
        offset = follower.log_end_offset
        leader.fetched_by(node, LIFE, epoch, offset)
        if data := leader.read(offset, 1 << 20, "end"):
            follower.append_replicated(data, epoch)
            follower.flush()
            leader.fetched_by(node, LIFE, epoch, follower.durable_offset)
        follower.tell_replicated(epoch, leader.high_watermark)


class Agreed:
    """What the cluster decides of topics; each broker hears of it when its test says so."""

    def __init__(self, cluster: TwoBrokers, broker: Broker) -> None:
        self._ids = cluster.ids
        self._topics = broker.topics
        self._replicated = ReplicatedTopics(
            broker.topics, broker.change, lambda name: broker.topics.show(broker.topics[name])
        )

    async def hear_of(self, name: str) -> None:
        raise AssertionError("nobody is refused here")

    async def hear_of_id(self, topic_id: uuid.UUID) -> None:
        raise AssertionError("nobody is refused here")

    async def create(self, wanted: NewTopic) -> Topic:
        topic_id = self._ids.setdefault(wanted.name, uuid.uuid4())
        here = frozenset(range(wanted.partitions))
        known = Wanted(wanted.name, topic_id, wanted.partitions, here, wanted.configs)
        await self._replicated.agree(lambda: known)
        return self._topics.named(wanted.name)

    async def create_partitions(
        self, topic: Topic, total: int, replicas: Sequence[Sequence[int]]
    ) -> None:
        raise AssertionError("nothing is extended here")

    async def delete(self, name: str, topic_id: uuid.UUID | None) -> None:
        raise AssertionError("nothing is deleted here")

    async def configure(self, topic: Topic, configs: Configs) -> None:
        raise AssertionError("nothing is configured here")


class Elected(OneBroker):
    """Where partitions of __consumer_offsets are led."""

    def __init__(self, cluster: TwoBrokers, broker: Broker) -> None:
        super().__init__(broker)
        self._cluster = cluster

    def nodes(self, listener: int) -> list[Node]:
        return [Node(each, f"node{each}", 9000 + each, None) for each in NODES]

    def placement(self, topic: Topic, index: int) -> Placement:
        return Placement(*self._cluster.leaders[index], NODES)


# Asked


def listed(member: Member) -> tuple[int, list[str]]:
    answer = member.ask(ListGroupsRequest(), 5)
    return answer.error_code, sorted(each.group_id for each in answer.groups)


def appended(member: Member, send: Callable[[], Sent]) -> Sent:
    """It is in the log of the group's leader, and nowhere else."""
    return appended_in(1, member, send)


def appended_in(partition: int, member: Member, send: Callable[[], Sent]) -> Sent:
    log = member.log(partition)
    before, sent = log.log_end_offset, send()
    assert not member.is_answered(sent)
    until(lambda: log.log_end_offset > before)
    return sent
