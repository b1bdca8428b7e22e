"""Brokers are started one after the other, and the first client does not wait for all of them."""

from __future__ import annotations

import re
import shutil
import signal
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from appliance.topics.topic import OFFSETS, TRANSACTIONS
from appliance.zookeeper.server import ZooKeeperServer
from tests.support.rest import Rest
from tests.support.three_brokers import DEADLINE_S, Brokers, brokers

LEFT_TO_BROKERS = -1
WANTED = {OFFSETS, TRANSACTIONS, "t"}
LEARNS = {"topic.metadata.refresh.interval.ms": 500}  # of brokers that came later


@pytest.mark.release("tests/cluster/test_growth.py has it without logs; three brokers")
def test_what_the_first_client_made_survives_the_first_broker(
    server: ZooKeeperServer, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    root = "/tests/" + re.sub(r"\W", "-", request.node.name)
    with brokers(server, root, tmp_path) as three:
        three.start(1)
        three.create("t", factor=LEFT_TO_BROKERS)
        three.create("alone", factor=1)
        producer = transactional(three)
        transfer(producer, "a")
        member = three.member("g", "t", **LEARNS, **{"isolation.level": "read_committed"})
        assert values(member.take(1)) == ["a"]
        member.commit()

        for node in (2, 3):
            three.start(node)
            transfer(producer, f"with {node}")  # while replicas are added
            assert values(member.take(1)) == [f"with {node}"]
            member.commit()
            for topic in WANTED:
                three.until(topic, lambda found, count=node: len(found.isrs) == count)
        assert three.partition("alone").replicas == [1], "that was its maker's word"
        for each in three.running.values():
            said = str(Rest(each.admin).raw("GET", "/healthz").body)
            assert "few replicas" not in said, said

        three.stop(1, signal.SIGKILL)
        shutil.rmtree(three.folder(1))
        transfer(producer, "without 1")
        assert values(member.take(1)) == ["without 1"]
        member.commit()
        member.close()
        assert three.consume("t", 4) == ["a", "with 2", "with 3", "without 1"]
        again = transactional(three)  # of the same id: its coordinator knows its epoch
        again.begin_transaction()
        again.produce("t", "b")
        again.commit_transaction(DEADLINE_S)
        with pytest.raises(KafkaException, match=r"fenced"):
            transfer(producer, "too late")


def transactional(three: Brokers) -> Producer:
    config = {"bootstrap.servers": three.bootstrap, "transactional.id": "tx", **LEARNS}
    producer = Producer(config)
    producer.init_transactions(DEADLINE_S)
    return producer


def transfer(producer: Producer, value: str) -> None:
    producer.begin_transaction()
    producer.produce("t", value)
    producer.commit_transaction(DEADLINE_S)


def values(messages: list[object]) -> list[str]:
    return [each.value().decode() for each in messages]  # type: ignore[attr-defined]
