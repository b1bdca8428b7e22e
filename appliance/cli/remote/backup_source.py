"""A running broker as a backup reads it, over its ports of HTTP."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from appliance.backup.errors import (
    OffsetsGone,
    PointLost,
    SourceBroke,
    SourceRefused,
    TopicGone,
)
from appliance.backup.point import LogAt
from appliance.backup.source import Readable
from appliance.cli.remote.api import PREFIX, part
from appliance.cli.remote.rest import Rest, RestRefused, RestUnreached

OUTCOMES = f"{PREFIX}/backup/outcomes"
POINTS = f"{PREFIX}/backup/points"
BULK = "/export/v1"
# A broker that starts, stops, has no stream left, or knows no leader just now.
LATER = (421, 429, 502, 503, 504)
TICKET = "ticket_used"  # the port of bulk data was restarted behind the redirect
HINT = ". A backup is an administrator's: `appliance login`, --token-file or APPLIANCE_TOKEN"


@dataclass(frozen=True)
class Stream:
    answer: IO[bytes]

    def read(self, size: int) -> bytes:
        try:
            return self.answer.read(size)
        except (http.client.HTTPException, OSError) as error:
            raise SourceBroke(f"the answer broke off: {error!r}") from error


@dataclass(frozen=True)
class BrokerSource:
    rest: Rest

    def take_point(self) -> Any:
        with telling():
            return self.rest.ask("POST", POINTS, None, {})

    def renew_point(self, point: str) -> None:
        with telling(PointLost):
            self.rest.ask("PUT", f"{POINTS}/{part(point)}", None, {})

    def end_point(self, point: str) -> None:
        with telling(PointLost):
            self.rest.ask("DELETE", f"{POINTS}/{part(point)}", None, {})

    def report(self, **outcome: Any) -> None:
        """What came of it, for the broker's health."""
        with telling():
            self.rest.ask("POST", OUTCOMES, outcome, {})

    @contextmanager
    def batches(self, log: LogAt, start: int | None, end: int) -> Iterator[Readable]:
        path = f"{BULK}/topics/{part(log.topic)}/partitions/{log.partition}/batches"
        query = {"start": start, "end": end, "isolation": "read_uncommitted",
                 "topic_id": log.topic_id}  # fmt: skip
        with telling(TopicGone):
            answer = self.rest.open("GET", path, None, query)
        with answer:
            yield Stream(answer)

    def holes(self, log: LogAt, start: int, end: int) -> Sequence[tuple[int, int]]:
        path = f"{BULK}/topics/{part(log.topic)}/plan"
        query = {"from": json.dumps({log.partition: start}), "to": json.dumps({log.partition: end}),
                 "isolation": "read_uncommitted", "topic_id": log.topic_id}  # fmt: skip
        with telling(TopicGone):
            (planned,) = self.rest.ask("GET", path, None, query)["partitions"]
        return [(first, behind) for first, behind in planned.get("holes", ())]


@contextmanager
def telling(missing: type[Exception] = SourceRefused) -> Iterator[None]:
    """`missing`: what it means that there is no such thing, or another of its name."""
    try:
        yield
    except RestUnreached as error:
        raise SourceBroke(str(error)) from error
    except (http.client.HTTPException, OSError) as error:
        raise SourceBroke(f"the broker's answer broke off: {error!r}") from error
    except RestRefused as error:
        if error.status in LATER or TICKET in str(error):
            raise SourceBroke(str(error)) from error
        if error.status in (404, 409):
            raise missing(str(error)) from error
        if error.status == 410:
            raise OffsetsGone(str(error)) from error
        raise SourceRefused(f"{error}{HINT if error.status in (401, 403) else ''}") from error
