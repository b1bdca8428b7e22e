"""In a cluster: markers go to the leaders of the partitions, this broker or others.

One that could not be written is tried again, at whoever leads the partition by then, until it is,
or the topic is no more. A request is waited for as long as whom it went to leads: a leader that is
slow must not find an old marker in a later transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from appliance.errors import ApplianceError, NotLeader, Refused
from appliance.protocol import ErrorCode
from appliance.txn.markers import Marker
from appliance.txn.transaction import Partition

LOOK_S = 0.1  # whether it still leads

Codes = Mapping[Partition, int]

# Where a later epoch wrote, somebody else has ended this transaction.
WRITTEN = frozenset({0, int(ErrorCode.INVALID_PRODUCER_EPOCH)})


class Leaders(Protocol):
    def leader_of(self, place: Partition) -> int | None:
        """-1: nobody leads it now. None: there is no such partition, or no longer."""
        ...

    async def write_markers(
        self, node: int, marker: Marker, places: Collection[Partition]
    ) -> Codes:
        """At that broker, this one or another."""
        ...


async def write_at_leaders(
    leaders: Leaders, marker: Marker, places: Iterable[Partition]
) -> tuple[frozenset[Partition], ApplianceError | None]:
    """Those that need none any more, and why the first of the others has none."""
    by_node: dict[int, list[Partition]] = {}
    done: set[Partition] = set()
    failure: ApplianceError | None = None
    for place in places:
        node = leaders.leader_of(place)
        if node is None:  # a topic that was deleted needs none
            done.add(place)
        elif node < 0:
            failure = NotLeader(f"{place.topic}-{place.partition} has no leader now")
        else:
            by_node.setdefault(node, []).append(place)
    asked = [_write(leaders, node, marker, own) for node, own in by_node.items()]
    for found in await asyncio.gather(*asked):
        if isinstance(found, ApplianceError):
            failure = failure or found
            continue
        for place, code in found.items():
            if code in WRITTEN:
                done.add(place)
            else:
                failure = failure or _failed(place, code)
    return frozenset(done), failure


async def _write(
    leaders: Leaders, node: int, marker: Marker, places: list[Partition]
) -> Codes | ApplianceError:
    asking = asyncio.ensure_future(leaders.write_markers(node, marker, places))
    try:
        while not asking.done():
            await asyncio.wait({asking}, timeout=LOOK_S)
            if not asking.done() and all(leaders.leader_of(each) != node for each in places):
                return NotLeader(f"broker {node} leads none of the partitions any more")
        return asking.result()
    except ApplianceError as error:
        return error
    finally:
        asking.cancel()


def _failed(place: Partition, code: int) -> ApplianceError:
    known = {int(each): each.name for each in ErrorCode}.get(code, str(code))
    return Refused(code, f"{place.topic}-{place.partition}: its leader answered {known}")
