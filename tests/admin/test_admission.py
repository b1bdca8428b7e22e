"""Connections of a port of HTTP are looked at while there are some."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from appliance.admin import admission
from appliance.config import AdminConfig

TURN_S = 0.01


class Connection:
    address = "127.0.0.1"

    def __init__(self) -> None:
        self.sweeps = 0

    def waits_since(self, now: float) -> float | None:
        return None

    def sweep(self, config: AdminConfig, now: float) -> None:
        self.sweeps += 1

    def end(self, reason: str, got: object = 0, wanted: object = 0) -> None:
        raise AssertionError(reason)


async def turns() -> int:
    """How often the loop is woken up by others in twenty intervals."""
    loop, woken = asyncio.get_running_loop(), 0
    call_at = loop.call_at

    def counted(when: float, *words: Any, **named: Any) -> asyncio.TimerHandle:
        nonlocal woken
        woken += 1
        return call_at(when, *words, **named)

    loop.call_at = counted  # type: ignore[method-assign]
    try:
        await asyncio.sleep(20 * TURN_S)
    finally:
        loop.call_at = call_at  # type: ignore[method-assign]
    return woken - 1  # its own


def test_nobody_wakes_the_loop_up_without_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "SWEEP_SECONDS", TURN_S)

    async def lives() -> None:
        connections = admission.Connections("admin", AdminConfig(), 10)
        assert await turns() == 0
        for connection in (Connection(), Connection()):
            connections.came(connection)
            for before in range(2):  # once in each is certain, also on a machine that stands still
                assert await turns() > 0
                assert connection.sweeps > before
            connections.went(connection)
            await asyncio.sleep(2 * TURN_S)
            assert await turns() == 0
        connections.stop()

    asyncio.run(lives())
