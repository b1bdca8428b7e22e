"""Lanes and tracks of a sender: the connection to a broker, and the queue of a partition."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field

from appliance.client.batch import Batch, Identity
from appliance.client.broker_partition import BrokerPartition
from appliance.client.connection import Connection
from appliance.errors import ApplianceError


@dataclass(eq=False)
class Lane:
    broker: int
    connection: Connection | None = None
    connecting: Future[Connection] | None = None
    requests: deque[list[Batch]] = field(default_factory=deque)  # in flight
    failures: int = 0  # in a row
    retry_at: float = 0.0
    error: ApplianceError | None = None  # the last


@dataclass(eq=False)
class Track:
    topic: str
    partition: BrokerPartition
    waiting: deque[Batch] = field(default_factory=deque)
    in_flight: deque[Batch] = field(default_factory=deque)
    lane: Lane | None = None  # of its batches in flight
    identity: Identity | None = None
    is_retrying: bool = False
    retry_at: float = 0.0
    error: ApplianceError | None = None  # the last
