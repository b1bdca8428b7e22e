"""Heartbeats that come while a group is written wait as they are, and are answered together.

They take one epoch, one target and one write: a thousand members that join take a few targets.

So it is in groups of consumers (KIP-848) and of Kafka Streams. A share group does not wait: its
members go through no states.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from appliance.errors import ApplianceError, Refused
from appliance.groups.modern_group import ModernGroup, ModernMember
from appliance.groups.states import GroupRefused


class Heartbeat(Protocol):
    @property
    def member_id(self) -> str: ...

    @property
    def epoch(self) -> int: ...


Beat = TypeVar("Beat", bound=Heartbeat)
Beaten = TypeVar("Beaten")  # the answer to it
Member = TypeVar("Member", bound=ModernMember)


@dataclass
class QueuedHeartbeats(ModernGroup, Generic[Beat, Beaten, Member]):
    BEATEN: ClassVar[Callable[..., Any]]  # makes an answer

    # With the times at which they came
    _queued: list[tuple[Beat, int, Callable[[Beaten], None]]] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return super().is_empty and not self._queued

    def beat(self, asked: Beat, now_ms: int, answer: Callable[[Beaten], None]) -> None:
        if self._is_writing:
            self._queued.append((asked, now_ms, answer))
            if asked.member_id in self.members:
                self._touch(self.members[asked.member_id], now_ms)
            return
        self._answer_all([(asked, now_ms, answer)])

    def _answer_all(self, beats: Sequence[tuple[Beat, int, Callable[[Beaten], None]]]) -> None:
        begun: list[tuple[Beat, int, Callable[[Beaten], None], Member | None]] = []
        for asked, now_ms, answer in beats:
            try:
                begun.append((asked, now_ms, answer, self._begin(asked, now_ms)))
            except Refused as error:
                answer(self._refusal(error))
        self._refresh()
        told = [
            (answer, self._beaten(asked, member, now_ms) if member else self._gone(asked))
            for asked, now_ms, answer, member in begun
        ]

        def stored(error: ApplianceError | None) -> None:
            for answer, beaten in told:
                answer(self._refusal(error) if error else beaten)

        self._save(stored)

    @abstractmethod
    def _begin(self, asked: Beat, now_ms: int) -> Member | None:
        """What it changes. None: it leaves."""

    @abstractmethod
    def _beaten(self, asked: Beat, member: Member, now_ms: int) -> Beaten:
        """The answer, when all who were heard have been counted."""

    def _refusal(self, error: ApplianceError) -> Beaten:
        refusal: Beaten = self.BEATEN(error.kafka_code, str(error))
        return refusal

    def _gone(self, asked: Beat) -> Beaten:
        left: Beaten = self.BEATEN(member_id=asked.member_id, epoch=asked.epoch)
        return left

    def unload(self, why: GroupRefused) -> None:
        queued, self._queued = self._queued, []
        super().unload(why)
        for _, _, answer in queued:
            answer(self._refusal(why))

    def _written(self) -> None:
        queued, self._queued = self._queued, []
        if queued:
            self._answer_all(queued)
