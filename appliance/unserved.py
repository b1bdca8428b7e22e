"""Topics that are there and not served, because a partition of theirs cannot be opened.

Such a topic is neither gone nor empty. Nobody may take it for deleted: a transaction that wrote to
it is not complete without its marker there, what a group committed for it still counts, and it is
not made anew. Nor may anybody take it for unread: what only its records tell, offsets of groups,
transactions and what they wrote, is not known until it is served, which may be at any time.

A deletion whose files cannot be removed yet is the exception: that topic is gone, its name is not
free.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import NamedTuple

from appliance.topics import TopicUnavailable


class Facts(NamedTuple):
    """What the catalog knows of it."""

    id: uuid.UUID
    partitions: int


@dataclass
class Unserved:
    why: dict[str, str] = field(default_factory=dict)  # of each, for people
    deleted: set[str] = field(default_factory=set)  # of these, only files are left
    _facts: dict[str, Facts] = field(default_factory=dict)  # also of those served since

    def put(self, name: str, facts: Facts, why: str) -> None:
        self.why[name], self._facts[name] = why, facts

    def is_there(self, name: str) -> bool:
        return name in self.why and name not in self.deleted

    def check(self, name: str) -> None:
        """Raises where a topic is there and cannot be looked into."""
        if self.is_there(name):
            raise TopicUnavailable(f"topic {name} is not served: {self.why[name]}")

    def names(self) -> set[str]:
        return {each for each in self.why if self.is_there(each)}

    def name_of(self, topic_id: uuid.UUID) -> str | None:
        found = (name for name, each in self._facts.items() if each.id == topic_id)
        return next(filter(self.is_there, found), None)

    def facts(self, name: str) -> Facts | None:
        return self._facts.get(name) if self.is_there(name) else None

    def deletion_stays(self, name: str, error: object) -> None:
        self.why[name] = f"its deletion cannot be finished: {error}"
        self.deleted.add(name)

    def is_over(self, name: str) -> None:
        """It is served now, or its last file is gone."""
        self.why.pop(name, None)
        self.deleted.discard(name)
