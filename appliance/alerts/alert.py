"""An alert: what began and what ended, as mail, as JSON, and as one line."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from appliance.process.spoken import moment

TOLD = 20  # of what began, and of what ended; on a dead disk there are thousands
TEXT_MAX = 1000  # characters of one; a cause may be a whole stack trace
SUBJECT_MAX = 150

Kind = Literal["change", "test"]
State = Literal["waiting", "sent", "failed"]

TEST = "This is a test: alerts of this broker arrive here."


@dataclass(frozen=True)
class Condition:
    """Something that is wrong."""

    key: str
    level: str
    area: str
    text: str
    began_ms: int


@dataclass
class Delivery:
    """What became of an alert at one channel."""

    state: State = "waiting"
    tries: int = 0
    at_ms: int | None = None  # of the last try
    error: str = ""


@dataclass(frozen=True)
class Box:
    """Whose alerts they are."""

    host: str
    node_id: int
    cluster_id: str
    version: str


@dataclass(frozen=True)
class Alert:
    """`more_began` and `more_ended` are counts of what is not in the lists."""

    id: str
    at_ms: int
    kind: Kind
    began: tuple[Condition, ...] = ()
    ended: tuple[Condition, ...] = ()
    more_began: int = 0
    more_ended: int = 0
    deliveries: dict[str, Delivery] = field(default_factory=dict, compare=False)  # by channel

    @property
    def level(self) -> str:
        """The worst of what began."""
        if self.kind == "test" or not self.began:
            return "ok"
        return "failing" if any(each.level == "failing" for each in self.began) else "degraded"

    @property
    def subject(self) -> str:
        """One line."""
        if self.kind == "test":
            return TEST
        began, ended = len(self.began) + self.more_began, len(self.ended) + self.more_ended
        first, *_ = self.began or self.ended
        word = self.level.capitalize() if began else "Over"
        counts = [f"{began - 1} more" if began > 1 else "", f"{ended} over" if ended else ""]
        if not began:
            counts = [f"{ended - 1} more" if ended > 1 else ""]
        told = ", ".join(each for each in counts if each)
        return f"{word}: {shortened(first.text, SUBJECT_MAX)}" + (f" ({told})" if told else "")

    def text(self, box: Box) -> str:
        lines = [*self._lines()] if self.kind == "change" else [TEST]
        name = f"{box.host}, broker {box.node_id} of cluster {box.cluster_id}"
        return "\n".join([*lines, "", f"-- {name}, {moment(self.at_ms)}, alert {self.id}", ""])

    def _lines(self) -> Iterable[str]:
        for title, found, more in (
            ("What is wrong now", self.began, self.more_began),
            ("What is over", self.ended, self.more_ended),
        ):
            if found:
                yield f"{title}:"
            for each in found:
                yield f"- {each.level}, {each.area}: {each.text} (since {moment(each.began_ms)})"
            if more:
                yield f"- and {more} more"

    def body(self, box: Box) -> dict[str, Any]:
        """What a webhook gets. Chats show `text`."""
        return {
            "id": self.id,
            "at_ms": self.at_ms,
            "kind": self.kind,
            "level": self.level,
            "text": f"[{box.host}] {self.subject}",
            "began": [shown(each) for each in self.began],
            "ended": [shown(each) for each in self.ended],
            "more_began": self.more_began,
            "more_ended": self.more_ended,
            "broker": asdict(box),
        }


def shown(condition: Condition) -> dict[str, Any]:
    row = asdict(condition)
    del row["key"]
    return row


def of_change(began: Sequence[Condition], ended: Sequence[Condition], at_ms: int) -> Alert:
    worst = sorted(began, key=lambda each: each.level != "failing")
    return Alert(
        new_id(), at_ms, "change", tuple(worst[:TOLD]), tuple(ended[:TOLD]),
        max(0, len(began) - TOLD), max(0, len(ended) - TOLD),
    )  # fmt: skip


def of_test(at_ms: int) -> Alert:
    return Alert(new_id(), at_ms, "test")


def new_id() -> str:
    return secrets.token_hex(8)


def shortened(text: str, most: int = TEXT_MAX) -> str:
    """One line without control characters, so that it is one header of a mail, too."""
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
