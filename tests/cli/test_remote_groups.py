"""Commands that describe and reset a group."""

from __future__ import annotations

import re
import time
from contextlib import closing

from confluent_kafka import Consumer, TopicPartition

from appliance.testing import RunningBroker
from tests.support.remote_control import RemoteControl
from tests.support.shell import Shell
from tests.support.streams_group_client import Member, counting


def test_a_group_is_described_with_partitions_that_have_no_commit(
    shell: Shell, appliance_broker: RunningBroker
) -> None:
    shell.out("topic create orders --partitions 2")
    shell.out("produce orders --partition 1", text="x\n" * 10)
    settings = {"bootstrap.servers": appliance_broker.bootstrap, "group.id": "readers",
                "auto.offset.reset": "earliest", "enable.auto.commit": False}  # fmt: skip
    consumer = Consumer(settings)
    consumer.subscribe(["orders"])
    assert consumer.consume(1, 20)
    said = shell.out("group describe readers")
    consumer.close()
    assert re.search(r"orders +1 +- +10 +10", said)
    assert "Stable, 1 member, 10 records behind\n" in said
    assert "no commit yet in 2 partitions: their 10 records count" in said


def test_a_group_is_reset_after_a_look(shell: Shell, appliance_broker: RunningBroker) -> None:
    shell.out("topic create orders")
    shell.out("produce orders", text="x\n" * 10)
    settings = {"bootstrap.servers": appliance_broker.bootstrap, "group.id": "readers"}
    consumer = Consumer(settings)
    consumer.commit(offsets=[TopicPartition("orders", 0, 4)], asynchronous=False)
    consumer.close()
    assert "readers" in shell.out("group list")
    assert re.search(r"orders +0 +4 +10 +6", shell.out("group describe readers"))
    dry = shell.out("group reset readers earliest --dry-run")
    assert re.search(r"orders +0 +4 +0", dry)
    assert shell.json("group describe readers")["offsets"][0]["committed"] == 4
    for to, wanted in (("latest", 10), ("-3", 7), ("+1", 8), ("2", 2), ("@-1h", 0)):
        shell.out("group reset readers --yes --", to)
        found = shell.json("group describe readers")["offsets"][0]["committed"]
        assert found == wanted, to
    shell.out("group reset copy group:readers --yes --topic orders")
    assert shell.run("group reset readers somewhere").exit_code == 2
    nothing = shell.run("group reset nobody earliest --yes")
    assert (nothing.exit_code, "has no committed offsets" in nothing.stderr) == (3, True)
    shell.out("group delete readers --yes")
    assert shell.run("group describe readers").exit_code == 3


def test_a_group_of_kafka_streams_is_described_with_its_tasks(
    shell: Shell, appliance_broker: RunningBroker
) -> None:
    """As REST and the page have it, which show the same answer."""
    shell.out("topic create t --partitions 2")
    host, port = appliance_broker.bootstrap.split(":")
    with closing(RemoteControl((host, int(port)))) as control:
        one = Member(control, "one", counting())
        while not one.tasks["active_tasks"]:
            one.beat()
            time.sleep(0.05)
        found = shell.json("group describe g")
        said = shell.out("group describe g")
    (member,) = found["member_rows"]
    assert (found["protocol"], found["assignor"], found["state"]) == ("streams", "sticky", "Stable")
    assert member["tasks"] == {
        "active": ["0_0", "0_1", "1_0", "1_1"], "standby": [], "warmup": []}
    assert member["partitions"] == member["target"] == {"g-words": [0, 1], "t": [0, 1]}
    assert {(each["topic"], each["partition"]) for each in found["offsets"]} == {
        (topic, number) for topic in ("t", "g-words") for number in (0, 1)}
    assert re.search(r"test +0_0 0_1 1_0 1_1", said)
