"""A broker with a listener of each protocol, for the matrix of rights: somebody at each of them,
and an administrator who makes what requests are about. It may be ours or Apache Kafka's: all is
asked over sockets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import astuple, dataclass, fields
from functools import cached_property
from types import TracebackType
from typing import Any, NamedTuple
from uuid import UUID

from appliance.protocol import API
from appliance.protocol.messages.create_acls import CreateAclsRequest
from appliance.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from appliance.protocol.messages.create_topics import CreateTopicsRequest
from appliance.protocol.messages.delete_acls import DeleteAclsRequest
from appliance.protocol.messages.describe_acls import DescribeAclsRequest
from appliance.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
)
from appliance.protocol.messages.find_coordinator import FindCoordinatorRequest
from appliance.protocol.messages.init_producer_id import InitProducerIdRequest
from appliance.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from appliance.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support import kafka_rights
from tests.support.certificates import Authority
from tests.support.kafka_rights import Names
from tests.support.scram_client import ScramClient
from tests.support.tls_client import TlsClient, trusting
from tests.support.wire_client import WireClient, frame_of

DEADLINE_S = 60.0
ADMIN, PASSWORD = "admin", "correct horse battery"
USERS = {"SASL_PLAINTEXT": "ann", "SASL_SSL": "bob"}
PRINCIPALS = {
    "PLAINTEXT": "User:ANONYMOUS",
    "SASL_PLAINTEXT": "User:ann",
    "SASL_SSL": "User:bob",
    "SSL": "User:CN=carol",
}
KEYS = {api.request: key for key, api in API.items()}

# Errors that pass, while coordinators, topics and the start offsets of share groups come into being
PASSING = {-1, 3, 14, 15, 16, 51, 100}

ANY = 1
ALL_RULES = DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY)
EVERY_RULE = DeleteAclsRequest([DeleteAclsRequest.DeleteAclsFilter(ANY, None, ANY, None, None,
                                                                   ANY, ANY)])  # fmt: skip


def codes(answer: Any) -> Iterable[int]:
    """Every error in it."""
    return (code for _, code in errors(answer))


def errors(answer: Any, place: str = "") -> Iterable[tuple[str, int]]:
    """Every error in it, with its field."""
    if isinstance(answer, list):
        for each in answer:
            yield from errors(each, place)
    elif hasattr(answer, "__dataclass_fields__"):
        for each in fields(answer):
            value, name = getattr(answer, each.name), f"{place}.{each.name}".lstrip(".")
            if each.name.endswith("error_code") and each.name != "topic_config_error_code":
                yield name, value
            yield from errors(value, name)


class NoAnswer(Exception):
    pass


class Client:
    """Requests as messages, and many at once."""

    def __init__(self, wire: WireClient) -> None:
        self.wire = wire

    def send(self, request: Any, version: int) -> None:
        self.wire.send(frame_of(request, KEYS[type(request)], version))

    def answer(self, request: Any, version: int) -> Any:
        """Of the oldest request that has none."""
        key = KEYS[type(request)]
        try:
            return self.wire.answer(API[key].response, key, version)
        except (EOFError, OSError) as error:
            raise NoAnswer(f"{request}: {error!r}") from error

    def ask(self, request: Any, version: int) -> Any:
        self.send(request, version)
        return self.answer(request, version)

    def ask_all(self, requests: Sequence[tuple[Any, int]]) -> list[Any]:
        for each in requests:
            self.send(*each)
        return [self.answer(*each) for each in requests]

    def log_in(self, user: str, password: str) -> None:
        assert self.ask(SaslHandshakeRequest("SCRAM-SHA-256"), 1).error_code == 0
        scram = ScramClient("SCRAM-SHA-256", user, password)
        first = self.ask(SaslAuthenticateRequest(scram.first()), 2)
        last = self.ask(SaslAuthenticateRequest(scram.final(first.auth_bytes)), 2)
        assert last.error_code == 0, last
        scram.check(last.auth_bytes)


@dataclass
class Site:
    """`addresses` by protocol. Rules that were answered `are_in_force`, or soon will be."""

    addresses: dict[str, str]
    authority: Authority
    log_dir: str
    are_in_force: bool = True

    def __post_init__(self) -> None:
        self._open = ExitStack()

    def __enter__(self) -> Site:
        return self

    def __exit__(self, *_: type | BaseException | TracebackType | None) -> None:
        self._open.close()

    # Who is there

    def connect(self, protocol: str, is_known: bool = True) -> WireClient:
        """Without a login; `is_known`: with a certificate where one is asked for."""
        address = self.addresses[protocol]
        if not protocol.endswith("SSL"):
            host, _, port = address.rpartition(":")
            return WireClient((host, int(port)))
        carol = self._carol if protocol == "SSL" and is_known else None
        return TlsClient(address, trusting(self.authority.trust, client=carol))

    @cached_property
    def _carol(self) -> Any:
        return self.authority.issue("carol", hosts=())

    def client(self, protocol: str, user: str = "") -> Client:
        made = Client(self._open.enter_context(self.connect(protocol)))
        if protocol in USERS:
            made.log_in(user or USERS[protocol], PASSWORD)
        return made

    @cached_property
    def clients(self) -> dict[str, Client]:
        return {each: self.client(each) for each in PRINCIPALS}

    @cached_property
    def admin(self) -> Client:
        return self.client("SASL_PLAINTEXT", ADMIN)

    # Rules

    def set_rules(self, rules: Sequence[CreateAclsRequest.AclCreation]) -> None:
        """These and no others."""
        self.admin.ask(EVERY_RULE, 3)
        self._wait_for_rules(0)
        different = list({astuple(each): each for each in rules}.values())
        if different:
            made = self.admin.ask(CreateAclsRequest(different), 3)
            assert set(codes(made)) == {0}
        self._wait_for_rules(len(different))

    def _wait_for_rules(self, count: int) -> None:
        def found() -> int:
            return sum(len(each.acls) for each in self.admin.ask(ALL_RULES, 3).resources)

        if not self.are_in_force:
            until(lambda: found() == count)

    # What requests are about

    def until_done(self, requests: Sequence[tuple[Any, int]]) -> list[Any]:
        """The answers, asked again as long as one of them has an error that passes."""
        done: dict[int, Any] = {}

        def are_all() -> bool:
            left = [n for n in range(len(requests)) if n not in done]
            for n, answer in zip(left, self.admin.ask_all([requests[n] for n in left]),
                                 strict=True):  # fmt: skip
                found = set(codes(answer))
                assert found <= {0} | PASSING, (requests[n], answer)
                if not found & PASSING:
                    done[n] = answer
            return len(done) == len(requests)

        until(are_all)
        return [done[n] for n in range(len(requests))]

    def make(self, wanted: Sequence[tuple[str, set[str]]]) -> list[Names]:
        """Names that begin with this, and of each the things that are wanted."""
        made = [Things(self, *each) for each in wanted]
        topics = [each.name("topic") for each in made if "topic" in each.wanted]
        rows = [CreateTopicsRequest.CreatableTopic(each, 1, 1) for each in topics]
        (answer,) = self.until_done([(CreateTopicsRequest(rows, 30_000), 7)])
        ids = {each.name: each.topic_id for each in answer.topics}
        self.until_done([(FindCoordinatorRequest("", kind, ["x"]), 4) for kind in (0, 1)])
        producers = [each for each in made if "transactional_id" in each.wanted]
        answers = self.until_done(
            [(InitProducerIdRequest(each.name("transactional_id"), 60_000), 4)
             for each in producers])  # fmt: skip
        for each, answer in zip(producers, answers, strict=True):
            each.producer = answer.producer_id, answer.producer_epoch
        self._make_tokens([each for each in made if each.wanted & OF_TOKENS])
        for each in made:
            each.topic_id = ids.get(each.name("topic"), kafka_rights.NO_UUID)
        self.until_done([ask for each in made for ask in each.requests()])
        with_sharers = [each.names() for each in made if "sharers" in each.wanted]
        self.begin_sessions(with_sharers)
        self._wait_for_assignments(with_sharers)
        return [each.names() for each in made]

    def _make_tokens(self, of: Sequence[Things]) -> None:
        """Kafka's broker shows them after its controller has made them."""
        answers = iter(self.until_done([ask for each in of for ask in each.token_requests()]))
        for each, *tokens in zip(of, answers, answers, strict=True):
            each.tokens = tuple(Token(it.token_id, it.hmac) for it in tokens)
        wanted = {token.id for each in of for token in each.tokens}

        def are_shown() -> bool:
            (answer,) = self.until_done([(DescribeDelegationTokenRequest(None), 3)])
            return wanted <= {each.token_id for each in answer.tokens}

        until(are_shown)

    def _wait_for_assignments(self, of: Sequence[Names]) -> None:
        """Kafka assigns a share group's partitions after it has stored their start offsets."""
        joins = [(kafka_rights.join_sharers(each, each.sharers), 1) for each in of]

        def are_made() -> bool:
            made = [answer.assignment for answer in self.until_done(joins)]
            return all(each is not None and each.topic_partitions for each in made)

        until(are_made)

    def begin_sessions(self, of: Sequence[Names]) -> None:
        """Of share consumers; a ShareAcknowledge of before may have ended them."""
        self.until_done([(kafka_rights.share_fetch(each, kafka_rights.SHARER), 1) for each in of])


class Token(NamedTuple):
    id: str
    hmac: bytes


NO_TOKEN = Token("", b"")
OF_TOKENS = {"token_id", "token_hmac", "renewed_hmac"}


@dataclass
class Things:
    site: Site
    begin: str
    wanted: set[str]
    topic_id: UUID = kafka_rights.NO_UUID
    producer: tuple[int, int] = (-1, -1)
    tokens: tuple[Token, Token] = (NO_TOKEN, NO_TOKEN)  # the second has renewers

    def name(self, what: str) -> str:
        return f"{self.begin}.{what}"

    def names(self) -> Names:
        own = {each.name: self.name(each.name) for each in fields(Names) if each.type == "str"}
        of_site = {"log_dir": self.site.log_dir, "token_id": self.tokens[0].id}
        return Names(**{**own, **of_site}, topic_id=self.topic_id, producer_id=self.producer[0],
                     producer_epoch=self.producer[1], token_hmac=self.tokens[0].hmac,
                     renewed_hmac=self.tokens[1].hmac)  # fmt: skip

    def token_requests(self) -> list[tuple[Any, int]]:
        made = CreateDelegationTokenRequest
        renewers = [made.CreatableRenewers("User", each.removeprefix("User:"))
                    for each in PRINCIPALS.values()]  # fmt: skip
        owner = "User", self.name("owner")
        return [(made(*owner, own, -1), 3) for own in ([], renewers)]

    def requests(self) -> list[tuple[Any, int]]:
        n, made = self.names(), list[tuple[Any, int]]()
        if "group" in self.wanted:
            made.append((kafka_rights.offset_commit(n), 8))
        if "consumers" in self.wanted:
            made.append((kafka_rights.join_consumers(n, n.consumers), 1))
        if "sharers" in self.wanted:
            made.append((kafka_rights.join_sharers(n, n.sharers), 1))
        if "streamers" in self.wanted:
            made.append((kafka_rights.join_streamers(n, n.streamers), 0))
        if "empty_sharers" in self.wanted:
            made.append((kafka_rights.alter_share_offsets(n.topic, n.empty_sharers), 0))
        return made


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
