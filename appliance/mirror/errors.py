"""Errors that end a round, a topic or the mirror."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from appliance.errors import ApplianceError


class RoundOver(ApplianceError):
    """No failure: topics or partitions changed, so the next round starts with them."""


class PositionMoved(ApplianceError):
    """The source no longer has the next offset, or the target's position differs from the expected
    one: the next round asks both."""

    retriable = True


class TopicRefused(ApplianceError):
    """One topic cannot be mirrored in its present state; other topics can."""

    def __init__(self, topic: str, why: str, is_for_now: bool = False) -> None:
        self.topic, self.is_for_now = topic, is_for_now
        super().__init__(f"{topic}: {why}")


class TopicsRefused(ApplianceError):
    """No topic can be mirrored before somebody changes something."""

    def __init__(self, why_by_topic: Mapping[str, str]) -> None:
        self.topics = dict(why_by_topic)
        super().__init__("; ".join(of_topic(*each) for each in sorted(self.topics.items())))


def of_topic(topic: str, why: str) -> str:
    return why if why.startswith(f"{topic}: ") else f"{topic}: {why}"


class LastingRefusal(ApplianceError):
    """A cluster refuses what a mirror needs. The text says what to change."""

    def __init__(self, code: int, text: str) -> None:
        self.code = code
        super().__init__(text)


Refuse = Callable[[TopicRefused], None]


class MirrorFenced(ApplianceError):
    """Another mirror of this name has taken over."""


class OffsetsCannotBeKept(ApplianceError):
    """`keep` or `groups` is set, and the target is no appliance."""


class OffsetNotMapped(ApplianceError):
    """The map has no offset of the target for this offset."""
