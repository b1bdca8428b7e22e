"""A clock that was set, that nobody keeps right any more, or that producers are ahead of."""

from __future__ import annotations

import ctypes
import time
from typing import Any

import pytest
from confluent_kafka import Producer

from appliance.broker import health
from appliance.machine import clock_state
from appliance.machine.clock_state import Clock, Timex
from appliance.testing import RunningBroker
from tests.support.rest import Rest

DEADLINE_S = 20.0
DAY_MS = 86_400_000


class Machine:
    def __init__(self) -> None:
        self.wall, self.steady, self.is_right = 1_000_000.0, 50.0, True
        self.clock = Clock(lambda: self.wall, lambda: self.steady, lambda: self.is_right)

    def goes(self, seconds: float, wall: float | None = None) -> Machine:
        self.steady += seconds
        self.wall += seconds if wall is None else wall
        self.clock.look()
        return self


@pytest.mark.parametrize(
    ("wall", "words"),
    [(31.0, "set forward by 30.0 s, 0 min ago"), (-9.0, "set back by 10.0 s, 0 min ago")],
    ids=["forward", "back"],
)
def test_a_step_is_told_for_an_hour(wall: float, words: str) -> None:
    machine = Machine().goes(1).goes(1, wall)
    (text,) = machine.clock.warnings()
    assert words in text
    now = machine.clock.now()
    assert (now["last_step_ms"], now["last_step_at_ms"]) == ((wall - 1) * 1000, machine.wall * 1000)
    assert "59 min ago" in machine.goes(3540).clock.warnings()[0]
    assert machine.goes(100).clock.warnings() == []
    assert machine.clock.now()["last_step_ms"] == (wall - 1) * 1000


def test_a_clock_that_is_slewed_or_slept_with_the_machine_was_not_set() -> None:
    machine = Machine()
    for _ in range(100):
        machine.goes(1, 1.0005)
    machine.goes(20_000)
    assert machine.clock.warnings() == []
    assert machine.clock.now() == {
        "state": "synchronised", "last_step_ms": None, "last_step_at_ms": None
    }  # fmt: skip


def test_a_clock_that_is_no_longer_kept_right_is_a_warning() -> None:
    machine = Machine().goes(1)
    machine.is_right = False
    machine.goes(1)
    assert machine.clock.now()["state"] == "no longer synchronised"
    assert "no longer synchronised" in machine.clock.warnings()[0]
    machine.is_right = True
    assert machine.goes(1).clock.warnings() == []


def test_a_clock_of_which_nothing_is_known_is_none() -> None:
    found = Clock(is_right=lambda: False)
    found.look()
    assert found.now()["state"] == "not known to be synchronised"
    assert found.warnings() == []


def test_the_kernel_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """The maximal error is at most half a minute where somebody keeps the clock, and never below 0:
    were a field at another place, one of the two would not hold."""
    monkeypatch.setattr(clock_state, "TIMESYNCD", tmp_path / "absent")
    asked = Timex()
    assert ctypes.CDLL(None).adjtimex(ctypes.byref(asked)) >= 0
    assert 0 <= asked.maxerror <= 16_000_000
    assert clock_state.is_kept_right() is not bool(asked.status & clock_state.STA_UNSYNC)
    (tmp_path / "synchronized").touch()
    monkeypatch.setattr(clock_state, "TIMESYNCD", tmp_path / "synchronized")
    assert clock_state.is_kept_right() is True


def test_records_from_the_future_are_told(
    appliance_broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "LOGS_S", 1.0)
    monkeypatch.setattr(health, "LOOK_S", 0.5)
    rest = Rest(appliance_broker.admin)
    assert rest.get("/health")["clock"]["state"] in clock_state.State.__args__
    far = {"message.timestamp.after.max.ms": str(1 << 62)}
    rest.post("/topics", {"name": "orders", "configs": far})
    rest.post("/topics", {"name": "kept", "configs": {"retention.ms": "-1", **far}})
    producer = Producer({"bootstrap.servers": appliance_broker.bootstrap})
    now_ms = round(time.time() * 1000)
    producer.produce("kept", b"x", timestamp=now_ms + 40 * DAY_MS)
    producer.produce("orders", b"x", timestamp=now_ms + 1000)
    assert producer.flush(DEADLINE_S) == 0

    def told() -> list[str]:
        found = rest.get("/health")["findings"]
        return [each["text"] for each in found if "ahead of the clock" in each["text"]]

    time.sleep(1.5 * health.LOGS_S)
    assert told() == []
    producer.produce("orders", b"x", timestamp=now_ms + 30 * DAY_MS)
    assert producer.flush(DEADLINE_S) == 0
    deadline = time.monotonic() + DEADLINE_S
    while not told():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert told()[0].startswith("orders has a record of ")
    assert "30.0 d ahead" in told()[0]
    assert rest.get("/health")["status"] == "degraded"

