"""Where two brokers answer the same cell of the matrix of rights differently, as rows of the table
in docs/access-rules.md.

Whoever is refused learns from the whole answer, so all of it is compared; where it is allowed, the
errors alone. Texts, and what is each broker's own, are left out.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from appliance.protocol import NO_UUID, ErrorCode
from tests.support.kafka_rights import HIDDEN, hidden_name
from tests.support.rights_matrix import Outcome
from tests.support.rights_site import PRINCIPALS, errors

PAGE = Path(__file__).parents[2] / "docs" / "access-rules.md"
HEADING = "| API | version | situation | listener | here | Apache Kafka 4.3 | why |"
OWN = {"error_message", "throttle_time_ms", "cluster_id", "brokers", "producer_id"}
# Of these is told whether there is any
OF_TOKENS = {"token_id", "hmac", "issue_timestamp", "expiry_timestamp", "max_timestamp",
             "issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms"}  # fmt: skip
NONE = ("", b"", -1)
EVERY = "every"


class Difference(NamedTuple):
    api: str
    version: int
    situation: str
    listener: str
    here: str
    kafka: str


def differences(ours: Iterable[Outcome], kafkas: Iterable[Outcome]) -> set[Difference]:
    found: dict[tuple[str, int, str, str, str], list[str]] = defaultdict(list)
    by_cell = {each.cell: each for each in kafkas}
    for own in ours:
        other = by_cell.pop(own.cell)
        cell, (here, there) = own.cell, _only(Counter(told(own)), Counter(told(other)))
        if here != there:
            found[cell.api, cell.row.version, cell.situation, here, there].append(cell.protocol)
    assert not by_cell
    return {Difference(*key[:3], listeners(where), *key[3:]) for key, where in found.items()}


def listeners(names: Sequence[str]) -> str:
    return EVERY if set(names) == set(PRINCIPALS) else ", ".join(dict.fromkeys(names))


def _only(ours: Counter[str], others: Counter[str]) -> tuple[str, str]:
    """What each has and the other has not."""
    return tuple(", ".join(sorted(set(one - two))) or "-"  # type: ignore[return-value]
                 for one, two in ((ours, others), (others, ours)))  # fmt: skip


def told(outcome: Outcome) -> Iterator[str]:
    answer, row = outcome.answers[-1], outcome.cell.row
    if outcome.cell.right is not None:
        yield from everything(answer, outcome.names.topic_id)
        return
    yield from (f"{place} {name_of(code)}" for place, code in errors(answer) if code)
    for right, code in row.needs.items():
        if code == HIDDEN and hidden_name(right, row, outcome.names) in repr(answer):
            yield "it is listed"


def everything(answer: Any, topic_id: UUID, place: str = "") -> Iterator[str]:
    if isinstance(answer, list):
        for each in answer:
            yield from everything(each, topic_id, place)
    elif is_dataclass(answer):
        for each in fields(answer):
            if each.name not in OWN:
                name = f"{place}.{each.name}".lstrip(".")
                yield from everything(getattr(answer, each.name), topic_id, name)
    elif answer is not None:  # many an empty list may be null as well
        yield f"{place} {in_words(place, answer, topic_id)}"


def in_words(place: str, value: Any, topic_id: UUID) -> str:
    if place.endswith("error_code"):
        return name_of(value)
    if place.rpartition(".")[2] in OF_TOKENS:
        return "none" if value in NONE else "some"
    if isinstance(value, UUID):
        return "none" if value == NO_UUID else "its id" if value == topic_id else "another id"
    return str(value)


def name_of(code: int) -> str:
    return ErrorCode(code).name


def written() -> dict[Difference, str]:
    """Those of the page, and why."""
    _, _, text = PAGE.read_text().partition(HEADING)
    assert text, f"{PAGE} has no {HEADING}"
    rows = [re.split(r"\s*\|\s*", line.strip("| ")) for line in text.split("\n\n")[0].splitlines()]
    return {
        Difference(row[0], int(row[1]), *(each.strip("`") for each in row[2:6])): row[6]
        for row in rows[2:]
    }
