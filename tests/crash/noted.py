"""Records the acts of coordinators on logs and internal topics as notes of the session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from appliance.record import _batch
from appliance.topics.internal_topic import InternalTopic, Told


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

    async def _commit(self, batches: list[tuple[Any, bytes, int]]) -> list[Told]:
        begun = [self._session.begin_append(log, batch) for log, batch, _ in batches]
        told = await super()._commit([(log._log, *rest) for log, *rest in batches])
        for act_id, (log, batch, _), (error, base) in zip(begun, batches, told, strict=True):
            if error is None:
                (info,) = _batch.headers(batch)
                last = base + info.last_offset - info.base_offset
                self._session.end_append(log, act_id, base, last)
                self._session.waited(log, last)
        return told
