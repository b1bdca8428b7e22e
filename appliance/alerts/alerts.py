"""The alerts of one broker: a task that looks at health, and one for each channel that sends."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Mapping, Sequence

from appliance import __version__
from appliance.access.audit import ADMIN_PORT, OK
from appliance.access.audit_rows import AuditRow
from appliance.alerts.alert import Alert, Box, Condition, Delivery, State, of_change, of_test
from appliance.alerts.alert_rows import AlertRows
from appliance.alerts.channel import Channel, NotSent
from appliance.alerts.conditions import Conditions, of_findings, of_ledger
from appliance.alerts.outbox import Outbox, attempt
from appliance.broker.broker import Broker
from appliance.broker.health import Subject, Watch, decide
from appliance.config import AlertsConfig
from appliance.errors import ApplianceError
from appliance.machine.believed_time import wall_now_ms
from appliance.process import event_log

log = event_log.named("alerts")

LOOK_S = 10.0  # health's own looks are as far apart
LOOK_MIN_S = 0.1
THE_SETTINGS = "the settings"  # who changed where alerts go; no user has such a name


class Alerts:
    """Lives on the event loop. `open` is the constructor."""

    def __init__(
        self, config: AlertsConfig, box: Box, outbox: Outbox, told: Sequence[Condition]
    ) -> None:
        self.config = config
        self.outbox = outbox
        self.moves: dict[str, str] = {}  # where alerts go since this start, by channel
        self._box = box
        self._conditions = Conditions(
            config.begin_after_ms / 1000, config.end_after_ms / 1000, told, time.monotonic()
        )
        self._unusable: dict[str, str] = {}  # at the last look, by channel
        self._spoke_at = float("-inf")  # of time.monotonic()
        self._testing = asyncio.Lock()

    @classmethod
    def open(cls, broker: Broker) -> Alerts:
        """Blocks: for a thread."""
        config, rows = broker.config.alerts, AlertRows(broker.catalog)
        box = Box(socket.gethostname(), broker.node_id, broker.cluster_id, __version__)
        outbox = Outbox(config, channels_of(config), rows, box, wall_now_ms)
        alerts = cls(config, box, outbox, rows.conditions())
        alerts.moves = moves(rows, outbox)
        for name in alerts.moves.keys() & outbox.ways.keys():
            outbox.ways[name].refused = ""  # it was of others, or by another server
        return alerts

    @property
    def is_on(self) -> bool:
        """There is a way out of the box."""
        return bool(self.outbox.ways)

    @property
    def faults(self) -> Mapping[str, str]:
        """Why nothing can be sent, by channel, for health."""
        failing = {name: way.fault for name, way in self.outbox.ways.items() if way.fault}
        return {**failing, **self._unusable}

    @property
    def refusals(self) -> Mapping[str, str]:
        """By whom the last alert was not taken while others took it, by channel, for health."""
        return {name: way.refused for name, way in self.outbox.ways.items() if way.refused}

    @property
    def told(self) -> list[Condition]:
        """What somebody was told to be wrong, and not to be over."""
        return self._conditions.told()

    async def run(self, subject: Subject, watch: Watch) -> None:
        """Until it is cancelled; without a channel it ends at once."""
        if subject.broker is not None:
            self._note_moves(subject.broker)
        if not self.is_on:
            return
        senders = [
            asyncio.create_task(self.outbox.deliver(each)) for each in self.outbox.ways.values()
        ]
        try:
            while True:
                try:
                    await self.look(subject, watch)
                except Exception:
                    log.exception("health could not be looked at for alerts")
                await asyncio.sleep(self._look_s)
        finally:
            for each in senders:
                each.cancel()
            await asyncio.gather(*senders, return_exceptions=True)
            await self.outbox.close()

    def _note_moves(self, broker: Broker) -> None:
        """The settings file is nobody's request, and in the trail all the same: who gets alerts
        hears much of this box, and who gets none any more should be missed."""
        for name, target in self.moves.items():
            details = json.dumps({"target": target or None})
            row = AuditRow(0, wall_now_ms(), THE_SETTINGS, "", f"alerts by {name}", details, OK,
                           ADMIN_PORT)  # fmt: skip
            broker.audit.act(row, "alerts", is_rare=True)

    @property
    def _look_s(self) -> float:
        soonest_ms = min(self.config.begin_after_ms, self.config.end_after_ms)
        return max(LOOK_MIN_S, min(LOOK_S, soonest_ms / 1000))

    async def look(self, subject: Subject, watch: Watch) -> None:
        broker = subject.broker
        if broker is None or subject.status != "ok":
            return
        self._unusable = await self._checked()
        health, now_ms = decide(subject, watch), wall_now_ms()
        found = {**of_findings(health.findings, now_ms), **of_ledger(broker.ledger.open())}
        if self.config.level == "failing":
            found = {key: each for key, each in found.items() if each.level == "failing"}
        now_s = time.monotonic()
        self._conditions.look(found, now_s)
        self.outbox.look(found)
        await self._speak(now_s, now_ms)

    async def _speak(self, now_s: float, now_ms: int) -> None:
        if now_s - self._spoke_at < self.config.interval_ms / 1000:
            return
        began, ended = self._conditions.take(now_s)
        if began or ended:
            self._spoke_at = now_s
            self.outbox.put(of_change(began, ended, now_ms), self.told)

    async def _checked(self) -> dict[str, str]:
        """What would fail, told before the first alert does."""
        found = {}
        for name, way in self.outbox.ways.items():
            try:
                await way.channel.check()
            except NotSent as error:
                found[name] = str(error)
        return found

    async def test(self) -> Alert:
        """One attempt at each channel, all at once."""
        alert = of_test(wall_now_ms())
        async with self._testing:
            ways = self.outbox.ways
            outcomes = await asyncio.gather(
                *(attempt(each.channel, alert, self._box) for each in ways.values())
            )
            for name, each in zip(ways, outcomes, strict=True):
                state: State = "sent" if each.is_sent else "failed"
                alert.deliveries[name] = Delivery(state, 1, wall_now_ms(), each.said)
            self.outbox.note(alert)
        return alert

    @property
    def is_testing(self) -> bool:
        return self._testing.locked()


def channels_of(config: AlertsConfig) -> list[Channel]:
    """Only what is used is imported: a start without alerts is not longer."""
    found: list[Channel] = []
    if config.mails:
        from appliance.alerts.mail import Mail

        found.append(Mail(config))
    if config.posts:
        from appliance.alerts.webhook import Webhook

        found.append(Webhook(config))
    return found


def moves(rows: AlertRows, outbox: Outbox) -> dict[str, str]:
    """Where alerts go now and did not before, by channel; "": nowhere any more."""
    now = {name: way.channel.target for name, way in outbox.ways.items()}
    try:
        before = rows.targets()
        if now != before:
            rows.put_targets(now)
    except ApplianceError as error:
        log.error("it is not known where alerts went before", error=error)
        return {}
    names = sorted(now.keys() | before.keys())
    return {each: now.get(each, "") for each in names if now.get(each) != before.get(each)}
