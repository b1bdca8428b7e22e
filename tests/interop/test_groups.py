"""Unmodified current consumers in groups, against `appliance serve`: they share partitions, leave,
die, return, and continue at their offsets, also when the broker is killed."""

from __future__ import annotations

import asyncio
import gc
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.errors import CommitFailedError, RebalanceInProgressError

from appliance.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from loadtest.ports import lasting_port
from tests.support.release import gate_has
from tests.support.warm_broker import WarmBroker as Broker
from tests.support.wire_client import WireClient, frame_of

DEADLINE_S = 60.0
PARTITIONS = 6
COUNT = 600
SESSION_MS = 6000
STRATEGIES = ["range", "roundrobin", "cooperative-sticky"]
FENCED = {confluent_kafka.KafkaError._FATAL, confluent_kafka.KafkaError.FENCED_INSTANCE_ID}
QUICK = ["--set", "group.initial.rebalance.delay.ms=50"]


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data: Path = tmp_path_factory.mktemp("groups")
    with Broker(data, *QUICK) as broker:
        yield broker.kafka


def filled(bootstrap: str, topic: str, count: int = COUNT) -> str:
    """A topic with this many records, spread over its partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS)])[topic].result(DEADLINE_S)
    produce(bootstrap, topic, range(count))
    return topic


def produce(bootstrap: str, topic: str, numbers: range) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for i in numbers:
        producer.produce(topic, b"%d" % i, partition=i % PARTITIONS)
    assert producer.flush(DEADLINE_S) == 0


def until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, f"not in time: {what}"
        time.sleep(0.02)


class Member:
    """A consumer on its own thread until it is told to end."""

    def __init__(self, bootstrap: str, group: str, topic: str, **configs: Any) -> None:
        given = {name.replace("_", "."): value for name, value in configs.items()}
        self.errors: list[confluent_kafka.KafkaError] = []
        if given.get("group.protocol") != "consumer":  # there the broker sets the interval
            given = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 500, **given}
        self.client = confluent_kafka.Consumer({
            "bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "error_cb": self.errors.append, "log_level": 2,
            **given,
        })  # fmt: skip
        self.values: list[int] = []
        self.assigned: set[int] = set()
        self.assignments = 0
        self.faults: list[object] = []
        self._is_incremental = given.get("partition.assignment.strategy") == "cooperative-sticky"
        self._must_end = threading.Event()
        self.client.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke,
                              on_lost=self._on_revoke)
        # a failed test leaves the thread behind, and the test run must end
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _on_assign(self, _: object, partitions: list[confluent_kafka.TopicPartition]) -> None:
        self.assignments += 1
        self.assigned |= {each.partition for each in partitions}

    def _on_revoke(self, _: object, partitions: list[confluent_kafka.TopicPartition]) -> None:
        self.assigned -= {each.partition for each in partitions}

    def _run(self) -> None:
        while not self._must_end.is_set():
            found = self.client.consume(50, 0.1)
            for message in found:
                if message.error() is None:
                    self.values.append(int(message.value()))
                else:
                    self.errors.append(message.error())
            if found:
                try:
                    self.client.commit(asynchronous=False)
                except confluent_kafka.KafkaException as error:
                    self.faults.append(error)

    def close(self) -> None:
        self._must_end.set()
        self._thread.join(DEADLINE_S)
        self.client.close()


def shared(*members: Member) -> bool:
    """Every partition has exactly one member, and every member has partitions."""
    owned = sorted(each for member in members for each in member.assigned)
    return owned == list(range(PARTITIONS)) and all(each.assigned for each in members)


@pytest.mark.parametrize(
    "strategy",
    gate_has(["range", "cooperative-sticky"], "a second strategy that revokes all", STRATEGIES),
)
def test_members_share_and_take_over(bootstrap: str, strategy: str) -> None:
    topic = filled(bootstrap, f"shared-{strategy}")
    configs = {"partition_assignment_strategy": strategy}
    one = Member(bootstrap, topic, topic, **configs)
    until(lambda: shared(one), "one has all")
    two = Member(bootstrap, topic, topic, **configs)
    until(lambda: shared(one, two), "each has its part")
    produce(bootstrap, topic, range(COUNT, 2 * COUNT))
    until(lambda: {*one.values, *two.values} == set(range(2 * COUNT)), "everything is read")
    two.close()
    until(lambda: shared(one), "one has all again")
    produce(bootstrap, topic, range(2 * COUNT, 3 * COUNT))
    until(lambda: set(one.values) >= set(range(2 * COUNT, 3 * COUNT)), "one reads on")
    one.close()
    # what was committed is not read again
    again = Member(bootstrap, topic, topic, **configs)
    until(lambda: shared(again), "a new one has all")
    produce(bootstrap, topic, range(3 * COUNT, 3 * COUNT + 1))
    until(lambda: bool(again.values), "the one new record")
    again.close()
    assert again.values == [3 * COUNT]


def test_a_member_that_dies_is_replaced(bootstrap: str) -> None:
    topic = filled(bootstrap, "dies")
    script = f"""
        import confluent_kafka
        client = confluent_kafka.Consumer({{"bootstrap.servers": {bootstrap!r}, "group.id": "dies",
            "session.timeout.ms": {SESSION_MS}, "heartbeat.interval.ms": 500}})
        client.subscribe([{topic!r}], on_assign=lambda _, parts: print(len(parts), flush=True))
        while True:
            client.poll(0.1)
    """
    one = Member(bootstrap, "dies", topic)
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert int(other.stdout.readline()) > 0
        until(lambda: len(one.assigned) == PARTITIONS // 2, "half each")
        other.kill()
        killed = time.monotonic()
        until(lambda: shared(one), "one has all again")
    # only after the end of its session: a closed connection does not end it
    assert time.monotonic() - killed > SESSION_MS / 1000 / 2  # its last heartbeat was before
    one.close()


def test_a_static_member_restarts_without_a_rebalance(bootstrap: str) -> None:
    topic = filled(bootstrap, "static")
    one = Member(bootstrap, "static", topic, group_instance_id="one")
    two = Member(bootstrap, "static", topic, group_instance_id="two")
    until(lambda: shared(one, two), "each has its part")
    before, had = one.assignments, set(two.assigned)
    two.close()
    two = Member(bootstrap, "static", topic, group_instance_id="two")
    until(lambda: two.assigned == had, "it has what it had")
    produce(bootstrap, topic, range(COUNT, 2 * COUNT))
    mine = {i for i in range(COUNT, 2 * COUNT) if i % PARTITIONS in had}
    until(lambda: set(two.values) >= mine, "it reads on")
    assert (one.assignments, shared(one, two)) == (before, True)
    one.close()
    two.close()


def test_a_second_instance_of_the_same_name_fences_the_first(bootstrap: str) -> None:
    topic = filled(bootstrap, "fenced", 1)
    one = Member(bootstrap, "fenced", topic, group_instance_id="i")
    until(lambda: shared(one), "one has all")
    two = Member(bootstrap, "fenced", topic, group_instance_id="i")
    until(lambda: shared(two), "the other has all")
    until(lambda: FENCED & {each.code() for each in one.errors} != set(), "the first is told")
    two.close()
    one._must_end.set()
    one._thread.join()


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # left open by its close
def test_kafka_python(bootstrap: str) -> None:
    with ExitStack() as stack:  # one that is left asks for a broker for good
        through_kafka_python(bootstrap, stack)
    gc.collect()


def through_kafka_python(bootstrap: str, stack: ExitStack) -> None:
    topic = filled(bootstrap, "kafka-python")

    def consumer() -> kafka.KafkaConsumer:
        made = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap, group_id="kafka-python", enable_auto_commit=False,
            auto_offset_reset="earliest", session_timeout_ms=SESSION_MS, heartbeat_interval_ms=500,
        )  # fmt: skip
        stack.callback(made.close)
        # a leader that does not know the topic yet assigns no partition for five minutes
        until(lambda: bool(made.partitions_for_topic(topic)), "the topic is known")
        made.subscribe([topic])
        return made

    members = [consumer(), consumer()]
    values: list[int] = []

    def read() -> None:
        for each in members:
            for rows in each.poll(timeout_ms=100).values():
                # refused where the group has begun to share anew: these are read again
                with suppress(CommitFailedError, RebalanceInProgressError):
                    each.commit()
                    values.extend(int(row.value) for row in rows)

    def is_shared() -> bool:
        read()
        owned = [len(each.assignment()) for each in members]
        return owned == [PARTITIONS // len(members)] * len(members)

    until(is_shared, "each has its part")
    until(lambda: read() is None and set(values) == set(range(COUNT)), "everything is read")
    members.pop().close()
    until(is_shared, "one has all")
    members.pop().close()
    last = consumer()
    until(lambda: last.poll(timeout_ms=100) == {} and bool(last.assignment()), "it goes on")
    ends = last.end_offsets(list(last.assignment()))
    assert {each: last.committed(each) for each in ends} == ends
    last.close()


def test_aiokafka(bootstrap: str) -> None:
    topic = filled(bootstrap, "aiokafka")
    asyncio.run(asyncio.wait_for(through_aiokafka(bootstrap, topic), DEADLINE_S))


async def through_aiokafka(bootstrap: str, topic: str) -> None:
    def consumer() -> aiokafka.AIOKafkaConsumer:
        return aiokafka.AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id="aiokafka", auto_offset_reset="earliest",
            enable_auto_commit=False, session_timeout_ms=SESSION_MS, heartbeat_interval_ms=500,
        )  # fmt: skip

    members = [consumer(), consumer()]
    values: list[int] = []
    for each in members:
        await each.start()
    while set(values) != set(range(COUNT)) or not all(each.assignment() for each in members):
        for each in members:
            for rows in (await each.getmany(timeout_ms=100)).values():
                values += [int(row.value) for row in rows]
            await each.commit()
    assert sorted(len(each.assignment()) for each in members) == [PARTITIONS // 2] * 2
    await members.pop().stop()
    while len(members[0].assignment()) < PARTITIONS:
        await members[0].getmany(timeout_ms=100)
    await members[0].stop()
    last = consumer()
    await last.start()
    while not last.assignment():
        assert await last.getmany(timeout_ms=100) == {}
    ends = await last.end_offsets(last.assignment())
    assert {each: await last.committed(each) for each in ends} == ends
    await last.stop()


@pytest.mark.parametrize(
    "strategy", gate_has(["cooperative-sticky"], "a kill under another strategy", STRATEGIES[::2])
)
def test_consumers_carry_on_when_the_broker_is_killed(tmp_path: Path, strategy: str) -> None:
    """Their generation is on disk: no member joins again, and no committed offset is lost."""
    address = f"127.0.0.1:{lasting_port()}"  # the same after the kill, as consumers know it
    options = [*QUICK, "--listen", address]
    with Broker(tmp_path, *options) as broker:
        topic = filled(address, "t")
        members = [
            Member(address, "g", topic, partition_assignment_strategy=strategy,
                   reconnect_backoff_max_ms=200, session_timeout_ms=45_000)  # longer than a start
            for _ in range(2)
        ]
        until(lambda: shared(*members), "each has its part")
        until(lambda: len({*members[0].values, *members[1].values}) == COUNT, "everything is read")
        assignments = [each.assignments for each in members]
        before = dict.fromkeys(range(PARTITIONS), COUNT // PARTITIONS)
        until(lambda: committed(address, topic) == before, "everything is committed")
        broker.end(signal.SIGKILL)
    with Broker(tmp_path, *options):
        assert committed(address, topic) == before
        produce(address, topic, range(COUNT, 2 * COUNT))
        until(lambda: len({*members[0].values, *members[1].values}) == 2 * COUNT, "they read on")
        time_of_two_heartbeats = time.monotonic() + 1.2
        until(lambda: time.monotonic() > time_of_two_heartbeats, "they beat on")
        assert [each.assignments for each in members] == assignments
        assert shared(*members)
        for each in members:
            each.close()
    # every record once: what was committed is not read again
    assert sorted(members[0].values + members[1].values) == list(range(2 * COUNT))


def committed(bootstrap: str, topic: str, group: str = "g") -> dict[int, int]:
    client = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    places = [confluent_kafka.TopicPartition(topic, i) for i in range(PARTITIONS)]
    found = client.committed(places, DEADLINE_S)
    client.close()
    return {each.partition: each.offset for each in found}


def commit_frame(offset: int) -> bytes:
    row = OffsetCommitRequest.OffsetCommitRequestPartition(0, offset, -1, "")
    topic = OffsetCommitRequest.OffsetCommitRequestTopic("t", partitions=[row])
    return frame_of(OffsetCommitRequest("g", -1, "", topics=[topic]), 8, 8)


def test_the_broker_is_killed_while_offsets_are_committed(tmp_path: Path) -> None:
    """Every acknowledged offset survives each kill."""
    acknowledged = -1
    for life in range(4):
        with Broker(tmp_path, *QUICK) as broker:
            if not life:
                filled(broker.kafka, "t", PARTITIONS)
            found = committed(broker.kafka, "t")[0]
            # the last commit may be on disk without a response to us
            assert found in (acknowledged, acknowledged + 1) or not life
            acknowledged = max(acknowledged, found)
            timer = threading.Timer(0.5, broker.process.send_signal, [signal.SIGKILL])
            timer.start()
            host, _, port = broker.kafka.rpartition(":")
            with suppress(EOFError, ConnectionError), WireClient((host, int(port))) as client:
                while True:
                    client.send(commit_frame(acknowledged + 1))
                    (topic,) = client.answer(OffsetCommitResponse, 8, 8).topics
                    assert topic.partitions[0].error_code == 0
                    acknowledged += 1
            timer.join()
            broker.process.wait(DEADLINE_S)
    assert acknowledged > 10


def test_who_commits_and_closes_has_committed(bootstrap: str) -> None:
    filled(bootstrap, "t", PARTITIONS)
    host, _, port = bootstrap.rpartition(":")
    for offset in range(20):
        with WireClient((host, int(port))) as client:
            client.send(commit_frame(offset))
        until(lambda wanted=offset: committed(bootstrap, "t")[0] == wanted, "committed")


@pytest.mark.alone
def test_a_stop_is_not_held_up_by_members_that_wait(tmp_path: Path) -> None:
    with Broker(tmp_path, *QUICK) as broker:
        topic = filled(broker.kafka, "t", 1)
        one = Member(broker.kafka, "g", topic)
        until(lambda: shared(one), "one has all")
        begin = time.monotonic()
        code, told = broker.end(signal.SIGTERM)
        assert (code, time.monotonic() - begin < 3) == (0, True)
        assert "Traceback" not in told
        one._must_end.set()
        one._thread.join()


def test_administrators_see_and_move_and_delete(bootstrap: str) -> None:
    topic = filled(bootstrap, "admin")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    one = Member(bootstrap, "admin", topic, client_id="me")
    until(lambda: len(one.values) == COUNT, "everything is read")
    (found,) = (
        each.result(DEADLINE_S) for each in admin.describe_consumer_groups(["admin"]).values()
    )
    (member,) = found.members
    assert (found.state.name, found.partition_assignor) == ("STABLE", "range")
    assert (member.client_id, member.host) == ("me", "/127.0.0.1")
    assert {each.partition for each in member.assignment.topic_partitions} == set(range(PARTITIONS))
    one.close()
    listed = admin.list_consumer_groups().result(DEADLINE_S)
    assert "admin" in {each.group_id for each in listed.valid}
    moved = [confluent_kafka.TopicPartition(topic, i, 7) for i in range(PARTITIONS)]
    asked = confluent_kafka.ConsumerGroupTopicPartitions("admin", moved)
    admin.alter_consumer_group_offsets([asked])["admin"].result(DEADLINE_S)
    assert committed(bootstrap, topic, "admin") == dict.fromkeys(range(PARTITIONS), 7)
    admin.delete_consumer_groups(["admin"])["admin"].result(DEADLINE_S)
    listed = admin.list_consumer_groups().result(DEADLINE_S)
    assert "admin" not in {each.group_id for each in listed.valid}
