"""Operational metrics: hosts send their figures, a monitor watches them and raises an alert.

    python examples/metrics_alert.py

Each host sends its samples in lists, with its name as the key: all samples of a host are in one
partition, in their order. The monitor averages the error rate of the last samples of each host. An
alert is raised once, when the average passes the limit, and ended once, when it is well below.
Alerts are records themselves, sent synchronously: the monitor goes on when they are on disk.
"""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from brokers import arguments, brokers

from appliance.client import FetchConfig, Producer, ProducerConfig, SimpleConsumer

METRICS, ALERTS = "metrics", "alerts"
HOSTS = ["web-1", "web-2", "web-3", "db-1"]
SECONDS = 120
SICK_HOST, SICK_FROM, SICK_UNTIL = "web-2", 40, 70
WINDOW = 10  # samples, one a second
LIMIT, WELL = 0.05, 0.02  # two of them, so that an average near the limit does not flutter


@dataclass
class Watch:
    """What the monitor knows of one host."""

    host: str
    samples: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    is_raised: bool = False

    def take(self, second: int, error_rate: float) -> dict[str, Any] | None:
        """The alert that begins or ends with this sample, if one does."""
        self.samples.append(error_rate)
        mean = sum(self.samples) / WINDOW
        if not self.is_raised and mean > LIMIT:
            self.is_raised = True
        elif self.is_raised and mean < WELL:
            self.is_raised = False
        else:
            return None
        state = "raised" if self.is_raised else "ended"
        return {"host": self.host, "second": second, "state": state, "mean": round(mean, 4)}


def samples_of(host: str, chance: random.Random) -> Iterator[bytes]:
    for second in range(SECONDS):
        is_sick = host == SICK_HOST and SICK_FROM <= second < SICK_UNTIL
        rate = chance.uniform(0.1, 0.3) if is_sick else chance.uniform(0.0, 0.01)
        yield json.dumps({"second": second, "error_rate": rate}).encode()


def send_samples(broker_list: str) -> int:
    """As the hosts' agents would: ten seconds of samples at a time."""
    chance, sent = random.Random(1), 0
    with Producer(ProducerConfig(broker_list=broker_list, compression="lz4")) as producer:
        for host in HOSTS:
            samples = list(samples_of(host, chance))
            for at in range(0, SECONDS, 10):
                outcomes = producer.send(METRICS, samples[at : at + 10], key=host.encode())
                sent += sum(len(each.records) for each in outcomes)
    return sent


def monitor(broker_list: str) -> list[dict[str, Any]]:
    """Reads all that is there and returns the alerts that it raised."""
    watches: dict[str, Watch] = {}
    alerts: list[dict[str, Any]] = []
    with (
        Producer(ProducerConfig(broker_list=broker_list)) as producer,
        SimpleConsumer(FetchConfig(broker_list=broker_list)) as consumer,
    ):
        for partition in consumer.cluster.partitions(METRICS):
            offset = 0
            while (messages := consumer.fetch(METRICS, partition, offset)).next_offset > offset:
                offset = messages.next_offset
                for message in messages:
                    host, sample = (message.key or b"").decode(), json.loads(message.value or b"")
                    watch = watches.setdefault(host, Watch(host))
                    alert = watch.take(sample["second"], sample["error_rate"])
                    if alert:
                        producer.send(ALERTS, json.dumps(alert).encode(), key=host.encode())
                        alerts.append(alert)
    return alerts


def main() -> None:
    words = arguments(__doc__).parse_args()
    with brokers(words.broker_list, partitions=3) as broker_list:
        print(f"{send_samples(broker_list)} samples of {len(HOSTS)} hosts")
        for alert in monitor(broker_list):
            print("alert {state} for {host} at second {second}, mean {mean}".format(**alert))


if __name__ == "__main__":
    main()
