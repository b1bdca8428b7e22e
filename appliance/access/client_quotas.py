"""Quotas of clients as in Kafka, and the quota that applies to a client.

An entity is a user, a client id, both, or an address. Each has a name or None, the default for all
without a quota of their own. Of the entities that match a client the first in this order applies:

    user and client id · user and any client · user · any user and client id · any user and any
    client · any user · client id · any client

A quota with a client id applies to each client id separately; a quota of a user is shared by all
clients of the user. The user is who the client logged in as, ANONYMOUS where there are no logins.

Enforced, by the data plane (`_quota.pyx`): producer_byte_rate and consumer_byte_rate, and
connection_creation_rate of addresses. Others are stored and shown without effect.
"""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

from appliance.access.kept_per_address import Kept, check_name
from appliance.catalog.config_rows import ConfigRows
from appliance.catalog.facts import Facts, FactUnusable, Troubles, Value, Values, readable
from appliance.config import LONG_MAX
from appliance.config.config_key import INT_MAX
from appliance.errors import ApplianceError, Refused, RequestInvalid
from appliance.process import event_log
from appliance.protocol import ErrorCode

events = event_log.named("client_quotas")

USER, CLIENT_ID, IP = "user", "client-id", "ip"
ANY = None  # the name of a default

PRODUCE, FETCH, CONNECT = range(3)  # as `_quota.pxd` numbers them
ENFORCED = {
    PRODUCE: "producer_byte_rate",
    FETCH: "consumer_byte_rate",
    CONNECT: "connection_creation_rate",
}
# The largest value by name; quotas without one may be fractions.
OF_CLIENTS = {
    "producer_byte_rate": LONG_MAX,
    "consumer_byte_rate": LONG_MAX,
    "request_percentage": math.inf,
    "controller_mutation_rate": math.inf,
}
OF_ADDRESSES = {"connection_creation_rate": INT_MAX}
FRACTION_MAX = 1e-6  # Kafka's tolerance for a whole number

SHOWN_MAX = 10  # entities per log line

# The place of an entity in the order above, as `_quota.pxd` numbers them: of user and client id,
# which are named (True), stand for any (False) or are not in it (None).
PRECEDENCE: dict[tuple[bool | None, bool | None], int] = {
    (True, True): 0,
    (True, False): 1,
    (True, None): 2,
    (False, True): 3,
    (False, False): 4,
    (False, None): 5,
    (None, True): 6,
    (None, False): 7,
}
RATE_MAX = 1 << 62  # no arithmetic with this many bytes overflows

# The name by entity type, sorted by type; the key of all tables here.
Entity = tuple[tuple[str, str | None], ...]


class Match(IntEnum):
    """As DescribeClientQuotas numbers them."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


@dataclass(frozen=True)
class Component:
    """One component of a filter: entities must have this type and match this name."""

    entity_type: str
    match_type: int
    match: str | None

    def check(self) -> None:
        if self.entity_type not in (USER, CLIENT_ID, IP):
            if not self.entity_type:
                raise RequestInvalid("got an empty entity type")
            text = f"got entity type {self.entity_type!r}"
            raise Refused(ErrorCode.UNSUPPORTED_VERSION, text)
        if self.match_type not in set(Match):
            raise RequestInvalid(f"got match type {self.match_type}, wanted 0, 1 or 2")
        if (self.match is not None) != (self.match_type == Match.EXACT):
            raise RequestInvalid(
                f"got match {self.match!r} for match type {self.match_type}, wanted a name for "
                f"{int(Match.EXACT)} (exact) only"
            )

    def fits(self, entity: Mapping[str, str | None]) -> bool:
        is_typed = self.entity_type in entity
        return (is_typed and self.match_type == Match.SPECIFIED) or (
            is_typed and entity[self.entity_type] == self.match
        )


@dataclass(frozen=True)
class Alteration:
    """The changes of one entity: a value by name, or None to remove it."""

    entity: Sequence[tuple[str, str | None]]
    values: Sequence[tuple[str, float | None]]

    def check(self) -> Entity:
        names = _quotas_of(self.entity)
        seen = set()
        for name, value in self.values:
            if name in seen:
                raise RequestInvalid(f"{name}: changed twice for one entity")
            seen.add(name)
            if value is not None:
                _check_value(name, value, names)
        return tuple(sorted(self.entity))


def _quotas_of(entity: Sequence[tuple[str, str | None]]) -> Mapping[str, float]:
    """The names and largest values that the entity may have; refuses an invalid entity."""
    types = [each for each, _ in entity]
    if not types:
        raise RequestInvalid("got an entity without a type")
    for each, name in entity:
        if each not in (USER, CLIENT_ID, IP) or types.count(each) > 1:
            fault = "twice" if types.count(each) > 1 else "is unknown"
            raise RequestInvalid(f"entity type {each!r} {fault}")
        if name == "":
            raise RequestInvalid(f"the name of the {each} is empty")
        check_name(each, name)
    if IP not in types:
        return OF_CLIENTS
    if len(types) > 1:
        raise RequestInvalid(f"got {' and '.join(types)}, wanted an ip alone")
    if entity[0][1] is not None and _address(entity[0][1]) is None:
        raise RequestInvalid(f"got ip {entity[0][1]!r}, wanted an address, not a name")
    return OF_ADDRESSES


def _check_value(name: str, value: float, names: Mapping[str, float]) -> None:
    if name not in names:
        raise RequestInvalid(f"got quota {name!r}, wanted one of {', '.join(names)}")
    most = names[name]
    if not 0 < value <= most:  # nor NaN
        raise RequestInvalid(f"{name}: got {value}, wanted more than 0 and at most {most}")
    if most < math.inf and math.fmod(value, 1) > FRACTION_MAX:
        raise RequestInvalid(f"{name}: got {value}, wanted a whole number")


def _address(text: str) -> str | None:
    """The address in the data plane's format."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None


# Precedence, user, client id or address ("" where there is none), rate
Rate = tuple[int, str, str, int]


class RateTable(Protocol):
    """All rates of one kind, for the data plane."""

    def set_rates(self, kind: int, rates: list[Rate]) -> None: ...


class ClientQuotas:
    """All quotas, in memory and in the catalog. `change` runs one change after the other."""

    kind, is_secret = "quotas", False

    def __init__(self, rows: ConfigRows[str, float], change: Facts, kept: Kept) -> None:
        self._rows = rows
        self._change = change
        self._kept = kept
        self._data_plane: RateTable | None = None
        self._quotas = {_entity_of(text): values for text, values in rows.all().items()}
        for entity in self._quotas:
            kept.put(entity, len(_text_of(entity)))

    def connect(self, data_plane: RateTable) -> None:
        self._data_plane = data_plane
        if self._quotas:
            self._enforce()

    def find(
        self, components: Sequence[Component], is_strict: bool
    ) -> list[tuple[Entity, dict[str, float]]]:
        """Entities that match all components; if strict, without other types."""
        types = [each.entity_type for each in components]
        for each in components:
            if types.count(each.entity_type) > 1:
                raise RequestInvalid(f"entity type {each.entity_type!r} occurs twice")
            each.check()
        if IP in types and len(types) > 1:
            raise RequestInvalid(f"got {' and '.join(types)}, wanted an ip alone")
        return [
            (entity, values)
            for entity, values in sorted(self._quotas.items(), key=lambda each: repr(each[0]))
            if (not is_strict or len(entity) == len(components))
            and all(each.fits(dict(entity)) for each in components)
        ]

    async def alter(
        self, alterations: Sequence[Alteration], validate_only: bool
    ) -> list[ApplianceError | None]:
        """Returns the result of each in order. An error of one entity does not stop others."""
        faults: list[ApplianceError | None] = []
        try:
            await self._change(lambda: self._alter(alterations, validate_only, faults))
        except ApplianceError as error:
            known = faults or [None for _ in alterations]
            return [fault or error for fault in known]
        return faults

    async def _alter(
        self, alterations: Sequence[Alteration], validate_only: bool,
        faults: list[ApplianceError | None],
    ) -> None:  # fmt: skip
        faults.clear()  # of a former try
        after: dict[Entity, dict[str, float]] = {}
        for each in alterations:
            try:
                entity = each.check()
                if entity in after:
                    raise RequestInvalid("the entity is altered twice in one request")
                after[entity] = _altered(self._quotas.get(entity, {}), each.values)
            except ApplianceError as error:
                faults.append(error)
            else:
                faults.append(None)
        if not after or validate_only:
            return
        new = [each for each in after if after[each] and each not in self._quotas]
        self._kept.check("", sum(len(_text_of(each)) for each in new), len(new))
        await self._publish(after)
        await self._apply(after)

    async def _publish(self, after: Mapping[Entity, dict[str, float]]) -> None:
        await self._change.publish(self.kind, {
            _text_of(entity): {"quotas": values} if values else None
            for entity, values in after.items()
        })  # fmt: skip

    async def _apply(self, after: Mapping[Entity, dict[str, float]]) -> None:
        rows = {_text_of(entity): values for entity, values in after.items()}
        await asyncio.to_thread(self._rows.set, rows)
        self._quotas |= after
        self._quotas = {entity: each for entity, each in self._quotas.items() if each}
        for entity, values in after.items():
            if values:
                self._kept.put(entity, len(_text_of(entity)))
            else:
                self._kept.drop(entity)
        self._enforce()
        events.info("client quotas altered", count=len(rows), quotas=some_of(rows))
        without = {_text_of(entity): names for entity, values in after.items()
                   if (names := [each for each in values if each not in ENFORCED.values()])}
        if without:
            events.warning(
                "quotas are kept but have no effect", count=len(without), quotas=some_of(without)
            )

    # As one of a cluster's facts

    def facts(self) -> dict[str, Value]:
        return {_text_of(entity): {"quotas": {**each}} for entity, each in self._quotas.items()}

    async def take(self, values: Values) -> Troubles:
        good, troubles = readable(values, _read)
        if good:
            await self._apply({_entity_of(text): each or {} for text, each in good.items()})
        return troubles

    # For the data plane

    def _enforce(self) -> None:
        if self._data_plane is None:
            return
        for kind, quota in ENFORCED.items():
            found = (
                _rate_of(dict(entity), values[quota])
                for entity, values in self._quotas.items()
                if quota in values
            )
            self._data_plane.set_rates(kind, list(found))


def _rate_of(entity: dict[str, str | None], value: float) -> Rate:
    """An address takes the place of a client id."""
    if IP in entity:
        name = entity[IP]
        entity = {CLIENT_ID: name if name is None else _address(name) or name}
    user, client = (None if each not in entity else entity[each] is not ANY
                    for each in (USER, CLIENT_ID))  # fmt: skip
    rate = max(1, int(min(value, RATE_MAX)))
    return PRECEDENCE[user, client], entity.get(USER) or "", entity.get(CLIENT_ID) or "", rate


def some_of(rows: Mapping[str, Any]) -> dict[str, Any]:
    """As many quotas as a log line can hold."""
    return dict(itertools.islice(rows.items(), SHOWN_MAX))


def _altered(
    values: Mapping[str, float], changes: Iterable[tuple[str, float | None]]
) -> dict[str, float]:
    after = {**values, **{name: value for name, value in changes if value is not None}}
    for name, value in changes:
        if value is None:
            after.pop(name, None)
    return after


def _text_of(entity: Entity) -> str:
    return json.dumps(dict(entity), ensure_ascii=False)


def _read(text: str, value: Value) -> dict[str, float]:
    found = {name: float(each) for name, each in value["quotas"].items()}
    if _text_of(Alteration(_entity_of(text), [*found.items()]).check()) != text:
        raise FactUnusable("another name was wanted for this entity")
    return found


def _entity_of(text: str) -> Entity:
    return tuple(sorted(json.loads(text).items()))
