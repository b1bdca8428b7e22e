"""Records the acts of coordinators on logs and internal topics as notes of the session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from appliance.record import _batch
from appliance.topics.internal_topic import Batch, InternalTopic, Told


class NotedLog:
    """A log whose appends and waits become notes of the session."""

    def __init__(self, session: Any, log: Any) -> None:
        self._session = session
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def append(self, batch: bytes, *, origin: str = "client") -> Any:
        return self._session.append(self._log, batch, durable=False, origin=origin)

    def await_durable(self, offset: int, timeout_s: float) -> None:
        self._session.wait(self._log, offset)

    def delete_before(self, offset: int) -> None:
        delete = partial(self._log.delete_before, offset)
        self._session.change("delete_before", self._log, delete)


class NotedTopic(InternalTopic):
    """Its rounds become notes of the session."""

    def __init__(
        self, session: Any, logs: Callable[[], Awaitable[list[Any]]], timeout_ms: int
    ) -> None:
        super().__init__(logs, timeout_ms)
        self._session = session
        self._begun: list[tuple[int, Any, bytes]] = []  # act, log, batch

    def _hand_over(self) -> None:
        self._begun = [
            (self._session.begin_append(log, each.data), log, each.data)
            for each, log in self._batches
        ]
        noted: list[tuple[Batch, Any]] = [*self._batches]
        self._batches = [(each, log._log) for each, log in noted]
        super()._hand_over()

    def _written(self, outcomes: list[Told]) -> None:
        for (act_id, log, batch), (error, base) in zip(self._begun, outcomes, strict=True):
            if error is None:
                (info,) = _batch.headers(batch)
                last = base + info.last_offset - info.base_offset
                self._session.end_append(log, act_id, base, last)
                self._session.waited(log, last)
        super()._written(outcomes)
