"""Errors that end a round, a topic or the mirror."""

from __future__ import annotations

from collections.abc import Callable

from appliance.errors import ApplianceError


class RoundOver(ApplianceError):
    """No failure: topics or partitions changed, so the next round starts with them."""


class PositionMoved(ApplianceError):
    """The source no longer has the next offset, or the target's position differs from the expected
    one: the next round asks both."""

    retriable = True


class TopicRefused(ApplianceError):
    """One topic cannot be mirrored in its present state; other topics can."""

    def __init__(self, topic: str, why: str) -> None:
        self.topic = topic
        super().__init__(f"{topic}: {why}")


Refuse = Callable[[TopicRefused], None]


class MirrorFenced(ApplianceError):
    """Another mirror of this name has taken over."""


class OffsetsCannotBeKept(ApplianceError):
    """`keep` or `groups` is set, and the target is no appliance."""


class OffsetNotMapped(ApplianceError):
    """The map has no offset of the target for this offset."""
