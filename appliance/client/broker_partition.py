"""The name of a partition among all brokers."""

from __future__ import annotations

from dataclasses import dataclass

NO_BROKER = -1


@dataclass(frozen=True, order=True)
class BrokerPartition:
    """Independent brokers each have partitions from 0 on, so the name includes the broker's id. In
    a replicated cluster the number is enough, and its leader may change."""

    broker: int  # NO_BROKER in a replicated cluster
    partition: int

    @classmethod
    def parse(cls, text: str) -> BrokerPartition:
        """Of `1-0` or `0`, as `str` writes it; ValueError for anything else."""
        broker, _, partition = text.rpartition("-")
        return cls(int(broker) if broker else NO_BROKER, int(partition))

    def __str__(self) -> str:
        alone = str(self.partition)
        return alone if self.broker == NO_BROKER else f"{self.broker}-{alone}"
