"""What leaders of share partitions may ask of a share coordinator. They are other brokers, and what
they send is written as it is: a state that could not be read again would cost the share partition
all that it has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from appliance.access.kept_per_address import check_name
from appliance.errors import RequestInvalid
from appliance.protocol import ErrorCode
from appliance.share.runs import StateBatch
from appliance.share.served_partition import UNDECIDED
from appliance.share.state_log import KEPT, SharePartitionKey, Stored
from appliance.share.states import RecordState, ShareRefused

OFFSET_MAX = 2**63 - 2  # the next one is an offset, too


class AskedBatch(Protocol):
    """As on the wire."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


def check_key(key: SharePartitionKey) -> None:
    if not key.group:
        raise ShareRefused(ErrorCode.INVALID_GROUP_ID, "the group's id is empty")
    check_name("group", key.group)
    if key.partition < 0:
        raise RequestInvalid(f"got partition {key.partition}, wanted 0 or more")


def check_begin(key: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
    if state_epoch < 0:
        raise RequestInvalid(f"{key.owner}: got state epoch {state_epoch}, wanted 0 or more")
    check_start(key, start_offset)


def check_start(key: SharePartitionKey, start_offset: int) -> None:
    if not UNDECIDED <= start_offset <= OFFSET_MAX:
        raise RequestInvalid(
            f"{key.owner}: got start offset {start_offset}, wanted {UNDECIDED} to {OFFSET_MAX}"
        )


def state_batches(key: SharePartitionKey, rows: Iterable[AskedBatch]) -> list[StateBatch]:
    return [_state_batch(key, each) for each in rows]


def _state_batch(key: SharePartitionKey, row: AskedBatch) -> StateBatch:
    first, last = row.first_offset, row.last_offset
    if not 0 <= first <= last <= OFFSET_MAX:
        raise RequestInvalid(
            f"{key.owner}: got offsets {first} to {last}, wanted some from 0 to {OFFSET_MAX}"
        )
    if row.delivery_state not in KEPT:
        raise RequestInvalid(
            f"{key.owner}: offsets {first} to {last}: got state {row.delivery_state}, wanted one "
            f"of {sorted(map(int, KEPT))}"
        )
    if row.delivery_count < 0:
        raise RequestInvalid(
            f"{key.owner}: offsets {first} to {last}: got delivery count {row.delivery_count}, "
            "wanted 0 or more"
        )
    return StateBatch(first, last, RecordState(row.delivery_state), row.delivery_count)


def check_leader(key: SharePartitionKey, leader_epoch: int, own: Stored) -> None:
    if leader_epoch < own.leader_epoch:
        raise ShareRefused(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"{key.owner}: got leader epoch {leader_epoch}, now it is {own.leader_epoch}",
        )


def check_state(key: SharePartitionKey, state_epoch: int, own: Stored) -> None:
    if state_epoch < own.state_epoch:
        raise ShareRefused(
            ErrorCode.FENCED_STATE_EPOCH,
            f"{key.owner}: got state epoch {state_epoch}, now it is {own.state_epoch}",
        )
