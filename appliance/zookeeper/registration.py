"""This broker's registration in ZooKeeper, for clients that look for brokers there.

One task writes the broker's state into ZooKeeper in rounds: the broker's own node, then its topics.
It wakes when a topic changes, a connection or session begins, or our own node changes; after a
refused round it retries from time to time. The next round does what a round did not finish, or did
in a session that has ended.

    connected   nodes follow the broker
    away        no connection. The broker serves; the nodes stay as long as the session
    refused     another broker has our id, or the nodes are not ours to change. The broker serves,
                except at its start, which a taken id ends

A broker that restarts within the session's timeout recognises its nodes: `zookeeper.session` in
the data directory names the session whose nodes are its own. See
docs/decisions/zookeeper.md.

kazoo has its own threads. Its callbacks only pass a function to the event loop; calls that wait for
ZooKeeper run on another thread, with copies. Nothing else is shared.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    SessionExpiredError,
    WriterNotClosedException,
)
from kazoo.protocol.states import WatchedEvent
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from appliance.config import SettingInvalid, ZooKeeperConfig
from appliance.config.listeners import Listeners, Protocols
from appliance.errors import ApplianceError
from appliance.process import event_log, owner_only
from appliance.zookeeper.cluster import brokers_in
from appliance.zookeeper.cluster_health import ClusterUnread, RegisteredBroker
from appliance.zookeeper.consumer_nodes import ConsumerNodes
from appliance.zookeeper.login import login_of
from appliance.zookeeper.nodes import FORMS, Form, Node, NodeIdTaken, Tree
from appliance.zookeeper.tls import tls_of, trouble_with

log = event_log.named("zookeeper")

SESSION_FILE = "zookeeper.session"
RECONNECT_MAX_S = 2.0  # between two attempts: short, to notice a returning ZooKeeper
AWAY = (ConnectionLoss, ConnectionClosedError, SessionExpiredError)  # a change of state follows


@dataclass(frozen=True)
class Identity:
    """The broker to register."""

    node_id: int
    cluster_id: str
    listeners: Listeners  # as clients are told
    protocols: Protocols
    data_dir: Path


@dataclass(frozen=True)
class Round:
    """The task of one round; the thread's own copy."""

    session: int
    sessions: frozenset[int]  # this and earlier ones, whose nodes may still exist
    is_new_session: bool
    broker: Node
    wanted: Mapping[str, Node]
    written: Mapping[str, Node]  # our nodes that may exist


class Registration:
    """A table of topics that passes changes to ZooKeeper. Lives on the event loop."""

    def __init__(self, config: ZooKeeperConfig, us: Identity) -> None:
        self.config, self.us = config, us
        if config.format not in FORMS:
            raise SettingInvalid(f"zookeeper.format: {config.format} is not of a single broker")
        self.form: Form = FORMS[config.format](us.node_id, us.cluster_id)
        self.is_connected = False
        self.changed = time.monotonic()  # when the connection began or ended
        self.refusal: Exception | None = None
        self._topics: dict[str, list[Node]] = {}
        self._written: dict[str, Node] = {}
        self._session: int | None = None  # the session of `_written`
        self._sessions = remembered(us.data_dir)
        self._wake = asyncio.Event()
        self._is_closing = False
        self._settled = asyncio.Event()  # set when we know who has our id
        self._loop = asyncio.get_running_loop()
        is_ours = config.has_login
        self._acl = (*CREATOR_ALL_ACL, *READ_ACL_UNSAFE) if is_ours else (*OPEN_ACL_UNSAFE,)
        self._client = client(config)
        self._client.add_listener(self._on_state)

    # called by the server

    async def start(self) -> None:
        """Returns when the broker is registered, or when ZooKeeper does not answer in time; a
        taken id is an error."""
        self._client.start_async()
        self._task = asyncio.create_task(self._keep())
        timeout_ms = self.config.connection_timeout_ms
        try:
            await asyncio.wait_for(self._settled.wait(), timeout_ms / 1000)
        except asyncio.TimeoutError:
            why = await asyncio.to_thread(trouble_with, self.config)
            log.warning("away: the broker serves and registers later", waited_ms=timeout_ms,
                        **({"error": why} if why else {}))  # fmt: skip
        if isinstance(self.refusal, NodeIdTaken):
            await self.close()
            raise self.refusal

    async def close(self) -> None:
        """Ends the session, which removes our nodes."""
        self._is_closing = True
        self._wake.set()
        try:
            await asyncio.to_thread(self._client.stop)
            self._client.close()
        except WriterNotClosedException as error:
            log.warning("not closed: our nodes stay until the session times out", error=error)
        await self._task

    @property
    def status(self) -> str:
        if self.refusal:
            return "refused"
        if self.is_connected:
            return "connected"
        return f"away for {time.monotonic() - self.changed:.0f} s"

    @property
    def consumers(self) -> ConsumerNodes:
        """Groups below our path, in our session."""
        config = self.config
        return ConsumerNodes(
            self._client, config.ensemble.root, self.us.node_id, self.form.has_persistent,
            config.session_timeout_ms / 1000,
        )  # fmt: skip

    def brokers(self) -> list[RegisteredBroker]:
        """All of our path. Waits for ZooKeeper: for a thread."""
        if not self._client.connected:
            raise ClusterUnread("ZooKeeper is away")
        config = self.config
        timeout_s = config.session_timeout_ms / 1000
        return brokers_in(self._client, config.ensemble.root, timeout_s)

    # called by the broker

    def put_topic(
        self,
        name: str,
        topic_id: bytes,
        logs: Sequence[object],
        is_internal: bool,
        mirror_source: str,
        leaders: Sequence[tuple[int, int] | None] = (),
    ) -> None:
        if not is_internal:
            self._topics[name] = self.form.topic(name, len(logs))
            self._wake.set()

    def remove_topic(self, name: str) -> None:
        if self._topics.pop(name, None) is not None:
            self._wake.set()

    # called by kazoo's threads

    def _on_state(self, state: str) -> None:
        self._loop.call_soon_threadsafe(self._follow, state)

    def _on_node(self, event: WatchedEvent) -> None:
        self._loop.call_soon_threadsafe(self._wake.set)

    # on the event loop

    def _follow(self, state: str) -> None:
        if self._is_closing:
            return
        is_connected = state == KazooState.CONNECTED
        if is_connected != self.is_connected:
            self.is_connected, self.changed = is_connected, time.monotonic()
            tell = log.info if is_connected else log.warning
            tell("connected" if is_connected else "away: the broker serves on")
        self._wake.set()

    async def _keep(self) -> None:
        while not self._is_closing:
            # ZooKeeper does not report the end of a refusal
            again_s = self.config.session_timeout_ms / 1000 if self.refusal else None
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._wake.wait(), again_s)
            self._wake.clear()
            identity = self._client.client_id
            if identity is not None and not self._is_closing:
                await self._agree(identity)

    async def _agree(self, identity: tuple[int, bytes]) -> None:
        due = self._round(identity[0])
        try:
            await asyncio.to_thread(self._write, due)
        except AWAY:
            self._session = None
        except (ApplianceError, KazooException) as error:
            self._failed(error, identity)
        except Exception as error:
            log.exception("registration failed unexpectedly")
            self._failed(error, identity)
        else:
            self._agreed(due)

    def _round(self, session: int) -> Round:
        wanted = {node.path: node for nodes in self._topics.values() for node in nodes}
        broker = self.form.broker(self.us.listeners, self.us.protocols)
        is_new = session != self._session
        self._sessions |= {session}
        due = Round(session, self._sessions, is_new, broker, wanted, self._written)
        # until the round has ended well we do not know which of them exist
        self._written = {**self._written, **wanted}
        return due

    def _agreed(self, due: Round) -> None:
        if due.is_new_session:
            log.info(
                "registered", id=self.us.node_id, listeners=self.us.listeners,
                nodes=len(due.wanted), session=f"{due.session:#x}",
            )  # fmt: skip
        self._session, self._sessions = due.session, frozenset({due.session})
        self._written, self.refusal = {**due.wanted}, None

    def _failed(self, error: Exception, identity: tuple[int, bytes]) -> None:
        self._session = None
        if self._client.client_id != identity:
            return  # without its session a round is obsolete; the next session wakes us
        refusal = error
        if not isinstance(error, ApplianceError):
            path = f"{self.config.ensemble.root}/brokers"
            refusal = ApplianceError(f"ZooKeeper refuses our nodes below {path}: {error!r}")
        if str(refusal) != str(self.refusal):
            log.error("not registered", error=refusal)
        self.refusal = refusal
        self._settled.set()

    # on a thread

    def _write(self, due: Round) -> None:
        root = self.config.ensemble.root
        tree = Tree(self._client, root, self._acl, self.form, due.session, due.sessions)
        if due.is_new_session:
            remember(self.us.data_dir, due.sessions)
        tree.claim(due.broker, self._on_node)
        self._loop.call_soon_threadsafe(self._settled.set)
        for path in reversed([*due.written]):
            if path not in due.wanted:
                tree.remove(due.written[path])
        if due.is_new_session:
            tree.sweep(due.wanted)
        tree.put_topics(
            node
            for path, node in due.wanted.items()
            if due.is_new_session or due.written.get(path) != node
        )
        if due.is_new_session:
            remember(self.us.data_dir, {due.session})


def client(config: ZooKeeperConfig) -> KazooClient:
    # our own messages report it; kazoo logs below errors are repetitive and show credentials
    logger = logging.getLogger("appliance.zookeeper.kazoo")
    logger.setLevel(logging.ERROR)
    logger.addFilter(event_log.repeats)
    return KazooClient(
        ",".join(map(str, config.ensemble.servers)),
        timeout=config.session_timeout_ms / 1000,
        connection_retry={"max_tries": -1, "max_delay": RECONNECT_MAX_S},
        logger=logger,
        **login_of(config),
        **tls_of(config),
    )


def remembered(data_dir: Path) -> frozenset[int]:
    """The sessions of our own nodes that may still exist."""
    try:
        text = (data_dir / SESSION_FILE).read_text("ascii")
        return frozenset(int(each, 16) for each in text.split())
    except FileNotFoundError:
        return frozenset()
    except (OSError, ValueError) as error:
        log.warning("former sessions are unknown", file=data_dir / SESSION_FILE, error=error)
        return frozenset()


def remember(data_dir: Path, sessions: Collection[int]) -> None:
    """Not synced: after a power cut the session ends before the machine is up again. Without the
    file a start after a kill may have to wait for that end; a full disk causes this, too."""
    new = data_dir / f"{SESSION_FILE}.new"
    try:
        owner_only.write(new, (" ".join(f"{each:x}" for each in sorted(sessions)) + "\n").encode())
        new.replace(data_dir / SESSION_FILE)
    except OSError as error:
        log.warning("this session cannot be stored", file=new, error=error)
