"""Records the acts of coordinators on logs and internal topics as notes of the session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from appliance.data_dir import log_writes
from appliance.data_dir.log_writes import LogWrites, Written
from appliance.topics.internal_topic import Batch, InternalTopic


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
        self._begun: list[tuple[int, Any]] = []  # act, log

    def _hand_over(self) -> None:
        self._begun = [
            (self._session.begin_append(log, each.data), log) for each, log in self._batches
        ]
        noted: list[tuple[Batch, Any]] = [*self._batches]
        self._batches = [(each, log._log) for each, log in noted]
        super()._hand_over()

    def _written(self, outcomes: list[Written]) -> None:
        for (act_id, log), each in zip(self._begun, outcomes, strict=True):
            if each.error is None:
                self._session.end_append(log, act_id, each.base_offset, each.last_offset)
                self._session.waited(log, each.last_offset)
        super()._written(outcomes)


class NotedWrites(LogWrites):
    """Its appends and waits become notes of the session."""

    def __init__(self, session: Any) -> None:
        super().__init__()
        self._session = session

    async def append(self, batches: Sequence[log_writes.Batch]) -> list[Written]:
        noted: list[Any] = [each.log for each in batches]
        acts = [self._session.begin_append(each.log, each.data) for each in batches]
        written = await super().append(
            [each._replace(log=log._log) for each, log in zip(batches, noted, strict=True)]
        )
        for log, act_id, each in zip(noted, acts, written, strict=True):
            if each.error is None:
                self._session.end_append(log, act_id, each.base_offset, each.last_offset)
        return written

    async def durable(self, log: Any, written: Written, timeout_s: float) -> None:
        await super().durable(log._log, written, timeout_s)
        self._session.waited(log, written.last_offset)
