"""Alerts until they are delivered, and the last that were: in memory, and in the catalog.

Each channel has a task that sends what waits for it, the oldest first. After a failed attempt it
waits, twice as long as before, and tries the same again; so a server that is away holds nobody
else, gets all in order when it is back, and is not hammered. What it was too late for is given up;
then one alert of what is still wrong follows behind those that wait, so that this is told at last.

Memory leads, and nobody waits for the catalog: a disk that is slow, or hangs, is what one wants to
hear of. What the catalog does not take, as on a full disk, is kept and tried again with the next
change: a restart meanwhile forgets it, or sends it twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from appliance.alerts.alert import Alert, Box, Condition, Delivery, of_change
from appliance.alerts.alert_rows import AlertRows
from appliance.alerts.channel import Channel, NotSent
from appliance.config import AlertsConfig
from appliance.errors import ApplianceError
from appliance.process import event_log

log = event_log.named("alerts")

TOLD_AFTER_TRIES = 3  # then health says that a channel does not deliver


@dataclass
class Way:
    """A channel with what is known of it since the start."""

    channel: Channel
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    sent: int = 0
    failed: int = 0  # alerts that were given up
    tries: int = 0  # that failed, without one between them that did not
    error: str = ""  # of the last try
    refused: str = ""  # by whom the last that was sent was not taken
    owes: bool = False  # something was given up, and nobody was told since what still holds

    @property
    def fault(self) -> str:
        """What health says."""
        return self.error if self.tries >= TOLD_AFTER_TRIES else ""

    def learn(self, alert: Alert) -> None:
        """What is known of the way by an alert that was sent, or given up."""
        delivery = alert.deliveries.get(self.channel.name)
        if delivery is None or delivery.state == "waiting":
            return
        if delivery.state == "sent":
            self.refused = delivery.error
        if alert.kind == "change":
            self.owes = delivery.state == "failed"


class Outbox:
    def __init__(
        self,
        config: AlertsConfig,
        channels: Iterable[Channel],
        rows: AlertRows,
        box: Box,
        now_ms: Callable[[], int],
    ) -> None:
        """Reads the catalog: for a thread."""
        self.ways = {each.name: Way(each) for each in channels}
        self._config, self._rows, self._box, self._now_ms = config, rows, box, now_ms
        self.alerts: list[Alert] = rows.all()  # the oldest first
        self._unsaved: dict[str, Alert] = {}
        for each in self.alerts:
            for name, delivery in each.deliveries.items():
                if delivery.state == "waiting" and name not in self.ways:
                    delivery.state, delivery.error = "failed", "nothing goes there any more"
            for way in self.ways.values():
                way.learn(each)
        self._holds: list[Condition] = rows.conditions()  # what was told, and is not over
        self._told: list[Condition] | None = None  # the same, if it is not in the catalog yet
        self._found: Container[str] | None = None  # what is wrong now; None: nobody has looked
        self._storing: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "alerts' store")  # one that hangs is no other's

    def waiting(self, name: str) -> list[Alert]:
        """The oldest first."""
        return [
            each
            for each in self.alerts
            if name in each.deliveries and each.deliveries[name].state == "waiting"
        ]

    def put(self, alert: Alert, told: Sequence[Condition]) -> None:
        """An alert for all channels, and what is told to be wrong once it is sent."""
        alert.deliveries.update({name: Delivery() for name in self.ways})
        self._add(alert)
        for way in self.ways.values():
            for each in self.waiting(way.channel.name)[: -self._config.queue_max]:
                text = f"{self._config.queue_max} others waited (alerts.queue.max)"
                self._give_up(each, way, text)
        self._shorten()
        self._holds = [*told]
        self._told = self._holds
        for way in self.ways.values():
            way.wake.set()
        self._save()

    def note(self, alert: Alert) -> None:
        """One that was delivered already, or not: a test."""
        self._add(alert)
        self._shorten()
        for way in self.ways.values():
            way.learn(alert)
        self._save()

    def _add(self, alert: Alert) -> None:
        self.alerts = [*self.alerts, alert]
        self._unsaved[alert.id] = alert

    def _shorten(self) -> None:
        self.alerts = self.alerts[-self._config.kept_max :]

    def _save(self) -> None:
        if self._storing is None or self._storing.done():
            self._storing = asyncio.get_running_loop().create_task(self._store())

    async def _store(self) -> None:
        """All there is, also what comes meanwhile, until the catalog refuses."""
        loop = asyncio.get_running_loop()
        while self._unsaved or self._told is not None:
            alerts, told = [*self._unsaved.values()], self._told
            self._unsaved, self._told = {}, None
            put = partial(self._rows.put, alerts, told, self._config.kept_max)
            try:
                await loop.run_in_executor(self._thread, put)
            except ApplianceError as error:
                log.error("alerts are in memory only: a restart would forget them", error=error)
                self._unsaved = {each.id: each for each in alerts} | self._unsaved
                self._told = told if self._told is None else self._told
                return

    async def close(self) -> None:
        """Nobody sends any more, and all is stored."""
        if self._storing is not None:
            await asyncio.wait({self._storing})
        await self._store()
        self._thread.shutdown(wait=False)

    # delivery

    async def deliver(self, way: Way) -> None:
        """What waits for one channel, until it is cancelled."""
        name = way.channel.name
        while True:
            way.wake.clear()
            if waits := self.waiting(name):
                is_sent = await self._try(waits[0], way)
                self._save()
                if not is_sent:
                    await asyncio.sleep(self._backoff_s(way.tries))
            elif way.owes and self._found is not None:
                self._tell_again(way, self._found)
            else:
                await way.wake.wait()

    def look(self, found: Container[str]) -> None:
        """At what holds now: of what was told before a restart some may be over."""
        self._found = found
        for way in self.ways.values():
            if way.owes:
                way.wake.set()

    def _tell_again(self, way: Way, found: Container[str]) -> None:
        """What still holds, to who may have missed it."""
        way.owes = False
        if holds := [each for each in self._holds if each.key in found]:
            alert = of_change(holds, [], self._now_ms())
            alert.deliveries[way.channel.name] = Delivery()
            self._add(alert)
            self._shorten()
            self._save()

    async def _try(self, alert: Alert, way: Way) -> bool:
        """Whether the next one may be tried at once."""
        delivery = alert.deliveries[way.channel.name]
        found = await attempt(way.channel, alert, self._box)
        self._unsaved[alert.id] = alert
        delivery.tries += 1
        error = delivery.error = way.error = found.said
        delivery.at_ms = self._now_ms()
        if found.is_sent:
            delivery.state, way.tries = "sent", 0
            way.sent, way.refused = way.sent + 1, error
            log.info("alert sent", by=way.channel.name, alert=alert.id, subject=alert.subject)
            return True
        way.tries += 1
        log.warning("alert not sent", by=way.channel.name, alert=alert.id, tries=delivery.tries,
                    error=error)  # fmt: skip
        if self._now_ms() - alert.at_ms >= self._config.give_up_ms:
            self._give_up(alert, way, error)
        return False

    def _give_up(self, alert: Alert, way: Way, error: str) -> None:
        delivery = alert.deliveries[way.channel.name]
        delivery.state, delivery.error = "failed", error
        way.failed, way.owes = way.failed + 1, True
        self._unsaved[alert.id] = alert
        log.error("alert given up", by=way.channel.name, alert=alert.id, error=error)

    def _backoff_s(self, tries: int) -> float:
        doubled = self._config.backoff_ms * 2 ** min(tries - 1, 20)
        return float(min(doubled, self._config.backoff_max_ms)) / 1000


class Outcome(NamedTuple):
    is_sent: bool
    said: str  # why it was not, or by whom not


async def attempt(channel: Channel, alert: Alert, box: Box) -> Outcome:
    """Whatever goes wrong in one channel is its own error: a fault of ours, too, must not end the
    task that sends."""
    try:
        return Outcome(True, await channel.send(alert, box))
    except NotSent as error:
        return Outcome(False, str(error))
    except Exception as error:
        log.exception("an alert could not be sent", by=channel.name)
        return Outcome(False, f"{type(error).__name__}, which the log explains")
