"""Transactions, and the topic in which they are kept."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.config.setting import DAY_MS, HOUR_MS, MIB, SECOND_MS, Part, setting


@dataclass(frozen=True)
class TransactionsConfig(Part):
    max_timeout_ms: int = setting(
        "transaction.max.timeout.ms",
        900 * SECOND_MS,
        "Longest timeout of a transactional producer: readers of committed records wait that long "
        "for a dead one.",
        minimum=1,
        maximum=2**31 - 1,
    )
    timeout_check_ms: int = setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        SECOND_MS,
        "How often timed-out transactions are aborted. Kafka's 10 s would be added to each "
        "timeout.",
        minimum=1,
    )
    expiration_ms: int = setting(
        "transactional.id.expiration.ms",
        7 * DAY_MS,
        "How long an unused transactional id is kept. It must exceed its producer's pauses: a "
        "later producer gets an error that its id is unknown.",
        minimum=1,
    )
    expiration_check_ms: int = setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        3600 * SECOND_MS,
        "How often expired transactional ids are deleted.",
        minimum=1,
    )
    log_partitions: int = setting(
        "transaction.state.log.num.partitions",
        1,
        "Partitions of __transaction_state at its creation. Transactions that end together share "
        "one sync of one file; Kafka's 50 spread producers over brokers.",
        minimum=1,
        maximum=1000,
    )
    log_segment_bytes: int = setting(
        "transaction.state.log.segment.bytes",
        8 * MIB,
        "Segment size of __transaction_state at its creation. Only sealed segments are compacted, "
        "and a start reads the rest.",
        minimum=MIB,
        maximum=2**31 - 1,
    )
    write_timeout_ms: int = setting(
        "transaction.state.log.write.timeout.ms",
        5 * SECOND_MS,
        "How long a record or a marker of a transaction may wait for the disk before its client "
        "gets a retriable error.",
        minimum=1,
        maximum=HOUR_MS,
    )
