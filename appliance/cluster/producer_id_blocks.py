"""Producer ids in blocks, as Kafka 0.11 to 3.x hands them out: the node has the last block that a
broker took, and whoever wants the next one writes it by the node's version. So no id is given
twice, whichever broker is asked; a block whose broker dies, or whose answer was lost, is lost."""

from __future__ import annotations

import json

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from appliance.cluster import paths
from appliance.cluster.forms import FormUnknown
from appliance.cluster.session import ChangeRefused, Session

BLOCK = 1000
END_MAX = 2**63 - 1 - BLOCK


async def take(session: Session, node_id: int) -> range:
    while True:
        try:
            data, stat = await session.get(paths.PRODUCER_IDS)
        except NoNodeError:
            data, stat = b"", None
        first = last_in(data) + 1
        taken = block_node(node_id, first)
        change = session.change()
        if stat is None:
            change.create(paths.PRODUCER_IDS, taken)
        else:
            change.set(paths.PRODUCER_IDS, taken, stat.version)
        try:
            await change.commit()
        except ChangeRefused as refused:
            if not isinstance(refused.error, (BadVersionError, NodeExistsError)):
                raise
            continue  # another broker was faster
        return range(first, first + BLOCK)


async def skip_to(session: Session, node_id: int, next_id: int) -> None:
    """Those below were given before there was a cluster."""
    while next_id > 0:
        try:
            data, stat = await session.get(paths.PRODUCER_IDS)
        except NoNodeError:
            data, stat = b"", None
        if last_in(data) + 1 >= next_id:
            return
        taken, change = block_node(node_id, max(0, next_id - BLOCK)), session.change()
        if stat is None:
            change.create(paths.PRODUCER_IDS, taken)
        else:
            change.set(paths.PRODUCER_IDS, taken, stat.version)
        try:
            await change.commit()
        except ChangeRefused as refused:
            if not isinstance(refused.error, (BadVersionError, NodeExistsError)):
                raise


def block_node(node_id: int, first: int) -> bytes:
    fields = {"version": 1, "broker": node_id, "block_start": str(first),
              "block_end": str(first + BLOCK - 1)}  # fmt: skip
    return json.dumps(fields, separators=(",", ":")).encode()


def last_in(data: bytes) -> int:
    """The last id that was given; -1: none was."""
    if not data:
        return -1
    try:
        last = int(json.loads(data)["block_end"])
    except (ValueError, KeyError, TypeError, RecursionError):
        last = -1
    if not 0 <= last < END_MAX:
        raise FormUnknown(
            f"{paths.PRODUCER_IDS} in ZooKeeper: wanted the block of producer ids that was given "
            f"last, got {data[:100]!r}"
        )
    return last
