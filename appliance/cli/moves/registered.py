"""Brokers as they are registered in ZooKeeper: where these commands come to them, and what each
says of itself."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.client.connection import Address
from appliance.cluster import forms, paths
from appliance.cluster.forms import FormUnknown, LivingBroker
from appliance.config import Ensemble
from appliance.process.exit_codes import FAILED, NOT_FOUND, REFUSED, Failed
from appliance.zookeeper.cluster import ReadTree, connected, explained, is_number
from appliance.zookeeper.nodes import IDS, TOPICS

ZOOKEEPER_S = 10.0
HOW = ("login and TLS are given with --set, as in --set security.protocol=SASL_SSL --set "
       "sasl.username=U --set sasl.password.file=FILE, and --listener NAME takes another "
       "listener")  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """A broker that is registered."""

    id: int
    address: Address
    rack: str
    life: int
    reasons: tuple[str, ...] = ()  # why it cannot follow others, by its own word


@dataclass(frozen=True)
class Way:
    """By which listener to come: the first of the protocol that is spoken, or the one named."""

    protocol: str  # security.protocol
    listener: str = ""

    def to(self, broker: LivingBroker) -> Address:
        of = {each.name: broker.protocols.of(each.name) for each in broker.listeners}
        for each in broker.listeners:
            if of[each.name] == self.protocol and self.listener in ("", each.name):
                return Address(each.address.host, each.address.port)
        wanted = f"{self.listener} with {self.protocol}" if self.listener else f"{self.protocol}"
        there = ", ".join(f"{name} ({of[name]})" if of[name] != name else name for name in of)
        raise Failed(
            f"broker {broker.node_id} has no listener {wanted}, it has {there}: {HOW}", REFUSED
        )


def registered(ensemble: Ensemble, way: Way) -> tuple[dict[int, Seen], set[str]]:
    """By their ids; and the topics that ZooKeeper has."""
    with connected(ensemble, ZOOKEEPER_S) as client, explained(str(ensemble)):
        tree = ReadTree(client, ensemble.root, ZOOKEEPER_S)
        names = sorted(filter(is_number, tree.children_of(IDS)), key=int)
        topics = {*tree.children_of(TOPICS)}
        nodes = tree.contents(f"{IDS}/{each}" for each in names)
        words = tree.contents(paths.reasons(int(each)) for each in names)
    found = {}
    for each in names:
        broker = _broker(int(each), nodes.get(f"{IDS}/{each}", b""), ensemble)
        reasons = _reasons(paths.reasons(broker.node_id), words)
        found[broker.node_id] = Seen(
            broker.node_id, way.to(broker), broker.rack, broker.life, reasons
        )
    if not found:
        raise Failed(f"no broker is registered in {ensemble}", NOT_FOUND)
    return found, topics


def _broker(node_id: int, data: bytes, ensemble: Ensemble) -> LivingBroker:
    try:
        found = forms.broker_from(data, node_id, f"{IDS}/{node_id}")
    except FormUnknown as error:
        raise Failed(f"{error}: wanted brokers of one cluster", FAILED) from error
    if not found.life:
        raise Failed(f"broker {node_id} in {ensemble} is one of no cluster: wanted brokers with "
                     "zookeeper.format=cluster", REFUSED)  # fmt: skip
    return found


def _reasons(where: str, words: dict[str, bytes]) -> tuple[str, ...]:
    """Anybody may have written there, and brokers are shown all the same."""
    try:
        return (*forms.reasons_from(words[where], where),) if where in words else ()
    except FormUnknown as error:
        return (str(error),)
