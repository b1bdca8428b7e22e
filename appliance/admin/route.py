"""Routes of the REST API, and how a request becomes a call of a handler.

    ROUTES = [
        get("/topics/{topic}", describe, Topic, "One topic with its partitions."),
        post("/topics", create, Topic, "Create a topic.", body=NewTopic, status=201),
    ]

A route has a role, and `rights`, which count instead of it once access rules are enforced: None
means that the role alone decides then, too, and `()` that the handler asks for itself, or shows to
each what it may see.

A handler takes a `Call` and returns a value of the route's type, which is sent as JSON; a handler
of other content returns a response. It raises refusals: the Kafka code of an `ApplianceError` gives
the status. `api.py` serves the routes, `openapi.py` describes them.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web

from appliance.access.acls import ResourceType
from appliance.admin import body_schema
from appliance.admin.broker_process import Process
from appliance.admin.partition_snapshot import Survey
from appliance.admin.rights import SOME, Described, Right, Rights
from appliance.admin.shared_responses import Shared
from appliance.admin.stream_limit import Streams
from appliance.broker.broker import Broker
from appliance.bulk.reader_threads import Reading
from appliance.config import LONG_MAX
from appliance.config.config_key import boolean, whole
from appliance.config.setting import range_in_words
from appliance.errors import ApplianceError, Refused, RequestInvalid
from appliance.protocol import ErrorCode

if TYPE_CHECKING:
    from appliance.admin.audit import Trail
    from appliance.admin.bulk_tickets import Tickets
    from appliance.admin.guard import Guard
    from appliance.admin.mirrors import Mirrors
    from appliance.admin.topic_schemas import Schemas
    from appliance.admin.users import Identity  # all of them know of routes

PREFIX = "/api/v1"

# In rising order. ANYONE includes requests without a login.
ROLES = ANYONE, VIEWER, OPERATOR, ADMIN = "anyone", "viewer", "operator", "admin"

# A request is read into memory before it is checked. One with messages to produce is the largest.
BODY_BYTES_MAX = 4 << 20

READERS: dict[type, Callable[[str], Any]] = {bool: boolean, int: whole, str: str}

LOOKS_MAX = 2  # into logs at a time; others wait, so that looking cannot hurt the broker


class NotServing(ApplianceError):
    """The logs are still being recovered, or the broker stops."""

    kafka_code = 15


@dataclass(frozen=True)
class Param:
    """A parameter of the query. With the default None it is optional."""

    name: str
    kind: type
    text: str
    default: Any = None
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()

    def read(self, query: Mapping[str, str]) -> Any:
        if self.name not in query:
            return self.default
        text = query[self.name]
        value = READERS[self.kind](text)
        if value is None or not self._is_allowed(value):
            raise RequestInvalid(f"{self.name}: got {text[:80]!r}, wanted {self.wanted}")
        return value

    def _is_allowed(self, value: Any) -> bool:
        if self.kind is not int:
            return not self.choices or value in self.choices
        low = -LONG_MAX - 1 if self.minimum is None else self.minimum
        high = LONG_MAX if self.maximum is None else self.maximum
        return bool(low <= value <= high)

    @property
    def wanted(self) -> str:
        if self.kind is int:
            return "a whole number" + range_in_words(self.minimum, self.maximum)
        return "one of " + ", ".join(self.choices) if self.choices else "true or false"

    def schema(self) -> dict[str, Any]:
        found = body_schema.schema(self.kind)
        facts = {"minimum": self.minimum, "maximum": self.maximum, "default": self.default}
        found |= {name: value for name, value in facts.items() if value is not None}
        return {**found, "enum": list(self.choices)} if self.choices else found


@dataclass
class AdminServices:
    """The state that all calls share."""

    process: Process
    survey: Survey
    guard: Guard
    trail: Trail
    schemas: Schemas
    mirrors: Mirrors
    reading: Reading
    tickets: Tickets
    looks: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LOOKS_MAX))
    shared: Shared = field(default_factory=Shared)

    def __post_init__(self) -> None:
        self.streams = Streams(self.process.config.admin.streams_per_user)

    def changed(self) -> None:
        """Makes the next response show the change."""
        self.survey.forget()
        self.shared.forget()


@dataclass
class Call:
    """One request, for its handler."""

    process: Process
    survey: Survey
    guard: Guard
    schemas: Schemas
    mirrors: Mirrors
    reading: Reading  # of bulk data
    tickets: Tickets  # for the bulk port
    trail: Trail
    looks: asyncio.Semaphore  # for reading messages
    request: web.Request
    params: dict[str, Any]
    body: Any
    identity: Identity
    rights: Rights
    route: Route

    @property
    def who(self) -> str:
        return self.identity.who

    @property
    def path(self) -> Mapping[str, str]:
        return self.request.match_info

    @property
    def broker(self) -> Broker:
        broker = self.process.broker
        if broker is None or self.process.status != "ok":
            raise NotServing(f"the broker is {self.process.status}")
        return broker

    def may_go_on(self) -> bool:
        """A stream ends with the session, and with the right: it checks both again."""
        return self.guard.may_go_on(self.request, self.route)

    def described_topics(self) -> Described:
        return self.rights.described(ResourceType.TOPIC)


Handler = Callable[[Call], Any | Awaitable[Any]]


@dataclass(frozen=True)
class Route:
    method: str
    path: str  # below the prefix
    handler: Handler
    answer: Any  # type of the response; None: none
    text: str
    role: str
    params: tuple[Param, ...] = ()
    body: Any = None  # type of the body
    status: int = 200
    media: str = "application/json"  # of the response
    prefix: str = PREFIX
    is_noted: bool = True  # in the audit trail, if it changes something and needs a login
    redirects: bool = False  # to the bulk port
    reads_messages: bool = False  # which is a right of its own, and noted in the audit trail
    rights: tuple[Right, ...] | None = None  # instead of the role, once rules are enforced
    either: tuple[Right, ...] = ()  # one of these, too
    asks: str = ""  # in words, which rights the handler asks for
    version: Callable[[Call], Hashable] | None = None  # of what it tells, if all share one answer

    @property
    def url(self) -> str:
        return self.prefix + self.path

    @property
    def wanted_rights(self) -> tuple[Right, ...]:
        """That somebody must have to be let in at all: with the first of the alternatives."""
        return (*(self.rights or ()), *self.either[:1])

    @property
    def rights_in_words(self) -> str:
        parts = [str(each) for each in self.rights or () if each.name != SOME]
        if self.either:
            parts.append(" or ".join(str(each) for each in self.either))
        if self.asks:
            parts.append(self.asks)
        return "; ".join(parts) or "a login"

    @property
    def is_long(self) -> bool:
        """Its response has no end, or a late one."""
        return self.media in ("text/event-stream", "application/octet-stream")

    @property
    def has_audit(self) -> bool:
        """Changes of state, but not repeated reports. Requests without a login write nothing: their
        handlers note successful ones."""
        return self.method != "GET" and self.is_noted and self.role != ANYONE

    async def call(self, services: AdminServices, request: web.Request, identity: Identity) -> Call:
        known = {each.name for each in self.params}
        for name in request.query:
            if name not in known:
                wanted = f"wanted {', '.join(sorted(known))}" if known else "it takes none"
                raise RequestInvalid(f"{name[:80]}: no such parameter, {wanted}")
        params = {each.name: each.read(request.query) for each in self.params}
        most = BODY_BYTES_MAX
        if self.role == ANYONE:
            most = services.process.config.admin.stranger_body_max_bytes
        body = await self._body(request, most) if self.body is not None else None
        return Call(
            services.process, services.survey, services.guard, services.schemas, services.mirrors,
            services.reading, services.tickets, services.trail, services.looks, request, params,
            body, identity, services.guard.rights(identity, request), self,
        )  # fmt: skip

    async def _body(self, request: web.Request, most: int) -> Any:
        size = request.content_length or 0
        if size > most:
            text = f"body: got {size} bytes, wanted at most {most}"
            raise Refused(ErrorCode.MESSAGE_TOO_LARGE, text)
        if request.content_type != "application/json":
            raise body_schema.BodyInvalid(
                f"body: got content type {request.content_type}, wanted application/json"
            )
        value = value_of(await sent(request, most))
        body_schema.check(value, self.body)
        return value


async def sent(request: web.Request, most: int) -> bytes:
    """A body, which arrives in pieces and may not have a length."""
    found = bytearray()
    try:
        while piece := await request.content.readany():
            found += piece
            if len(found) > most:
                raise Refused(ErrorCode.MESSAGE_TOO_LARGE, f"body: wanted at most {most} bytes")
    except (OSError, web.RequestPayloadError) as error:
        told = f"body: it ended after {len(found)} bytes: {error}"
        raise body_schema.BodyInvalid(told) from error
    return bytes(found)


def value_of(data: bytes) -> Any:
    try:
        value = json.loads(data, parse_constant=_no_number, parse_float=_float)
        if b"\\ud" in data.lower():
            json.dumps(value, ensure_ascii=False).encode()  # unpaired surrogates are no text
    except (ValueError, RecursionError) as error:
        raise body_schema.BodyInvalid(f"body: no JSON: {str(error)[:200]}") from error
    return value


def _no_number(text: str) -> float:
    raise ValueError(f"got {text}, wanted a number")


def _float(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(text[:40])


@dataclass(frozen=True)
class Method:
    """`get(path, handler, answer, text, ...)` creates a route."""

    name: str
    role: str
    facts: dict[str, Any] = field(default_factory=dict)

    def __call__(self, path: str, handler: Handler, answer: Any, text: str, **facts: Any) -> Route:
        chosen = {"role": self.role, **self.facts, **facts}
        return Route(self.name, path, handler, answer, text, **chosen)


get = Method("GET", VIEWER)
post = Method("POST", OPERATOR)
put = Method("PUT", OPERATOR)
patch = Method("PATCH", OPERATOR)
delete = Method("DELETE", OPERATOR, {"status": 204})
