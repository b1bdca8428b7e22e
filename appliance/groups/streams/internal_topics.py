"""Makes the topics that topologies want: repartition topics and changelogs.

Heartbeats do not wait for it. The next one finds the topics, or is told why there is none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from appliance.errors import ApplianceError
from appliance.groups.streams.topics_of_topology import NewTopic
from appliance.process import event_log
from appliance.process.detached_tasks import Tasks
from appliance.topics.topic import TopicExists

logger = event_log.named("groups")

FAULTS_MAX = 1000  # of topics that nobody could make lately
DEFAULT_FACTOR = -1

# name, partitions, configs and replication factor
Create = Callable[[str, int, dict[str, str], int], Awaitable[object]]


class InternalTopics:
    def __init__(self, create: Create) -> None:
        self._create = create
        self._under_way: set[str] = set()
        self._faults: dict[str, str] = {}  # by topic, the latest last
        self._tasks = Tasks()

    def make(self, missing: Iterable[NewTopic]) -> None:
        for each in missing:
            name = each.topic.name
            if name not in self._under_way:
                self._under_way.add(name)
                self._tasks.begin(self._make(each))

    async def _make(self, wanted: NewTopic) -> None:
        topic = wanted.topic
        factor = topic.replication_factor or DEFAULT_FACTOR
        self._faults.pop(topic.name, None)
        try:
            await self._create(topic.name, wanted.partitions, dict(topic.configs), factor)
        except TopicExists:
            pass  # another was faster
        except ApplianceError as error:
            self._note(topic.name, error)
        finally:
            self._under_way.discard(topic.name)

    def _note(self, name: str, error: ApplianceError) -> None:
        logger.warning("an internal topic of Kafka Streams was not made", topic=name, error=error)
        self._faults[name] = str(error)
        if len(self._faults) > FAULTS_MAX:
            del self._faults[next(iter(self._faults))]

    def faults(self, missing: Iterable[NewTopic]) -> list[str]:
        """Why those could not be made at the last try."""
        found = [self._faults.get(each.topic.name) for each in missing]
        return [each for each in found if each is not None]

    async def settled(self) -> None:
        await self._tasks.settled()
