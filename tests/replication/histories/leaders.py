"""Who leads the log, and how that is changed by a person's word: the replicas are put into another
order, and the first of them is elected. What is asked is asked of one broker, since a fault may
have taken the others away."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaException
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from appliance.cluster import paths
from appliance.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from appliance.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from tests.replication.histories.machine import PORT
from tests.replication.histories.readers import consumer, latest
from tests.replication.histories.schedule import BROKERS
from tests.replication.histories.site import Site
from tests.support.wire_client import WireClient, frame_of

TOPIC = "log"
ASK_S, LOOK_S, GIVEN_S = 5.0, 0.05, 3.0
TOLD_S = 0.5  # by ZooKeeper, if it is there
REASSIGN, ELECT = (45, 1), (43, 2)  # key and version


class Leaders:
    """As one broker tells of them."""

    def __init__(self, site: Site, asked: str) -> None:
        self._site, self._asked = site, asked

    def controller(self) -> str:
        """"": not known."""
        with suppress(KafkaException):
            number = self._site.metadata(self._asked).controller_id
            return BROKERS[number - 1] if 0 < number <= len(BROKERS) else ""
        return ""

    def led_by(self, name: str) -> list[int]:
        with suppress(KafkaException, KeyError):
            found = self._site.metadata(self._asked).topics[TOPIC].partitions
            return [number for number, each in found.items() if each.leader == _id(name)]
        return []

    def given(self, name: str) -> list[int]:
        """What it leads, after it was given something if that was nothing."""
        if found := self.led_by(name):
            return found
        self.prefer([0], (name, *[each for each in BROKERS if each != name]))
        self.elect([0], name, GIVEN_S)
        return self.led_by(name)

    def lives(self, name: str) -> bool:
        with suppress(KafkaException):
            return _id(name) in self._site.metadata(self._asked).brokers
        return False

    def is_in_sync(self, name: str, numbers: Collection[int] = ()) -> bool:
        """Of some of these, or of all there are."""
        with suppress(KafkaException, KeyError):
            found = self._site.metadata(self._asked).topics[TOPIC].partitions
            return any(_id(name) in found[each].isrs for each in numbers or found)
        return True

    def are_in_sync(self, *names: str) -> bool:
        """Of all that there is, as far as is known."""
        with suppress(KafkaException, KeyError):
            found = self._site.metadata(self._asked).topics[TOPIC].partitions
            return all({*map(_id, names)} <= {*each.isrs} for each in found.values())
        return False

    def counted(self, numbers: Collection[int]) -> int:
        """How much counts of these, by whoever leads them as it knows; -1: nobody says."""
        own = {"bootstrap.servers": self._site.address(self._asked)}
        asking = consumer(self._site, "nobody", **own)
        try:
            return sum(latest(asking, (TOPIC, each), ASK_S) for each in numbers)
        except KafkaException:
            return -1
        finally:
            asking.close()

    def prefer(self, numbers: Collection[int], order: Sequence[str]) -> None:
        """Whose first one is to lead, once it is elected."""
        ids = [*map(_id, order)]
        rows = [AlterPartitionReassignmentsRequest.ReassignablePartition(each, ids)
                for each in numbers]  # fmt: skip
        topic = AlterPartitionReassignmentsRequest.ReassignableTopic(TOPIC, rows)
        self._ask(AlterPartitionReassignmentsRequest(int(ASK_S * 1000), topics=[topic]),
                  AlterPartitionReassignmentsResponse, REASSIGN)  # fmt: skip

    def elect(self, numbers: Collection[int], name: str, timeout_s: float) -> bool:
        """Whether it leads all of them in time."""
        end = time.monotonic() + timeout_s
        rows = [ElectLeadersRequest.TopicPartitions(TOPIC, [*numbers])]
        while time.monotonic() < end:
            self._ask(ElectLeadersRequest(0, rows, int(ASK_S * 1000)), ElectLeadersResponse, ELECT)
            if {*numbers} <= {*self.led_by(name)}:
                return True
            time.sleep(LOOK_S)
        return False

    def _ask(self, request: Any, response: type, api: tuple[int, int]) -> None:
        address = (self._site.address_of(self._asked), PORT)
        with suppress(OSError, EOFError), WireClient(address, ASK_S, source="") as client:
            client.send(frame_of(request, *api))
            client.answer(response, *api)


class InZooKeeper:
    """What is written there, whoever has heard of it."""

    def __init__(self, site: Site) -> None:
        self._client = KazooClient(site.in_zookeeper)
        self._client.start_async()  # it may be lost just now, too

    def is_in_sync(self, name: str, numbers: Collection[int]) -> bool:
        """Of some of these."""
        with suppress(KazooException, KazooTimeoutError):
            asked = [self._client.get_async(paths.state(TOPIC, each)) for each in numbers]
            states = [each.get(timeout=TOLD_S)[0] for each in asked]
            return any(_id(name) in json.loads(each)["isr"] for each in states)
        return False

    def close(self) -> None:
        self._client.stop()
        self._client.close()


def _id(name: str) -> int:
    return BROKERS.index(name) + 1
