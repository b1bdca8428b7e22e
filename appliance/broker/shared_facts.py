"""A cluster's facts on this broker: users, access rules, quotas, settings, tokens. What others
change is taken into the catalog and memory, and what is changed here is in ZooKeeper first.

    never joined   the facts here are the broker's own. They become the cluster's if that has none,
                   else the cluster's take their place, and a copy of the catalog is kept
    joined         the catalog has a copy of the cluster's, which holds while ZooKeeper is away
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from kazoo.exceptions import ConnectionClosedError, KazooException

from appliance.broker.broker import Broker
from appliance.catalog.fact_rows import BEFORE, FactRows
from appliance.catalog.facts import Owner, Stale, Value, Values
from appliance.cluster.cluster import Cluster
from appliance.cluster.fact_nodes import NOTHING, Found, Root, refused_by
from appliance.cluster.session import AWAY
from appliance.errors import ApplianceError, Refused
from appliance.process import event_log
from appliance.protocol.errors import ErrorCode

log = event_log.named("cluster")
TRIES_MAX = 20
AGAIN_S, AWAY_S = 1.0, 0.05
# Not what somebody has set for the cluster: made by each broker, or for one broker.
OWN_KINDS = frozenset({"secrets", "brokers"})
Result = TypeVar("Result")


class SharedFacts:
    """`Facts.cluster`. Everything here runs in a turn of the broker's changes."""

    def __init__(
        self, broker: Broker, cluster: Cluster, on_followed: Callable[[], None]
    ) -> None:
        """`on_followed` is called once who may do what here is what the cluster says, or was when
        it was last heard."""
        self.trouble = ""  # why this broker does not follow the cluster's
        self._on_followed = on_followed
        self.was_looked_at = asyncio.Event()  # the cluster's, for once
        self._broker, self._cluster = broker, cluster
        self._nodes = cluster.facts
        self._rows = FactRows(broker.catalog)
        self._joined = self._rows.cluster()  # whose copy this is; "": these are its own
        self._owners: dict[str, Owner] = {each.kind: each for each in broker.owners_of_facts()}
        self._root = NOTHING  # whose change is applied here
        self._session = 0  # in which everything was read
        self._is_ahead = False  # something is in ZooKeeper, and perhaps not here

    @property
    def troubles(self) -> Mapping[str, str]:
        return self._nodes.troubles

    def on_session(self) -> None:
        self._nodes.wake()

    # Followed

    async def keep(self) -> None:
        while True:
            await self._nodes.woken.wait()
            self._nodes.woken.clear()
            with suppress(ConnectionClosedError):
                await self._nodes.session.connected()
            if self._cluster.life:  # else it is not known which cluster this is
                await self._look()

    async def _look(self) -> None:
        error = await self._broker.change(self._caught_up())
        if not isinstance(error, (Stale, *AWAY)):
            self.was_looked_at.set()
        if isinstance(error, Stale):
            self._nodes.wake()
        elif isinstance(error, AWAY):
            await asyncio.sleep(AWAY_S)
            self._nodes.wake()
        elif error is not None:
            await self._failed(error)

    async def _caught_up(self) -> Exception | None:
        """What kept it from that: nobody may be there to hear of it when the broker stops."""
        try:
            await self._catch_up()
        except (KazooException, ApplianceError, Stale) as error:
            return error
        return None

    async def _failed(self, error: Exception) -> None:
        text = str(error) or repr(error)
        if self.trouble != text:
            log.error("users, rules and settings are not as the cluster has them", error=error)
        self.trouble, self._session = text, 0
        if self._joined:
            self._on_followed()  # by the copy that it has
        await asyncio.sleep(AGAIN_S)
        self._nodes.wake()

    async def _catch_up(self) -> None:
        number = self._nodes.session.number
        root = await self._nodes.root()
        if self._joined:
            self._check_cluster(root)
        if not self._joined:
            root = await self._join(root)
        elif number != self._session or self._is_ahead or root.folder != self._root.folder:
            await self._take_all(root)
        elif root.number != self._root.number:
            await self._take_changes(root)
        self._root, self._session, self._is_ahead = root, number, False
        self.trouble = ""
        self._on_followed()

    def _check_cluster(self, root: Root) -> None:
        there = "none" if root == NOTHING else self._cluster.cluster_id
        if there != self._joined:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                f"the users, rules and settings here are a copy of those of cluster {self._joined} "
                f"and this ZooKeeper has {there}: nothing is changed here",
            )

    async def _take_changes(self, root: Root) -> None:
        places = root.since(self._root.number)
        if places is None:
            await self._take_all(root)
            return
        values: dict[str, dict[str, Value | None]] = {}
        for (kind, name), value in (await self._nodes.read(root, places)).items():
            values.setdefault(kind, {})[name] = value
        for kind in self._owners:
            await self._take(root, kind, values.get(kind, {}))

    async def _take_all(self, root: Root) -> None:
        found = await self._nodes.read_all(root, self._owners)
        for kind in self._owners:
            # on a thread: there may be many, and nobody else changes them meanwhile
            if kind == "users":
                await self._publish_changed_users(root, found[kind])
            differing = await asyncio.to_thread(self._differing, root, kind, found[kind])
            await self._take(root, kind, differing)
        await self._mend(root, found)

    async def _publish_changed_users(self, root: Root, there: Mapping[str, Value]) -> None:
        """Somebody has changed them in this copy, and is who may: that is the way back in for who
        has lost the last password."""
        names = await asyncio.to_thread(self._rows.changed_users)
        if not names:
            return
        own = self._owners["users"].facts()
        news = {name: own.get(name) for name in names if own.get(name) != there.get(name)}
        if news:
            await self._nodes.write(root, "users", news, is_secret=True)
            log.warning("the cluster has the users that were changed here offline", users=[*news])
        await asyncio.to_thread(self._rows.forget_changed_users)
        if news:
            raise Stale  # it is read anew

    def _differing(
        self, root: Root, kind: str, wanted: Mapping[str, Value]
    ) -> dict[str, Value | None]:
        here = self._owners[kind].facts()
        if self._nodes.is_unread(root, kind):
            return {}
        gone = [name for name in here if name not in wanted
                and not self._nodes.is_trouble(root, (kind, name))]  # fmt: skip
        other = {name: value for name, value in wanted.items() if here.get(name) != value}
        return {**dict.fromkeys(gone), **other}

    async def _take(self, root: Root, kind: str, values: Values) -> None:
        if values:
            troubles = await self._owners[kind].take(values)
            self._nodes.pass_over(root, kind, troubles)
            log.info("the cluster's", kind=kind, changed=len(values), unusable=len(troubles))

    async def _mend(self, root: Root, found: Found) -> None:
        """Secrets that were written before there was a login, or that were not allowed before."""
        secret = [kind for kind, each in self._owners.items() if each.is_secret]
        if not self._nodes.may_keep_secrets or self._nodes.troubles:
            return
        for kind in secret:
            if await self._nodes.is_open(root, kind):
                folder = await self._nodes.make_set(found, secret)
                await self._nodes.remove_others(await self._nodes.name_set(folder, root))
                log.info("secrets in ZooKeeper are the brokers' alone from now on")
                raise Stale  # it is read anew
        if missing := await self._missing_secrets(found):
            await self._nodes.write(root, "secrets", missing, is_secret=True)
            raise Stale

    async def _missing_secrets(self, found: Found) -> dict[str, Value]:
        await self._broker.login_secrets.make()
        own = self._owners["secrets"].facts()
        return {name: each for name, each in own.items() if name not in found["secrets"]}

    # Joined for the first time

    async def _join(self, root: Root) -> Root:
        if self._nodes.may_keep_secrets:
            await self._broker.login_secrets.make()
        found: Found = {}
        if root != NOTHING:
            found = await self._nodes.read_all(root, self._owners)
        own = self._own()
        is_unset = _is_empty(found) and not self._nodes.troubles
        if root == NOTHING or (is_unset and not _is_empty(own)):
            root = await self._seed(root, own, found)
            await self._remember()
            await self._nodes.read_all(root, self._owners)
            return root
        if not _is_empty(own) and any(own[kind] != found[kind] for kind in {*own} - OWN_KINDS):
            await self._keep_own(own)
        await self._remember()
        await self._publish_own_settings(root, own, found)
        await self._take_all(root)
        return root

    def _own(self) -> Found:
        found = {kind: each.facts() for kind, each in self._owners.items()}
        if not self._nodes.may_keep_secrets:
            found["secrets"] = {}
        for kind, each in self._owners.items():
            if each.is_secret and found[kind]:
                self._nodes.check(NOTHING, kind, {}, is_secret=True)
        return found

    async def _seed(self, root: Root, own: Found, found: Found) -> Root:
        """A setting of one broker stays where it has none of its own here."""
        values = {kind: {**found.get(kind, {}), **each} for kind, each in own.items()}
        secret = [kind for kind, each in self._owners.items() if each.is_secret]
        folder = await self._nodes.make_set(values, secret)
        root = await self._nodes.name_set(folder, root)
        await self._nodes.remove_others(root)
        counts = {kind: len(each) for kind, each in own.items() if each}
        log.info("the cluster has this broker's users, rules and settings", **counts)
        return root

    async def _keep_own(self, own: Found) -> None:
        await asyncio.to_thread(self._rows.keep_copy)
        counts = {kind: len(each) for kind, each in own.items() if each}
        log.warning("the cluster's users, rules and settings take the place of this broker's own, "
                    f"of which {BEFORE} has a copy", **counts)  # fmt: skip

    async def _publish_own_settings(self, root: Root, own: Found, found: Found) -> None:
        name = str(self._broker.node_id)
        if name in own["brokers"] and name not in found["brokers"]:
            values = {name: own["brokers"][name]}
            await self._nodes.write(root, "brokers", values, is_secret=False)
            raise Stale

    async def _remember(self) -> None:
        await asyncio.to_thread(self._rows.set_cluster, self._cluster.cluster_id)
        self._joined = self._cluster.cluster_id

    # Changed here

    async def tried(self, job: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        for _ in range(TRIES_MAX):
            try:
                await self._ready()
                result = await job()
                self._is_ahead = False
                return result
            except Stale:
                continue
            except KazooException as error:
                raise refused_by(error, "a change of the cluster's facts") from error
            finally:
                if self._is_ahead:  # the job did not come to its end
                    self._nodes.wake()
        raise Refused(ErrorCode.REQUEST_TIMED_OUT, "other brokers' changes were always faster")

    async def _ready(self) -> None:
        if not self._nodes.session.is_connected or not self._cluster.life:
            raise Refused(
                ErrorCode.REQUEST_TIMED_OUT,
                f"ZooKeeper is {self._cluster.status}: users, rules and settings of the cluster "
                "are not changed without it",
            )
        await self._catch_up()

    async def publish(self, kind: str, values: Values) -> None:
        owner = self._owners[kind]
        self._root = await self._nodes.write(self._root, kind, values, owner.is_secret)
        self._is_ahead = True  # until it is done here, too


def _is_empty(found: Found) -> bool:
    return not any(each for kind, each in found.items() if kind not in OWN_KINDS)
