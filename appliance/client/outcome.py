"""Records of a producer, and their outcomes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from appliance.client.broker_partition import BrokerPartition
from appliance.client.errors import BrokerUnavailable, ClientError
from appliance.errors import ApplianceError

Headers = tuple[tuple[str, bytes | None], ...]


class QueueFull(ClientError):
    """Records that did not fit into the queue. `added` records of the same call are in it."""

    def __init__(self, facts: str, added: int) -> None:
        super().__init__(facts)
        self.added = added


class ProducerClosed(ClientError):
    """The producer is closed, or was closed before it sent these."""


class SendInterrupted(ClientError):
    """An exception, such as KeyboardInterrupt, ended the `send` of these records."""


class DeliveryTimedOut(BrokerUnavailable):
    """Not acknowledged in time; the text has the last event."""


class HookFailed(ClientError):
    """Code of the user raised an exception, or the producer's own one that is not known here; it is
    the cause of this one."""


def failure(hook: str, error: Exception) -> ApplianceError:
    failed = HookFailed(f"{hook}: {error!r}")
    failed.__cause__ = error
    return failed


def told_as(error: Exception) -> ApplianceError:
    return error if isinstance(error, ApplianceError) else failure("producer", error)


@dataclass(frozen=True, slots=True)
class Records:
    """Records of one topic from the user, in order; `keys` None: none has a key."""

    topic: str
    values: list[Any]
    keys: list[Any] | None = None
    timestamp: int = -1  # ms since 1970 when the user passed them
    headers: list[Headers] | None = None  # of each; None: none has any

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, itertools.islice(self, 1)))
        return f"Records({len(self)} of {self.topic!r}: {shown}{', ...' if len(self) > 1 else ''})"

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        """Pairs of key and value."""
        keys: Iterable[Any] = (None for _ in self.values) if self.keys is None else self.keys
        return zip(keys, self.values, strict=True)

    def cut(self, start: int, stop: int) -> Records:
        if start == 0 and stop >= len(self.values):
            return self
        keys = None if self.keys is None else self.keys[start:stop]
        headers = None if self.headers is None else self.headers[start:stop]
        return Records(self.topic, self.values[start:stop], keys, self.timestamp, headers)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result for these records of one batch."""

    records: Records
    partition: BrokerPartition | None  # None: failed before that
    base_offset: int = -1  # of the first; -1: unknown
    error: ApplianceError | None = None  # None: acknowledged
    may_be_written: bool = False  # with an error: sent, but the response was lost

    @property
    def is_acknowledged(self) -> bool:
        return self.error is None


class SendFailed(ClientError):
    """Not all records were acknowledged; `outcomes` has the result of each. Its fields are those in
    which all failures agree; retriable: all of them are."""

    def __init__(self, outcomes: list[Outcome]) -> None:
        failed = [each for each in outcomes if each.error]
        count = sum(len(each.records) for each in failed)
        given = sum(len(each.records) for each in outcomes)
        super().__init__(f"{count} of {given} records failed, the first with: {failed[0].error}")
        self.outcomes = outcomes
        self.retriable = all(each.error.retriable for each in failed if each.error)
        for name in ("topic", "partition", "broker", "code"):
            told = {getattr(each.error, name, None) for each in failed}
            if len(told) == 1:
                setattr(self, name, told.pop())
