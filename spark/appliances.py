"""Several appliances as one source. Each has a name, and its topics bear that before a slash, which
no topic's name has: `north/clicks`. So plans, offsets of a checkpoint and messages tell them apart.
With one appliance there is neither.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from appliance_spark.endpoint import Endpoint
from appliance_spark.options import OptionInvalid, Topics


def topic_in(name: str) -> str:
    return name.rpartition("/")[2]


def appliance_in(name: str) -> str:
    return name.rpartition("/")[0]


class Appliances:
    """By name; one alone has none."""

    def __init__(self, endpoints: Mapping[str, Endpoint], topics: Topics) -> None:
        self.endpoints, self.chosen = endpoints, topics
        self._seen: dict[tuple[str, str], str] = {}
        self.names = topics.names if topics.assigned is None else tuple(topics.assigned)
        for name in self.names:
            if appliance_in(name):
                self._of(name)

    def topics(self) -> list[str]:
        return sorted(
            f"{appliance}/{topic}" if appliance else topic
            for appliance in self.endpoints for topic in self._topics_at(appliance)
        )  # fmt: skip

    def _topics_at(self, appliance: str) -> list[str]:
        """A topic named without an appliance must be at each: one left out would be missed."""
        if self.chosen.pattern:
            matches = re.compile(self.chosen.pattern).fullmatch
            found = self.endpoints[appliance].topics()
            return [name for name in found
                    if matches(name) or (appliance and matches(f"{appliance}/{name}"))]
        if not appliance:
            return list(self.names)
        here = [name for name in self.names if appliance_in(name) in ("", appliance)]
        return list(dict.fromkeys(topic_in(name) for name in here))

    def assigned(self, topic: str) -> tuple[int, ...] | None:
        """None: all partitions."""
        assigned = self.chosen.assigned
        if assigned is None:
            return None
        return assigned[topic] if topic in assigned else assigned[topic_in(topic)]

    def plan(
        self, topic: str, first: str, end: str, splits: int, isolation: str, topic_id: str = ""
    ) -> Any:
        endpoint, name = self._of(topic)
        plan = endpoint.plan(name, first, end, splits, isolation, topic_id)
        self._check_twice(topic, plan)
        return plan

    def _of(self, topic: str) -> tuple[Endpoint, str]:
        """One alone gets the name as it is, and says that it has no such topic."""
        if "" in self.endpoints:
            return self.endpoints[""], topic
        if appliance_in(topic) not in self.endpoints:
            raise OptionInvalid(
                f"there are the appliances {', '.join(sorted(self.endpoints))}, and the topic "
                f"{topic}, of an option or a checkpoint, is of none of them"
            )
        return self.endpoints[appliance_in(topic)], topic_in(topic)

    def _check_twice(self, topic: str, plan: Mapping[str, Any]) -> None:
        """Brokers of one cluster have the same topics: all would be read once for each of them."""
        before = self._seen.setdefault((plan["cluster_id"], plan["topic_id"]), topic)
        if before != topic:
            raise OptionInvalid(
                f"{before} and {topic} are the same topic, of the cluster "
                f"{plan['cluster_id']}: give the addresses of its brokers under one name, "
                "separated by commas"
            )
