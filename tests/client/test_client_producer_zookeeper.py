"""Producers that find their brokers in ZooKeeper."""

from __future__ import annotations

import signal
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from appliance.client.producer import Producer
from appliance.client.producer_config import ProducerConfig
from appliance.testing import RunningBroker, running_broker
from tests.support.consumed import consumed
from tests.support.producing import Heard, create
from tests.support.serving import Serving
from tests.support.warm_serving import WarmServing
from tests.support.zookeeper import eventually, serving_zookeeper_in


def test_producers_follow_the_brokers_in_zookeeper(tmp_path: Path) -> None:
    with serving_zookeeper_in(tmp_path / "zookeeper") as server, ExitStack() as stack:
        root = f"{server.address}/producers"

        def start(number: int) -> RunningBroker:
            settings = {
                "node.id": str(number),
                "zookeeper.format": "original",
                "zookeeper.connect": root,
                "zookeeper.connection.timeout.ms": "10000",
            }
            return stack.enter_context(running_broker(tmp_path / str(number), settings))

        one = start(1)
        producer = stack.enter_context(Producer(ProducerConfig(zk_connect=root)))
        assert str(producer.send("t", b"x")[0].partition) == "1-0"
        two = start(2)
        create(two, "t", 2)
        eventually(lambda: len(producer.cluster.partitions("t")) == 3)
        used: set[str] = set()
        eventually(
            lambda: bool(used.add(str(producer.send("t", b"y")[0].partition))) or len(used) > 2
        )
        one.stop()
        eventually(lambda: len(producer.cluster.partitions("t")) == 2)
        assert {str(producer.send("t", b"z")[0].partition)[0] for _ in range(20)} == {"2"}


def test_a_killed_broker_of_zookeeper_is_waited_for_or_left(tmp_path: Path) -> None:
    """What goes to it waits until it is back, or goes to the others; all is told and is there."""
    with serving_zookeeper_in(tmp_path / "zookeeper") as server, ExitStack() as stack:
        root = f"{server.address}/killed"

        def start(number: int) -> Serving:
            settings = {
                "node.id": number,
                "zookeeper.format": "original",
                "zookeeper.connect": root,
                "zookeeper.session.timeout.ms": 1000,
                "zookeeper.connection.timeout.ms": 10000,
            }
            serving = WarmServing(tmp_path / str(number), **settings)
            stack.callback(serving.stop, signal.SIGKILL)
            return serving

        brokers = [start(1), start(2)]
        heard = {policy: Heard() for policy in ("fail", "move")}
        producers = [
            stack.enter_context(
                Producer(
                    ProducerConfig(
                        zk_connect=root,
                        producer_type="async",
                        queue_time=5,
                        on_broker_down=policy,
                        retry_backoff_max_ms=200,
                    ),
                    callback_handler=each,
                )
            )
            for policy, each in heard.items()
        ]
        pairs = [(b"k%d" % i, b"%d" % i) for i in range(200)]
        for turn in range(60):
            for producer in producers:
                producer.send(producer.config.on_broker_down, pairs)
            if turn == 20:
                brokers[0].stop(signal.SIGKILL)
                eventually(lambda: [*producers[0].cluster.brokers()] == [2])
            if turn == 40:
                brokers[0] = start(1)  # at another port
            time.sleep(0.01)
        for producer in producers:
            producer.flush()
        for policy, each in heard.items():
            values = each.values(acknowledged=True)
            assert Counter(values) == Counter([value for _, value in pairs] * 60), policy
            found = Counter(
                record.value
                for broker in brokers
                for record in consumed("{}:{}".format(*broker.kafka), policy)
            )
            extra = found - Counter(values)
            assert not Counter(values) - found
            assert not extra or policy == "move", "twice, though it waited"
