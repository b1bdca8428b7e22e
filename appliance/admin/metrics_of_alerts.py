"""Metrics of alerts: how many were sent, wait and were given up, by channel."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from appliance.admin.metrics_of_broker import counter, gauge
from appliance.alerts.alerts import Alerts

CHANNEL = ["channel"]


def families(alerts: Alerts) -> Iterator[Metric]:
    sent = counter("alerts_sent", "Alerts that a channel took.", CHANNEL)
    failed = counter("alerts_given_up", "Alerts that a channel did not take in time.", CHANNEL)
    waiting = gauge("alerts_waiting", "Alerts that wait for a channel.", CHANNEL)
    faulty = gauge("alerts_channel_failing", "1: nothing can be sent by it now.", CHANNEL)
    for name, way in alerts.outbox.ways.items():
        sent.add_metric([name], way.sent)
        failed.add_metric([name], way.failed)
        waiting.add_metric([name], len(alerts.outbox.waiting(name)))
        faulty.add_metric([name], int(name in alerts.faults))
    yield from (sent, failed, waiting, faulty)
