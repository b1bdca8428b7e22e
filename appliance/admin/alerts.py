"""Alerts over REST: where they go, what was sent and when, what failed, and a test."""

from __future__ import annotations

from typing import TypedDict

from appliance.admin.body_schema import row_of
from appliance.admin.rights import DESCRIBE_CLUSTER
from appliance.admin.route import ADMIN, Call, NotServing, Param, get, post
from appliance.alerts.alert import Alert, Condition, Kind, State
from appliance.alerts.alerts import Alerts
from appliance.errors import Refused
from appliance.protocol import ErrorCode

PAGE, PAGE_MAX = 100, 1000


class ChannelRow(TypedDict):
    channel: str
    target: str  # without what is secret in it
    waiting: int
    sent: int  # since the start
    given_up: int  # since the start
    fault: str  # why nothing can be sent, or by whom the last was not taken; "": neither


class ConditionRow(TypedDict):
    level: str
    area: str
    text: str
    began_ms: int


class DeliveryRow(TypedDict):
    channel: str
    state: State
    tries: int
    at_ms: int | None  # of the last try
    error: str  # of it


class AlertRow(TypedDict):
    id: str
    at_ms: int
    kind: Kind
    level: str  # of the worst that began; ok: things ended, or a test
    subject: str
    began: list[ConditionRow]
    ended: list[ConditionRow]
    more_began: int  # beyond those
    more_ended: int
    deliveries: list[DeliveryRow]


class AlertsAnswer(TypedDict):
    channels: list[ChannelRow]
    told: list[ConditionRow]  # to be wrong, and not to be over
    alerts: list[AlertRow]  # the newest first


def alerts_of(call: Call) -> Alerts:
    if call.process.alerts is None:
        raise NotServing(f"the broker is {call.process.status}")
    return call.process.alerts


def listed(call: Call) -> AlertsAnswer:
    alerts = alerts_of(call)
    newest = alerts.outbox.alerts[::-1][: call.params["limit"]]
    return {
        "channels": channels(alerts),
        "told": [condition_row(each) for each in alerts.told[:PAGE_MAX]],
        "alerts": [alert_row(each) for each in newest],
    }


def channels(alerts: Alerts) -> list[ChannelRow]:
    return [
        {
            "channel": name,
            "target": way.channel.target,
            "waiting": len(alerts.outbox.waiting(name)),
            "sent": way.sent,
            "given_up": way.failed,
            "fault": alerts.faults.get(name) or alerts.refusals.get(name, ""),
        }
        for name, way in alerts.outbox.ways.items()
    ]


def condition_row(condition: Condition) -> ConditionRow:
    return row_of(ConditionRow, condition)


def alert_row(alert: Alert) -> AlertRow:
    return row_of(
        AlertRow,
        alert,
        began=[condition_row(each) for each in alert.began],
        ended=[condition_row(each) for each in alert.ended],
        deliveries=[
            row_of(DeliveryRow, each, channel=name) for name, each in alert.deliveries.items()
        ],
    )


async def test(call: Call) -> AlertRow:
    """Two at a time would only be two messages more."""
    alerts = alerts_of(call)
    if not alerts.is_on:
        text = (
            "alerts go nowhere: set alerts.mail.server with alerts.mail.from and alerts.mail.to, "
            "or alerts.webhook.url, and start the broker again"
        )
        raise Refused(ErrorCode.INVALID_CONFIG, text)
    if alerts.is_testing:
        text = f"a test is under way: wait {alerts.config.timeout_ms / 1000:g} s"
        raise Refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED, text)
    return alert_row(await alerts.test())


ROUTES = [
    get(
        "/alerts",
        listed,
        AlertsAnswer,
        "Alerts by mail and webhook: where they go, what is told to be wrong, and what was sent, "
        "the newest first, with what failed.",
        params=(Param("limit", int, "Alerts.", PAGE, minimum=1, maximum=PAGE_MAX),),
        rights=(DESCRIBE_CLUSTER,),
    ),
    post(
        "/alerts/test",
        test,
        AlertRow,
        "Send a test alert by each channel, once, and tell what became of it.",
        role=ADMIN,
    ),
]
