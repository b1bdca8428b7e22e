"""One broker process: opens the data directory, keeps its timers, serves the admin pages, stops.

    starting   admin listens, so that a supervisor sees life while the logs are recovered
    serving    Kafka clients and readers of bulk data are let in, ZooKeeper is told if there is one;
               ready line on stdout, sd_notify READY; retention and compaction by timer
    stopping   ZooKeeper is told, clients get the answers that are due, timers end, logs are closed
               with a clean mark, the admin pages last

The control plane runs on one asyncio thread; what touches the disk runs on threads beside it, and
the data plane has threads of its own (`_data_plane.pyx`).
"""

from __future__ import annotations

import asyncio
import secrets
import shlex
import signal
import sys
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
)
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiohttp import web

from appliance import admin_http
from appliance.access.user_rows import has_users
from appliance.alerts.alerts import Alerts
from appliance.api.dispatch import Dispatcher
from appliance.broker import in_zookeeper
from appliance.broker.broker import Broker
from appliance.broker.health import Health, PortConnections, Watch, decide, sentence
from appliance.broker.limits_of_start import (
    tell_of_memory,
    tell_of_root,
    threads_of,
    within_descriptors,
)
from appliance.bulk_http.listener import Listener
from appliance.catalog.catalog import NAME as CATALOG
from appliance.certificates.https import Https
from appliance.config import Address, BrokerConfig
from appliance.config.dynamic_broker_config import CLEANER_BACKOFF
from appliance.data_dir import data_format, data_marker
from appliance.data_dir.recovery import RecoveryProgress
from appliance.errors import ApplianceError, ListenFailed
from appliance.machine import limits
from appliance.network._data_plane import DataPlane
from appliance.network.listener_tls import ListenerTls, tls_of_listeners
from appliance.network.listening_sockets import KafkaListeners, bound
from appliance.process import allocator, core_dumps, event_log, garbage_collector, succession
from appliance.process.detached_tasks import LoggedTasks
from appliance.process.interval import Interval
from appliance.process.stop_signals import stop_signals
from appliance.process.succession import Predecessor
from appliance.process.systemd_notify import notify
from appliance.repair import refused_reads, scrub

if TYPE_CHECKING:
    from appliance.broker.in_cluster import InCluster
    from appliance.zookeeper.registration import Registration

log = event_log.named("server")

LOOPBACK = "127.0.0.1"

# How late lines that came again and again may be told of.
COUNTED_LINES_MS = 5000
# How old the engine's idea of the time may be while the machine's clock is being set.
CLOCK_MS = 1000
# How late a new certificate may be in use. A look is a stat of each file.
CERTIFICATES_MS = 5000


class StartStopped(ApplianceError):
    """A signal came while logs were being opened."""


class Server:
    """The process as the admin pages see it, and the order in which it starts and stops. One that
    is embedded in somebody else's process says nothing on its output, nor to systemd."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        is_embedded: bool = False,
        succeeds: Predecessor | None = None,
    ) -> None:
        self.config = config
        self.is_embedded = is_embedded
        self._succeeds = succeeds
        self.status = "recovering"
        self.recovered = (0, 0)
        event_log.repeats.similar_max = config.log_similar_lines_max
        self.watch = Watch(config.data_dir, config.machine, config.record_dirs)
        self.faults: dict[str, str] = {}  # what a timer's last run failed with, by its name
        self.broker: Broker | None = None
        self.alerts: Alerts | None = None
        self.data_plane: DataPlane | None = None
        self.registration: Registration | InCluster | None = None
        self.cluster: InCluster | None = None  # that this broker is one of
        self._is_to_join = False
        self.kafka_addresses: list[Address] = []  # where clients come in, while they may
        self.admin_address: Address | None = None
        self.has_users = False
        self.setup_secret = ""
        self.export_address: Address | None = None  # of bulk data
        self.https: Https | None = None
        self.kafka_tls: dict[str, ListenerTls] = {}  # by the name of a listener
        self._admin_runner: web.AppRunner | None = None
        self._export: Listener | None = None
        self.started = time.monotonic()
        self.ready = asyncio.Event()
        self.stopping = asyncio.Event()
        self._waited: set[Interval] = set()  # what timers wait for just now
        self._handover = succession.Handover(self.stopping.is_set)
        self._unattended = LoggedTasks(log, "a succession")
        self._moving_pages = asyncio.Lock()

    # what the admin pages ask

    @property
    def connections(self) -> list[PortConnections]:
        """Of the ports of HTTP."""
        runner, export = self._admin_runner, self._export
        found = [] if runner is None else [runner.app[admin_http.CONNECTIONS]]
        return [*found, *([] if export is None else [export.connections])]

    @property
    def alert_faults(self) -> Mapping[str, str]:
        return {} if self.alerts is None else self.alerts.faults

    @property
    def alert_refusals(self) -> Mapping[str, str]:
        return {} if self.alerts is None else self.alerts.refusals

    def health(self) -> Health:
        return decide(self, self.watch)

    # life

    async def run(self, progress: RecoveryProgress) -> None:
        loop = asyncio.get_running_loop()
        # Not the own ones of the loop: they are gone before the process is.
        stop_signals.hold()
        stop_signals.tell(lambda number: loop.call_soon_threadsafe(self._on_signal, number))
        stop_signals.on_succession = lambda: loop.call_soon_threadsafe(self._begin_succession)
        try:
            await self.serve(progress)
        finally:
            stop_signals.tell(None)

    async def serve(self, progress: RecoveryProgress) -> None:
        """From start to stop; `stop` ends it."""
        with event_log.kept():
            try:
                await self._serve(progress)
            except StartStopped:
                pass  # as it was asked to; the next start begins again
            finally:
                event_log.repeats.flush(is_end=True)
        log.info("stopped")

    def check(self) -> None:
        """What keeps a broker from starting, so far as it is known before anything is written."""
        data_marker.check(self.config.data_dir, self.config.data_marker)
        data_format.check(self.config.data_dir)

    async def _serve(self, progress: RecoveryProgress) -> None:
        if not self.is_embedded:
            allocator.tune()
            if not self.config.access.may_dump:
                core_dumps.forbid()
        self.check()
        self.has_users = has_users(self.config.data_dir / CATALOG)
        if not self.is_embedded:
            tell_of_root()
        limits.require(threads_of(self.config), limits.look())
        tell_of_memory(self.config)
        if self.config.admin_has_tls or self.config.export_has_tls:
            self.https = await asyncio.to_thread(Https, self.config.tls)
        runner, self.admin_address = await admin_http.start(
            self, self._guarded(self.config.admin_address)
        )
        self._admin_runner = runner
        watching = asyncio.create_task(self.watch.run(self))
        try:
            self.broker = broker = await asyncio.to_thread(self._open, progress)
            try:
                if not self.stopping.is_set():
                    self._is_to_join = await in_zookeeper.is_to_join(broker)
                    async with (
                        self._clients(broker), self._bulk(runner), self._registered(broker)
                    ):
                        await self.watch.has_looked.wait()
                        await self.watch.look_at_logs(broker)
                        self.alerts = await asyncio.to_thread(Alerts.open, broker)
                        self._announce()
                        await asyncio.gather(*self._timers(broker))
            finally:
                await broker.close()
        finally:
            watching.cancel()
            await runner.cleanup()

    def _open(self, progress: RecoveryProgress) -> Broker:
        def on_progress(done: int, found: int) -> None:
            if self.stopping.is_set():
                raise StartStopped("the start was stopped")
            self.recovered = (done, found)
            progress(done, found)
            # a long recovery is life: systemd's start timeout is pushed on as long as it moves
            status = f"STATUS=recovered {done} of {found} partitions"
            self._notify(f"EXTEND_TIMEOUT_USEC=60000000\n{status}")

        begin = time.monotonic()
        on_progress(0, 0)
        broker = Broker.open(self.config, on_progress)
        took_ms = round((time.monotonic() - begin) * 1000)
        log.info("recovered", partitions=len(broker.log_dir.logs()), ms=took_ms)
        if not self.is_embedded:
            print(broker.log_dir.report.text(), file=sys.stderr)
        return broker

    @asynccontextmanager
    async def _clients(self, broker: Broker) -> AsyncIterator[None]:
        """Kafka clients are served inside, once a cluster is known if this broker is one of it; on
        the way out they get the answers that are due."""
        network = within_descriptors(self.config)
        for each in self.config.listeners:
            if self.config.asks_who(each) and not broker.authorizer.is_enforced:
                raise ListenFailed(f"listeners: got {each}, and no rights are enforced")
        self.kafka_tls = await asyncio.to_thread(tls_of_listeners, self.config)
        listeners = bound([each.address for each in self.config.listeners], self._succeeds)
        if self._succeeds is not None:
            self._succeeds.close_rest()
        names = (str(each.address) for each in self.config.listeners)
        self._handover.sockets = dict(zip(names, listeners, strict=True))
        self.kafka_addresses = [Address(*each.getsockname()[:2]) for each in listeners]
        assert self.admin_address is not None, "the admin pages listen before recovery"
        broker.listens(self.kafka_addresses, self.admin_address)
        self.data_plane = data_plane = DataPlane(network)
        broker.connect(data_plane, network.max_connections)
        dispatcher = Dispatcher(broker, data_plane)
        dispatcher.start()
        contexts = {name: each.context for name, each in self.kafka_tls.items()}
        self._clients_door = door = KafkaListeners(data_plane, listeners, [
            (self.config.asks_login(each), contexts.get(each.name))
            for each in self.config.listeners])  # fmt: skip
        if not self._is_to_join:
            door.open()
        try:
            yield
        finally:
            dispatcher.stop_waiting()
            await asyncio.to_thread(door.close, network.drain_timeout_ms)
            await dispatcher.close()

    @asynccontextmanager
    async def _bulk(self, runner: web.AppRunner) -> AsyncIterator[None]:
        """Who reads bulk data is served inside; on the way out streams may end for a while."""
        services, most = runner.app[admin_http.SERVICES], runner.app[admin_http.CONNECTIONS].most
        https = self.https if self.config.export_has_tls else None
        self._export = export = Listener(services, most, https)
        try:
            wanted = self._guarded(self.config.export_listens)
            self.export_address = await export.listen(wanted)
            yield
        finally:
            self.export_address = self._export = None
            await export.stop()

    @asynccontextmanager
    async def _registered(self, broker: Broker) -> AsyncIterator[None]:
        """ZooKeeper, if there is one, knows the broker inside."""
        if self._is_to_join:
            async with in_zookeeper.joined(broker, self._clients_door.open) as self.cluster:
                self.registration = self.cluster
                yield
            return
        async with in_zookeeper.registered(broker) as self.registration:
            yield

    def _announce(self) -> None:
        self.status = "ok"
        assert self.broker is not None
        self.broker.users.on_change(self._users_changed)
        if not self.is_embedded:
            garbage_collector.tune()
            print(f"ready kafka={self.kafka_addresses[0]} admin={self.admin_address} "
                  f"export={self.export_address} data={shlex.quote(str(self.config.data_dir))}",
                  flush=True)  # fmt: skip
            if (health := self.health()).findings:
                print(sentence(health), file=sys.stderr, flush=True)
        self._offer_setup()
        self._notify("READY=1\nSTATUS=serving")
        self.ready.set()
        self._users_changed()

    def _guarded(self, wanted: Address) -> Address:
        """Without a password whoever reaches a port of HTTP may do everything: then only who is on
        this machine does."""
        if self.has_users or wanted.is_loopback:
            return wanted
        log.warning("nobody has a password for the admin pages: they and bulk data are on loopback "
                    "until one is set", wanted=wanted)
        return Address(LOOPBACK, wanted.port)

    async def has_first_user(self) -> None:
        """From now on a password is asked for, and nothing need hide any more. What cannot be where
        it was meant to be stays on loopback."""
        async with self._moving_pages:
            await self._move_pages()

    def _users_changed(self) -> None:
        """The first one may be another broker's of the cluster, or made by Kafka's tools."""
        assert self.broker is not None
        if self.ready.is_set() and not self.has_users and self.broker.users.of_console():
            self._unattended.run(self.has_first_user())

    async def _move_pages(self) -> None:
        self.has_users = True
        runner, export = self._admin_runner, self._export
        assert runner is not None, "a user was made over these pages"

        async def move_pages(address: Address) -> Address:
            await admin_http.move(runner, address)
            return address

        now, wanted = self.admin_address, self.config.admin_address
        self.admin_address = await moved("the admin pages", move_pages, now, wanted)
        if export is not None:
            now, wanted = self.export_address, self.config.export_listens
            self.export_address = await moved("bulk data", export.listen, now, wanted)
        if self.broker is not None and self.kafka_addresses:
            self.broker.listens(self.kafka_addresses, self.admin_address)

    def _offer_setup(self) -> None:
        """The first user is made by who can read what we print."""
        assert self.broker is not None
        if self.broker.users.of_console():
            return
        self.setup_secret = secrets.token_urlsafe(24)
        if not self.is_embedded:
            scheme = "https" if self.config.admin_has_tls else "http"
            link = f"{scheme}://{self.admin_address}/#/setup/{self.setup_secret}"
            print(f"No password is set for the admin pages. Set one, once: {link}",
                  file=sys.stderr, flush=True)

    def _on_signal(self, number: signal.Signals) -> None:
        log.info("stopping", signal=number.name)
        self.stop()

    def _begin_succession(self) -> None:
        if self.ready.is_set():
            self._unattended.run(self._hand_over())

    async def _hand_over(self) -> None:
        """A new process takes over, or this one goes on."""
        if (pid := await self._handover.begin()) is not None:
            self._notify(f"MAINPID={pid}")
            self.stop()

    def stop(self) -> None:
        """Ends `serve`; on its event loop."""
        self.status = "stopping"
        if self.broker is not None:
            self.broker.scrubber.stop()
        self.stopping.set()
        for interval in self._waited:
            interval.wake()
        if not self._handover.is_done:
            self._notify("STOPPING=1")

    def _notify(self, state: str) -> None:
        if not self.is_embedded:
            notify(state)

    def _timers(self, broker: Broker) -> list[Coroutine[Any, Any, None]]:
        log_dir = broker.log_dir
        retention = Interval(self.config.retention_check_interval_ms)
        compaction = Interval(self.config.cleaner_backoff_ms)
        broker.configs.tell(lambda configs: compaction.set(configs.number(CLEANER_BACKOFF)))
        return [
            self._every("retention", retention, log_dir.retain),
            self._every("clock", Interval(CLOCK_MS), log_dir.watch_clock),
            self._every("compaction", compaction, log_dir.compact),
            self._every("scrub", Interval(scrub.TURN_MS), broker.scrubber.turn),
            self._look_at_refused(broker),
            *self._alerting(),
            *self._certificates(),
            broker.reopening.run(lambda ms: self._stops_before(Interval(ms))),
            broker.moves.run(self._stops_before),
            self._every_so_often(Interval(COUNTED_LINES_MS), event_log.repeats.flush),
            self._every_so_often(
                Interval(self.config.delegation_tokens.check_interval_ms),
                broker.delegation_tokens.sweep,
            ),
        ]

    def _certificates(self) -> Iterator[Coroutine[Any, Any, None]]:
        if self.https is not None:
            yield self._every(
                "new certificate of HTTP", Interval(CERTIFICATES_MS), self.https.reload
            )
        for each in self.kafka_tls.values():
            name = f"new certificate of listener {each.name}"
            yield self._every(name, Interval(CERTIFICATES_MS), each.reload)

        if self.cluster is not None:
            yield self._every(
                "new certificate towards other brokers", Interval(CERTIFICATES_MS),
                self.cluster.security.reload,
            )  # fmt: skip

    def _alerting(self) -> Iterator[Coroutine[Any, Any, None]]:
        if self.alerts is not None:
            yield self._until_it_stops(self.alerts.run(self, self.watch))

    async def _until_it_stops(self, running: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(running)
        await self.stopping.wait()
        task.cancel()
        await asyncio.wait({task})

    async def _look_at_refused(self, broker: Broker) -> None:
        """Reads that were refused: health tells of them already, the ledger soon."""
        refused, interval = broker.refused_reads, Interval(refused_reads.TURN_MS)
        loop, fd = asyncio.get_running_loop(), broker.refused_reads.wake_fd()

        def wake() -> None:
            if refused.gather():
                interval.hurry()

        loop.add_reader(fd, wake)
        try:
            await self._every("refused reads", interval, refused.look)
        finally:
            loop.remove_reader(fd)

    async def _every_so_often(self, interval: Interval, job: Callable[[], int]) -> None:
        """What takes no time and cannot fail."""
        while not await self._stops_before(interval):
            job()

    async def _every(self, name: str, interval: Interval, job: Callable[[], int]) -> None:
        """Runs `job` on a thread until the broker stops. A fault shows in health until a run
        succeeds; it does not end the broker, whose other work may not need what is broken."""
        while not await self._stops_before(interval):
            try:
                count = await asyncio.to_thread(job)
            except ApplianceError as error:
                if self.faults.get(name) != str(error):
                    log.error(f"{name} failed", error=error)
                self.faults[name] = str(error)
            except Exception as error:
                log.exception(f"{name} failed unexpectedly")
                self.faults[name] = repr(error)
            else:
                self.faults.pop(name, None)
                if count:
                    log.info(name, count=count)

    async def _stops_before(self, interval: Interval) -> bool:
        """Before the next turn, that is. The interval may change while that is waited for."""
        begin = time.monotonic()
        while (left_s := begin + interval.ms / 1000 - time.monotonic()) > 0:
            if interval.is_hurried:
                break
            if self.stopping.is_set():
                return True
            self._waited.add(interval)
            try:
                await interval.wait(left_s)
            finally:
                self._waited.discard(interval)
        interval.is_hurried = False
        return self.stopping.is_set()


async def moved(
    what: str, listen: Callable[[Address], Awaitable[Address]], now: Address | None,
    wanted: Address,
) -> Address:  # fmt: skip
    """Where it is then."""
    assert now is not None, "it listens"
    wanted = Address(wanted.host, wanted.port or now.port)
    if wanted == now:
        return now
    try:
        found = await listen(wanted)
    except OSError as error:
        log.error(f"{what}: it stays on loopback", wanted=wanted, error=error)
        return await listen(now)
    log.info(f"{what}: there is a password, and it is where it was meant to be", address=found)
    return found
