"""Why a broker cannot follow others, by its own word: a node of its session for who looks at the
cluster as a whole. Its health says the same, to those who reach its admin port; ZooKeeper it has
reached, or it is no broker of the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from kazoo.exceptions import KazooException, NoNodeError

from appliance.cluster import forms, paths
from appliance.cluster.reading import Reading, in_parts, is_id
from appliance.cluster.session import AWAY, Session
from appliance.process import event_log

log = event_log.named("cluster")
Reasons = Sequence[str]
UNKNOWN: tuple[int, Reasons] = (0, ())


class BrokerReasons:
    def __init__(self, session: Session, reading: Reading, node_id: int) -> None:
        self._session, self._reading, self._node_id = session, reading, node_id
        self._told = UNKNOWN  # in which session, and what

    async def tell(self, reasons: Reasons) -> None:
        """Of this broker, as often as one likes: what was told already is not written again."""
        wanted = self._session.number, [*reasons]
        if wanted == self._told or not self._session.is_connected:
            return
        self._told = UNKNOWN  # a part of it may have been done
        try:
            await self._put(reasons)
        except AWAY:
            return
        except KazooException as error:
            log.warning("who looks at the cluster does not see what is wrong here", error=error)
            return
        self._told = wanted

    async def _put(self, reasons: Reasons) -> None:
        """Anew: one of a former session would go with that."""
        where = paths.reasons(self._node_id)
        with suppress(NoNodeError):
            await self._session.delete(where)
        if reasons:
            await self._session.create(where, forms.reasons_node(reasons), ephemeral=True)

    async def of_all(self) -> dict[int, Reasons]:
        """Of those that have any; while ZooKeeper is away nobody's are known."""
        if not self._session.is_connected:
            return {}
        try:
            names = await self._session.children(paths.REASONS)
            self._reading.forget_all_but(paths.REASONS, names)
            nodes = [int(each) for each in names if is_id(each)]
            found = await in_parts(self._of(each) for each in nodes)
        except KazooException:
            return {}
        return dict(zip(nodes, found, strict=True))

    async def _of(self, node_id: int) -> Reasons:
        where = paths.reasons(node_id)
        found = await self._reading.node(where, lambda data, _: forms.reasons_from(data, where))
        return found or ()
