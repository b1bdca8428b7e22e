"""What ends a round, a topic or the mirror."""

from __future__ import annotations

from appliance.errors import ApplianceError


class RoundOver(ApplianceError):
    """Nothing is wrong: topics or partitions changed, so the next round begins with them."""


class PositionMoved(ApplianceError):
    """The source no longer has the next offset, or the target is not where it was thought to be:
    the next round asks both."""

    retriable = True


class TopicRefused(ApplianceError):
    """One topic cannot be mirrored as things are; the others can."""

    def __init__(self, topic: str, why: str) -> None:
        self.topic = topic
        super().__init__(f"{topic}: {why}")


class MirrorFenced(ApplianceError):
    """Another mirror of this name has taken over."""


class OffsetsCannotBeKept(ApplianceError):
    """`keep` was asked for, or `groups`, and the target is no appliance."""


class OffsetNotMapped(ApplianceError):
    """The map does not tell what this offset became."""
