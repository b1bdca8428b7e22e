"""Silent transactions are aborted, and ids that nobody uses are forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.process import event_log
from appliance.txn.states import PREPARED

if TYPE_CHECKING:
    from appliance.txn.coordinator import Coordinator

logger = event_log.named("transactions")


def tick(coordinator: Coordinator, now: int) -> None:
    """Aborts what is silent for too long, and goes on with ends that were held up."""
    if coordinator.adoption.unread:
        coordinator.tasks.run(coordinator.adoption.read_served())
    table = coordinator.table
    for name in list(table.open):
        transaction = table.transactions[name]
        if transaction.is_silent(now):
            coordinator.tasks.run(_abort_silent(coordinator, name, now))
        elif transaction.state in PREPARED:
            coordinator.decided_ends.complete_again(transaction)


async def _abort_silent(coordinator: Coordinator, name: str, now: int) -> None:
    async with coordinator.turn(name):
        transaction = coordinator.table.transactions.get(name)
        if transaction is not None and transaction.is_silent(now):
            logger.info("a silent transaction is aborted", transactional_id=name)
            await coordinator.decided_ends.abort(transaction)


def expire(coordinator: Coordinator, wall: int) -> None:
    """Forgets ids that nobody used for so long."""
    expiration_ms = coordinator.config.expiration_ms
    for transaction in list(coordinator.table.transactions.values()):
        if transaction.is_expired(wall, expiration_ms):
            coordinator.tasks.run(_expire(coordinator, transaction.id, wall))


async def _expire(coordinator: Coordinator, name: str, wall: int) -> None:
    async with coordinator.turn(name):
        transaction = coordinator.table.transactions.get(name)
        expiration_ms = coordinator.config.expiration_ms
        if transaction is not None and transaction.is_expired(wall, expiration_ms):
            await coordinator.table.forget(transaction)
