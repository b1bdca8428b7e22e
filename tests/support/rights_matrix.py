"""The matrix of rights: each row of `kafka_rights`, without each of its rights, with a deny beside
it, and with just them, at a listener of each protocol.

What is told is settled by the table; `run` asks a broker. A cell has names of its own, so that most
of them share one set of rules. Where that is not possible they come one after the other: one row's
cells, and those with different rights to the cluster, of which there is one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from ssl import SSLError
from typing import Any, NamedTuple

from appliance.access.acls import Operation
from appliance.protocol import API, NO_UUID, ErrorCode, headers
from appliance.protocol.messages.create_acls import CreateAclsRequest
from tests.support.kafka_rights import (
    CLUSTER,
    DELEGATION_TOKEN,
    GROUP,
    HIDDEN,
    NO_TOKENS_HERE,
    REFUSALS,
    TABLE,
    TOPIC,
    TRANSACTIONAL_ID,
    USER,
    Names,
    Right,
    Row,
    hidden_name,
    resource_of,
)
from tests.support.rights_site import PRINCIPALS, Client, NoAnswer, Site, codes, errors
from tests.support.wire_client import frame_of

LITERAL, DENY, ALLOW = 3, 2, 3
RESOURCES = {
    TOPIC: "topic", GROUP: "group", CLUSTER: "cluster", TRANSACTIONAL_ID: "transactional id",
    DELEGATION_TOKEN: "delegation token", USER: "user",
}  # fmt: skip
WITHOUT_LOGIN = "PLAINTEXT"
# The data plane answers these: at first it has no decision, at the second time it has
ASKED_TWICE = {"Produce", "Fetch", "ListOffsets"}


class Cell(NamedTuple):
    api: str
    place: int  # of the row
    protocol: str
    situation: str
    right: Right | None  # that is missing or denied; None: all are there
    allowed: tuple[Right, ...]
    denied: tuple[Right, ...]

    @property
    def row(self) -> Row:
        return TABLE[self.api][self.place]

    def __str__(self) -> str:
        return f"{self.api} {self.row.version} [{self.place}] {self.situation}, {self.protocol}"


@dataclass(frozen=True)
class Outcome:
    """Of a cell: its answers, and the names that it was about."""

    cell: Cell
    names: Names
    answers: tuple[Any, ...]

    @property
    def errors(self) -> tuple[tuple[str, int], ...]:
        """Those of the last answer."""
        return tuple(dict.fromkeys(errors(self.answers[-1])))

    def faults(self) -> Iterator[str]:
        """Where it is not as in the table."""
        for answer in self.answers:
            for fault in self._faults(answer):
                yield f"{self.cell}: {fault}"

    def _faults(self, answer: Any) -> Iterator[str]:
        row, right, found = self.cell.row, self.cell.right, set(codes(answer))
        if row.wants_login and self.cell.protocol == WITHOUT_LOGIN:
            if found != {NO_TOKENS_HERE}:
                yield f"nobody has logged in, and was told {found}: {answer}"
        elif right is None:
            if not found <= row.good:
                yield f"it may, and was told {found}: {answer}"
            for each, told in row.needs.items():
                if told == HIDDEN and hidden_name(each, row, self.names) not in repr(answer):
                    yield f"it may, and {hidden_name(each, row, self.names)} is not in {answer}"
        elif row.needs[right] == HIDDEN:
            if hidden_name(right, row, self.names) in repr(answer):
                yield f"{hidden_name(right, row, self.names)} is in the answer"
        elif found & REFUSALS != {row.needs[right]}:
            yield f"wanted {row.needs[right]}, was told {found}: {answer}"
        if self._may_see_no_name() and self.names.topic in repr(answer):
            yield "the id betrays the name"

    def _may_see_no_name(self) -> bool:
        """Whoever has a right that is denied again may still describe the topic."""
        right = self.cell.right
        is_without = right is not None and not self.cell.denied
        return is_without and self.cell.row.by_id and right.resource_type == TOPIC


def cells() -> list[Cell]:
    return [
        Cell(api, place, protocol, *rest)
        for api, rows in TABLE.items()
        for place, row in enumerate(rows)
        for rest in situations(row)
        for protocol in PRINCIPALS
    ]


def situations(
    row: Row,
) -> Iterator[tuple[str, Right | None, tuple[Right, ...], tuple[Right, ...]]]:
    needs = tuple(row.needs)
    for right in needs:
        others = tuple(each for each in needs if each != right)
        yield f"without {in_words(right)}", right, others, ()
        yield f"{in_words(right)} denied", right, needs, (right,)
    yield "allowed", None, (*needs, *row.useless), ()


def in_words(right: Right) -> str:
    operation = Operation(right.operation).name.lower().replace("_", " ")
    return f"{operation} {RESOURCES[right.resource_type]}"


# Which cells share rules


def phases(of: Sequence[Cell]) -> list[list[Cell]]:
    """In this order: who is allowed may delete what others ask for."""
    found: dict[Any, list[Cell]] = defaultdict(list)
    times: dict[Any, int] = defaultdict(int)
    for cell in of:
        of_cluster = tuple(tuple(each for each in rights if each.resource_type == CLUSTER)
                           for rights in (cell.allowed, cell.denied))  # fmt: skip
        place = (cell.right is None, of_cluster, _alone(cell))
        nth = times[place, cell.api, cell.place, cell.protocol]
        times[place, cell.api, cell.place, cell.protocol] += 1
        found[place, nth].append(cell)
    return [found[each] for each in sorted(found, key=lambda key: key[0][0])]


def _alone(cell: Cell) -> tuple[str, int] | None:
    """A right to any topic counts here."""
    is_one = cell.api == "InitProducerId" and not any(
        each.resource_type == TRANSACTIONAL_ID for each in cell.row.needs)  # fmt: skip
    return (cell.api, cell.place) if is_one else None


# A broker is asked


def run(site: Site, of: Sequence[Cell]) -> list[Outcome]:
    names = names_of(site, of)
    found = []
    for phase in phases(of):
        site.set_rules([each for cell in phase for each in rules(cell, names[_key(cell)])])
        site.begin_sessions([names[_key(each)] for each in phase if each.api == "ShareAcknowledge"])
        found += ask_all(site.clients, phase, names)
    return found


def _key(cell: Cell) -> tuple[str, int, str]:
    return cell.api, cell.place, cell.protocol


def names_of(site: Site, of: Sequence[Cell]) -> dict[tuple[str, int, str], Names]:
    keys = dict.fromkeys(_key(cell) for cell in of)
    wanted = [(f"{n}.{api}", things(TABLE[api][place]))
              for n, (api, place, _) in enumerate(keys)]  # fmt: skip
    return dict(zip(keys, site.make(wanted), strict=True))


def rules(cell: Cell, names: Names) -> Iterator[CreateAclsRequest.AclCreation]:
    for rights, permission in ((cell.allowed, ALLOW), (cell.denied, DENY)):
        for right in rights:
            yield CreateAclsRequest.AclCreation(
                right.resource_type, resource_of(right, cell.row, names), LITERAL,
                PRINCIPALS[cell.protocol], "*", right.operation, permission,
            )  # fmt: skip


def ask_all(
    clients: Mapping[str, Client], phase: Sequence[Cell], names: Mapping[Any, Names]
) -> Iterator[Outcome]:
    """All at once, and then once more what is asked twice."""
    answers: dict[Cell, list[Any]] = defaultdict(list)
    for again in (False, True):
        asked = [each for each in phase if not again or each.api in ASKED_TWICE]
        requests = [each.row.make(names[_key(each)]) for each in asked]
        for cell, request in zip(asked, requests, strict=True):
            clients[cell.protocol].send(request, cell.row.version)
        for cell, request in zip(asked, requests, strict=True):
            answers[cell].append(clients[cell.protocol].answer(request, cell.row.version))
    for cell in phase:
        yield Outcome(cell, names[_key(cell)], tuple(answers[cell]))


def unknown(site: Site, protocol: str, key: int) -> str:
    """How a request of somebody ends who has not said who it is."""
    try:
        with site.connect(protocol, is_known=False) as wire:
            wire.send(request_of(key))
            return "answered" if wire.receive() else "empty"
    except (EOFError, ConnectionError, SSLError):
        return "closed"


def free(site: Site, protocol: str, key: int) -> str:
    """What is told to everybody who has said who it is."""
    try:
        answer = site.client(protocol).ask(API[key].request(), API[key].versions[1])
    except NoAnswer:
        return "closed"
    return ", ".join(sorted({ErrorCode(each).name for each in codes(answer)}))


def request_of(key: int) -> bytes:
    if key in API:
        return frame_of(API[key].request(), key, API[key].versions[1])
    return headers.encode_request(headers.RequestHeader(key, 0, 1, "test"))


def things(row: Row) -> set[str]:
    """Those of `Names` that the request, its rights and its group are about."""
    asked: set[str] = set()
    row.make(_Watched(asked.add))  # type: ignore[arg-type]
    of_kind = {TOPIC: row.topic, GROUP: row.group, TRANSACTIONAL_ID: "transactional_id",
               DELEGATION_TOKEN: "token_id", USER: "owner"}  # fmt: skip
    for right, told in row.needs.items():
        if right.resource_type != CLUSTER:
            asked.add(of_kind[right.resource_type])
        elif told == HIDDEN:
            asked.add("group")
        if right.resource_type == USER and told == HIDDEN:
            asked.add("token_id")
    if asked & {"producer_id", "producer_epoch"}:
        asked.add("transactional_id")
    return asked | {"topic"}


class _Watched:
    """Stands where `Names` are."""

    def __init__(self, told: Callable[[str], object]) -> None:
        self._told = told

    def __getattr__(self, name: str) -> Any:
        kinds = {each.name: each.type for each in fields(Names)}
        self._told({"topic_id": "topic"}.get(name, name))
        found = {"str": name, "int": 0, "UUID": NO_UUID, "bytes": b""}
        return found[str(kinds[name])]
