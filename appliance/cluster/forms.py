"""What is in the nodes: the JSON of Kafka 0.8 to 3.x, with fields of our own that its readers pass
over: `life` of a broker, `wanted_factor` of a topic, `leader_life`, `eligible` and `unclean` of a
state.

Anybody may write nodes, so each field is checked and bounded. `FormUnknown` says which node it is
and what is wrong; who reads passes that node over and tells.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from appliance.catalog import kafka_uuid
from appliance.config.addresses import Address
from appliance.config.listeners import Listener, Listeners, Protocols
from appliance.errors import ApplianceError
from appliance.process.event_log import quote

NOBODY = -1
ID_MAX = NUMBER_MAX = 2**31 - 1
LIFE_MAX = 2**31 - 1  # versions of nodes are 32 bits
REPLICAS_MAX = 64
PARTITIONS_MAX = 100_000
TEXT_MAX = 255
REASON_MAX = 1000
CONFIGS_MAX = 1000
CONFIG_MAX = 32_767
SHOWN_MAX = 100
TOPIC_NAME = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")  # Kafka's rule

Key = tuple[str, int]  # a topic and a partition
Replicas = tuple[int, ...]
Fields = Mapping[str, Any]


class FormUnknown(ApplianceError):
    """A node that this build does not understand: another program's, a newer one's, or spoilt."""


@dataclass(frozen=True)
class LivingBroker:
    """`/brokers/ids/N`. Kafka's own brokers have no life: then it is 0, and it leads nothing."""

    node_id: int
    life: int
    listeners: Listeners
    protocols: Protocols
    rack: str = ""  # none


@dataclass(frozen=True)
class ClusterTopic:
    """`/brokers/topics/T`. The first replica of a partition is its preferred leader. A topic that
    left the number of replicas to the brokers, when fewer lived, still wants so many; else 0."""

    name: str
    topic_id: bytes
    partitions: tuple[Replicas, ...]
    version: int = 0
    adding: Mapping[int, Replicas] = field(default_factory=dict)
    removing: Mapping[int, Replicas] = field(default_factory=dict)
    wanted_factor: int = 0


@dataclass(frozen=True)
class PartitionState:
    """`/brokers/topics/T/partitions/P/state`. A broker leads in the life that is named, no other.
    Eligible are replicas outside the ISR that have all that counts."""

    leader: int
    leader_life: int
    leader_epoch: int
    isr: Replicas
    eligible: Replicas = ()
    controller_epoch: int = 0
    version: int = 0
    unclean: int = NOBODY  # the epoch of the last unclean election; -1: there was none


@dataclass(frozen=True)
class TopicConfig:
    """`/config/topics/T`."""

    values: Mapping[str, str]
    version: int = 0


# Out


def as_json(fields: Fields) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def broker_node(broker: LivingBroker, now_ms: int) -> bytes:
    first = broker.listeners.all[0].address
    fields = {
        "version": 5,
        "host": first.host,
        "port": first.port,
        "endpoints": list(map(str, broker.listeners)),
        "listener_security_protocol_map": {
            each.name: broker.protocols.of(each.name) for each in broker.listeners
        },
        "rack": broker.rack or None,
        "jmx_port": -1,
        "features": {},
        "timestamp": str(now_ms),
        "life": broker.life,
    }
    return as_json(fields)


def topic_node(topic: ClusterTopic) -> bytes:
    return as_json(fields_of_topic(topic))


def fields_of_topic(topic: ClusterTopic) -> dict[str, Any]:
    wanted = {"wanted_factor": topic.wanted_factor} if topic.wanted_factor else {}
    return {
        "version": 3,
        "topic_id": kafka_uuid.text_of(uuid.UUID(bytes=topic.topic_id)),
        "partitions": {str(number): each for number, each in enumerate(topic.partitions)},
        "adding_replicas": {str(number): each for number, each in topic.adding.items()},
        "removing_replicas": {str(number): each for number, each in topic.removing.items()},
        **wanted,
    }


def state_node(state: PartitionState) -> bytes:
    return as_json(fields_of_state(state))


def fields_of_state(state: PartitionState) -> dict[str, Any]:
    fields = {
        "version": 1,
        "controller_epoch": state.controller_epoch,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "isr": state.isr,
        "leader_life": state.leader_life,
        "eligible": state.eligible,
    }
    return fields if state.unclean == NOBODY else {**fields, "unclean": state.unclean}


def config_node(values: Mapping[str, str]) -> bytes:
    return as_json(fields_of_config(values))


def fields_of_config(values: Mapping[str, str]) -> dict[str, Any]:
    return {"version": 1, "config": dict(values)}


def reasons_node(reasons: Sequence[str]) -> bytes:
    """As much as is read again."""
    most = REASON_MAX - 3
    texts = [each if len(each) <= REASON_MAX else f"{each[:most]}..." for each in reasons]
    return as_json({"version": 1, "reasons": texts[:REPLICAS_MAX]})


# In


def reasons_from(data: bytes, where: str) -> list[str]:
    return Reader(where, fields_in(data, where, 1)).texts("reasons", REASON_MAX)


def broker_from(data: bytes, node_id: int, where: str) -> LivingBroker:
    read = Reader(where, fields_in(data, where, 5))
    try:
        listeners = tuple(map(Listener.parse, read.texts("endpoints")))
        protocols = read.text_map("listener_security_protocol_map")
    except ValueError as error:
        raise read.unknown("endpoints", str(error), "NAME://HOST:PORT") from None
    if not listeners:
        listeners = (Listener.parse(str(Address(read.text("host"), read.number("port")))),)
    return LivingBroker(
        node_id, read.number("life", 0, LIFE_MAX, default=0), Listeners(listeners),
        Protocols(tuple(protocols.items())), read.text("rack", default=""),
    )  # fmt: skip


def topic_from(data: bytes, name: str, version: int, where: str) -> ClusterTopic:
    return topic_in(Reader(where, fields_in(data, where, 3)), name, version)


def topic_in(read: Reader, name: str, version: int) -> ClusterTopic:
    partitions = read.replicas_map("partitions")
    if sorted(partitions) != list(range(len(partitions))):
        raise read.unknown("partitions", sorted(partitions), "numbers from 0 without a gap")
    if any(not replicas for replicas in partitions.values()):
        raise read.unknown("partitions", "one without replicas", "brokers of each")
    try:
        topic_id = kafka_uuid.parse(read.text("topic_id")).bytes
    except ValueError:
        raise read.unknown("topic_id", read.fields["topic_id"], "22 letters of base64") from None
    in_order = tuple(partitions[number] for number in range(len(partitions)))
    adding, removing = read.replicas_map("adding_replicas"), read.replicas_map("removing_replicas")
    wanted_factor = read.number("wanted_factor", 0, REPLICAS_MAX, default=0)
    return ClusterTopic(name, topic_id, in_order, version, adding, removing, wanted_factor)


def state_from(data: bytes, version: int, where: str) -> PartitionState:
    return state_in(Reader(where, fields_in(data, where, 1)), version)


def state_in(read: Reader, version: int) -> PartitionState:
    return PartitionState(
        read.number("leader", NOBODY, ID_MAX),
        read.number("leader_life", 0, LIFE_MAX, default=0),
        read.number("leader_epoch", 0, NUMBER_MAX),
        read.replicas("isr"),
        read.replicas("eligible", default=[]),
        read.number("controller_epoch", 0, NUMBER_MAX),
        version,
        read.number("unclean", NOBODY, NUMBER_MAX, default=NOBODY),
    )


def config_from(data: bytes, version: int, where: str) -> TopicConfig:
    return config_in(Reader(where, fields_in(data, where, 1)), version)


def config_in(read: Reader, version: int) -> TopicConfig:
    return TopicConfig(read.text_map("config"), version)


def fields_in(data: bytes, where: str, version_max: int) -> dict[str, Any]:
    fields = as_fields(data, where)
    version = Reader(where, fields).number("version", 0, NUMBER_MAX)
    if version > version_max:
        raise FormUnknown(
            f"{where} in ZooKeeper has version {version}, and this appliance knows up to "
            f"{version_max}: a newer program wrote it"
        )
    return fields


def as_fields(data: bytes, where: str) -> dict[str, Any]:
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        shown = quote(data[:SHOWN_MAX].decode("utf-8", "backslashreplace"))
        raise FormUnknown(f"{where} in ZooKeeper: wanted JSON, got {shown}") from None
    if not isinstance(fields, dict):
        raise FormUnknown(f"{where} in ZooKeeper: wanted fields, got {type(fields).__name__}")
    return fields


@dataclass(frozen=True)
class Reader:
    """Fields of a node, each with its bounds."""

    where: str
    fields: Fields

    def unknown(self, name: str, got: object, wanted: str) -> FormUnknown:
        shown = "missing" if got is None else quote(str(got)[:SHOWN_MAX])
        return FormUnknown(f"{self.where} in ZooKeeper: {name} is {shown}, wanted {wanted}")

    def number(
        self, name: str, least: int = 0, most: int = NUMBER_MAX, default: int | None = None
    ) -> int:
        value = self.fields.get(name, default)
        if type(value) is not int or not least <= value <= most:
            raise self.unknown(name, value, f"a number from {least} to {most}")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        value = self.fields.get(name)
        value = default if value is None else value
        if not isinstance(value, str) or len(value) > TEXT_MAX:
            raise self.unknown(name, value, f"a text of at most {TEXT_MAX} letters")
        return value

    def texts(self, name: str, longest: int = TEXT_MAX) -> list[str]:
        value = self.fields.get(name, [])
        if not isinstance(value, list) or len(value) > REPLICAS_MAX:
            raise self.unknown(name, value, f"a list of at most {REPLICAS_MAX} texts")
        if any(not isinstance(each, str) or len(each) > longest for each in value):
            raise self.unknown(name, value, f"texts of at most {longest} letters")
        return value

    def text_map(self, name: str) -> dict[str, str]:
        value = self.fields.get(name, {})
        if not isinstance(value, dict) or len(value) > CONFIGS_MAX:
            raise self.unknown(name, value, f"at most {CONFIGS_MAX} names with their values")
        if any(not isinstance(each, str) or len(each) > CONFIG_MAX for each in value.values()):
            raise self.unknown(name, value, f"texts of at most {CONFIG_MAX} letters")
        return value

    def replicas(self, name: str, default: Sequence[int] | None = None) -> Replicas:
        return self._replicas(name, self.fields.get(name, default))

    def replicas_map(self, name: str) -> dict[int, Replicas]:
        value = self.fields.get(name, {})
        if not isinstance(value, dict) or len(value) > PARTITIONS_MAX:
            raise self.unknown(name, value, f"brokers of at most {PARTITIONS_MAX} partitions")
        if any(not each.isascii() or not each.isdecimal() or len(each) > 6 for each in value):
            raise self.unknown(name, sorted(value)[:3], "numbers of partitions")
        return {int(number): self._replicas(name, each) for number, each in value.items()}

    def _replicas(self, name: str, value: object) -> Replicas:
        if not isinstance(value, list) or len(value) > REPLICAS_MAX:
            raise self.unknown(name, value, f"a list of at most {REPLICAS_MAX} brokers")
        if any(type(each) is not int or not 0 <= each <= ID_MAX for each in value):
            raise self.unknown(name, value, f"brokers from 0 to {ID_MAX}")
        if len(set(value)) != len(value):
            raise self.unknown(name, value, "each broker once")
        return tuple(value)
