"""What a registry told for the records of one page, so that a thread can show them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from appliance.schemas.registry_client import Subject
from appliance.schemas.registry_decoders import SchemaDecoder
from appliance.schemas.registry_ids import Headers, Named, SchemaKey, schema_named

SUBJECTS_LOOKED_MAX = 20  # for one that may be told

MayTell = Callable[[str], bool]  # the name of a subject


@dataclass(frozen=True)
class Kept:
    """A schema, or why there is none."""

    decoder: SchemaDecoder | None = None
    problem: str = ""
    is_unknown: bool = False  # the registry has none of this id
    subjects: list[Subject] = field(default_factory=list)
    size: int = 0
    until: float | None = None  # then it is asked for again

    def subject(self, topic: str, part: str, may_tell: MayTell) -> Subject | None:
        """The one under which serializers put it by default, or else the first that may be told."""
        own = [each for each in self.subjects if each.name == f"{topic}-{part}"]
        if own:
            return max(own, key=lambda each: each.version)
        others = self.subjects[:SUBJECTS_LOOKED_MAX]
        return next((each for each in others if may_tell(each.name)), None)


class RegistryLook:
    def __init__(
        self, topic: str, parts: Collection[str], known: Mapping[SchemaKey, Kept],
        may_tell: MayTell,
    ) -> None:  # fmt: skip
        """`parts` are those that the topic has no schema of its own for."""
        self._parts, self._known = parts, known
        self._subjects = {(key, part): kept.subject(topic, part, may_tell)
                          for key, kept in known.items() for part in parts}  # fmt: skip

    def subject(self, key: SchemaKey, part: str) -> Subject | None:
        return self._subjects[key, part]

    def schema(self, part: str, data: bytes, headers: Headers) -> tuple[Named, Kept] | None:
        """None: the record names none."""
        named = schema_named(part, data, headers) if part in self._parts else None
        found = None if named is None else self._known.get(named.key)
        return None if named is None or found is None else (named, found)
