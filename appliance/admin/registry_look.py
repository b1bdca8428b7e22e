"""What a registry told for the records of one page, so that a thread can show them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from appliance.admin.registry_client import Subject
from appliance.admin.registry_decoders import SchemaDecoder
from appliance.admin.registry_ids import Headers, Named, SchemaKey, schema_named


@dataclass(frozen=True)
class Kept:
    """A schema, or why there is none."""

    decoder: SchemaDecoder | None = None
    problem: str = ""
    is_unknown: bool = False  # the registry has none of this id
    subjects: list[Subject] = field(default_factory=list)
    size: int = 0
    until: float | None = None  # then it is asked for again

    def subject(self, topic: str, part: str) -> Subject | None:
        """The one under which serializers put it by default, or else the first."""
        own = [each for each in self.subjects if each.name == f"{topic}-{part}"]
        return max(own, key=lambda each: each.version) if own else next(iter(self.subjects), None)


class RegistryLook:
    def __init__(
        self, topic: str, parts: Collection[str], known: Mapping[SchemaKey, Kept]
    ) -> None:
        """`parts` are those that the topic has no schema of its own for."""
        self.topic, self._parts, self._known = topic, parts, known

    def schema(self, part: str, data: bytes, headers: Headers) -> tuple[Named, Kept] | None:
        """None: the record names none."""
        named = schema_named(part, data, headers) if part in self._parts else None
        found = None if named is None else self._known.get(named.key)
        return None if named is None or found is None else (named, found)
