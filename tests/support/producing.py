"""What producers are given, what they tell, and what brokers hold of it."""

from __future__ import annotations

from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from appliance.client.outcome import Outcome, Records
from appliance.client.producer_config import ProducerConfig
from appliance.client.producer_hooks import CallbackHandler
from appliance.testing import RunningBroker
from tests.support.consumed import Consumed, consumed

DEADLINE_S = 30.0


class Heard(CallbackHandler):
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self.enqueued: list[tuple[int, bool]] = []
        self.dequeued: list[int] = []
        self.stages: list[str] = []

    def before_enqueue(self, records: Records) -> Records:
        self.stages.append("before_enqueue")
        return records

    def after_enqueue(self, records: Records, is_added: bool) -> None:
        self.stages.append("after_enqueue")
        self.enqueued.append((len(records), is_added))

    def after_dequeue(self, records: list[Records]) -> list[Records]:
        self.stages.append("after_dequeue")
        self.dequeued.append(sum(map(len, records)))
        return records

    def before_send(self, records: list[Records]) -> list[Records]:
        self.stages.append("before_send")
        return records

    def after_send(self, outcome: Outcome) -> None:
        self.stages.append("after_send")
        self.outcomes.append(outcome)

    def on_close(self) -> list[Records]:
        self.stages.append("on_close")
        return []

    def values(self, *, acknowledged: bool) -> list[Any]:
        chosen = [each for each in self.outcomes if each.is_acknowledged == acknowledged]
        return [value for each in chosen for value in each.records.values]


def config(*brokers: RunningBroker, **settings: Any) -> ProducerConfig:
    return ProducerConfig(broker_list=",".join(each.bootstrap for each in brokers), **settings)


def create(broker: RunningBroker, topic: str, partitions: int, **configs: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, config=configs)])[topic].result(DEADLINE_S)


def written(brokers: list[RunningBroker], topic: str) -> dict[str, list[Consumed]]:
    """By the name of the partition."""
    found: dict[str, list[Consumed]] = {}
    for number, broker in enumerate(brokers, 1):
        for each in consumed(broker.bootstrap, topic):
            found.setdefault(f"{number}-{each.partition}", []).append(each)
    return found


def numbered(count: int) -> list[bytes | None]:
    return [b"%d" % i for i in range(count)]
