"""Topics made, extended, moved, configured and asked to be deleted by any broker: these are
conditional writes and need no controller. First states, ends of moves, deletions are its work."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from appliance.catalog import kafka_uuid
from appliance.cluster import deletions, forms, paths, reassignment, requests
from appliance.cluster.forms import ClusterTopic, TopicConfig
from appliance.cluster.reading import Reading
from appliance.cluster.session import ChangeRefused, Session
from appliance.cluster.table import TopicNews
from appliance.errors import Refused
from appliance.protocol.errors import ErrorCode

# ZooKeeper takes a megabyte at a time; a notice has a topic and its config.
TOPIC_BYTES_MAX, CONFIG_BYTES_MAX = 700_000, 200_000


# Replicas of the partitions that a topic is to have beside those which it has.
More = Callable[[ClusterTopic], Sequence[Sequence[int]]]


class TopicWrites:
    def __init__(self, session: Session, reading: Reading) -> None:
        self._session, self._reading = session, reading

    async def create(
        self,
        name: str,
        assignment: Sequence[Sequence[int]],
        configs: Mapping[str, str],
        topic_id: bytes | None,
        wanted_factor: int = 0,
    ) -> ClusterTopic:
        check_name(name)
        partitions = tuple(map(tuple, assignment))
        topic_id = topic_id or kafka_uuid.new().bytes
        topic = ClusterTopic(name, topic_id, partitions, wanted_factor=wanted_factor)
        data, config = checked(topic), checked_config(name, configs)
        while True:
            is_left_over = await self._session.exists(paths.config(name))
            change = self._session.change().create(paths.topic(name), data)
            change.create(paths.topic_id(topic.topic_id), name.encode())
            change.create(paths.partitions(name), b"")
            if is_left_over:
                change.delete(paths.config(name))
            change.create(paths.config(name), config)
            try:
                await change.commit()
            except ChangeRefused as refused:
                if refused.number < 2 and isinstance(refused.error, NodeExistsError):
                    raise exists(name) from refused
                if not isinstance(refused.error, (NodeExistsError, NoNodeError)):
                    raise
                continue  # the config that was left over came or went just now
            return topic

    async def extend(self, name: str, more: More) -> ClusterTopic:
        return await self._change(
            name,
            lambda topic: replace(
                topic, partitions=(*topic.partitions, *map(tuple, more(topic)))
            ),
        )

    async def reassign(
        self,
        name: str,
        wanted: Mapping[int, Sequence[int] | None],
        living: Collection[int],
    ) -> ClusterTopic:
        """To these replicas; None: no more to those that were wanted before."""

        def changed(topic: ClusterTopic) -> ClusterTopic:
            for number, replicas in wanted.items():
                if not 0 <= number < len(topic.partitions):
                    unknown = f"{name} has {len(topic.partitions)} partitions, got {number}"
                    raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, unknown)
                if replicas is None:
                    topic = reassignment.cancelled(topic, number)
                else:
                    check_replicas(topic, number, replicas, living)
                    topic = reassignment.begun(topic, number, replicas)
            return topic

        return await self._change(name, changed)

    async def _change(
        self, name: str, changed: Callable[[ClusterTopic], ClusterTopic]
    ) -> ClusterTopic:
        """The topic, and a request to the controller to look at it."""
        while True:
            topic = await self._read(name)
            after = replace(changed(topic), version=topic.version + 1)
            change = self._session.change().check(paths.topic_id(topic.topic_id))
            change.set(paths.topic(name), checked(after), topic.version)
            change.create(f"{paths.REQUESTS}/r", requests.partitions_node(name), sequence=True)
            try:
                await change.commit()
            except ChangeRefused as refused:
                if not isinstance(refused.error, (BadVersionError, NoNodeError)):
                    raise
                continue  # somebody else changed it
            return after

    async def ask_to_delete(self, name: str, wanted: bytes = b"") -> bytes:
        """The id of what goes: the wanted one, if any. What this broker has heard does not
        count: the topic may have been made anew elsewhere."""
        try:
            topic = await self._read(name)
        except Refused as refused:
            if wanted and refused.kafka_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise Refused(ErrorCode.UNKNOWN_TOPIC_ID, str(refused)) from refused
            raise
        if wanted not in (b"", topic.topic_id):
            found, asked = uuid.UUID(bytes=topic.topic_id), uuid.UUID(bytes=wanted)
            why = f"{name} was made anew: it has id {found}, and {asked} was asked for"
            raise Refused(ErrorCode.UNKNOWN_TOPIC_ID, why)
        change = self._session.change().check(paths.topic(name), topic.version)
        change.check(paths.topic_id(topic.topic_id))
        change.create(f"{paths.DELETIONS}/{name}", deletions.request_node(topic.topic_id))
        try:
            await change.commit()
        except ChangeRefused as refused:
            if isinstance(refused.error, NodeExistsError):
                return topic.topic_id  # it was asked for already
            if not isinstance(refused.error, (BadVersionError, NoNodeError)):
                raise
            return await self.ask_to_delete(name, wanted)  # it has changed just now, or is gone
        return topic.topic_id

    async def set_configs(
        self, name: str, topic_id: bytes, values: Mapping[str, str], version: int
    ) -> TopicNews | None:
        """None: they are not any more as they were read."""
        data = checked_config(name, values)
        change = self._session.change().check(paths.topic_id(topic_id))
        change.set(paths.config(name), data, version)
        try:
            await change.commit()
        except ChangeRefused as refused:
            if not isinstance(refused.error, (BadVersionError, NoNodeError)):
                raise
            return None
        return TopicNews(name, topic_id, config=TopicConfig(dict(values), version + 1))

    async def _read(self, name: str) -> ClusterTopic:
        check_name(name)
        await self._session.sync()
        topic = await self._reading.topic_node(name)
        if topic is None:
            unknown = f"topic {name} is not in the cluster"
            trouble = self._reading.troubles.get(paths.topic(name), unknown)
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, trouble)
        return topic


def check_name(name: str) -> None:
    if not forms.TOPIC_NAME.fullmatch(name):
        raise Refused(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"topic {name[:forms.TEXT_MAX]!r}: wanted 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-'",
        )


def check_replicas(
    topic: ClusterTopic, number: int, wanted: Sequence[int], living: Collection[int]
) -> None:
    """Who has it already may be dead; who is to get it must live."""
    told = sorted(living)[: forms.REPLICAS_MAX]
    fault = ""
    if not wanted:
        fault = f"got no brokers, wanted some of {told}"
    elif dead := sorted({*wanted} - {*living} - {*topic.partitions[number]}):
        fault = f"wanted brokers that live, {told}; not there: {dead[: forms.REPLICAS_MAX]}"
    elif len({*wanted}) < len(wanted):
        twice = next(each for each in wanted if wanted.count(each) > 1)
        fault = f"got broker {twice} {wanted.count(twice)} times"
    if fault:
        code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
        raise Refused(code, f"{topic.name}-{number}: {fault}")


def exists(name: str) -> Refused:
    return Refused(
        ErrorCode.TOPIC_ALREADY_EXISTS,
        f"topic {name} is in the cluster; if it is being deleted, it goes in a moment",
    )


def checked(topic: ClusterTopic) -> bytes:
    """Its node, as others will be able to read it."""
    data = forms.topic_node(topic)
    if len(data) > TOPIC_BYTES_MAX or len(topic.partitions) > forms.PARTITIONS_MAX:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"topic {topic.name}: {len(topic.partitions)} partitions are {len(data)} bytes in "
            f"ZooKeeper, wanted at most {TOPIC_BYTES_MAX}",
        )
    try:
        forms.topic_from(data, topic.name, topic.version, paths.topic(topic.name))
    except forms.FormUnknown as error:
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, str(error)) from error
    return data


def checked_config(name: str, values: Mapping[str, str]) -> bytes:
    data = forms.config_node(values)
    if len(data) > CONFIG_BYTES_MAX:
        raise Refused(
            ErrorCode.INVALID_CONFIG,
            f"topic {name}: its configs are {len(data)} bytes in ZooKeeper, wanted at most "
            f"{CONFIG_BYTES_MAX}",
        )
    try:
        forms.config_from(data, 0, paths.config(name))
    except forms.FormUnknown as error:
        raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from error
    return data
