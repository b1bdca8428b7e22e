"""Activity tracking: what visitors do on a web site, as one feed that anybody may read.

    python examples/activity_feed.py

Front ends tell what happens and never wait for a broker: their producer is asynchronous, its queue
is bounded, and what finds no room is counted and dropped, because a page must not be slow for its
statistics. Two readers follow the same feed, each at its own pace and with its own offsets; neither
knows of the other.
"""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from typing import Any

from brokers import arguments, brokers

from appliance.client import (
    BrokerPartition,
    CallbackHandler,
    Encoder,
    FetchConfig,
    Outcome,
    Producer,
    ProducerConfig,
    QueueFull,
    Records,
    SimpleConsumer,
)

FEED = "activity"
FRONT_ENDS = 3
PAGES = ["/", "/jobs", "/people", "/inbox", "/news"]
WORDS = ["kafka", "zebra", "piano", "harbour"]


class AsJson(Encoder):
    def encode(self, value: Any) -> bytes:
        return json.dumps(value, separators=(",", ":")).encode()

    def encode_key(self, key: Any) -> bytes:
        return str(key).encode()


class Tally(CallbackHandler):
    """What became of the events. Every one of them is counted once."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()  # the hooks run in several threads

    def after_enqueue(self, records: Records, is_added: bool) -> None:
        if not is_added:
            self._count("dropped", len(records))

    def after_send(self, outcome: Outcome) -> None:
        self._count("failed" if outcome.error else "in the feed", len(outcome.records))

    def _count(self, what: str, count: int) -> None:
        with self._lock:
            self.counts[what] += count


def serve_pages(producer: Producer, number: int, events: int) -> None:
    """One front end. The key is the member, so that his events stay in their order."""
    chance = random.Random(number)
    for _ in range(events):
        member = chance.randrange(1000)
        if chance.random() < 0.2:
            event = {"kind": "search", "member": member, "words": chance.choice(WORDS)}
        else:
            event = {"kind": "view", "member": member, "page": chance.choice(PAGES)}
        try:
            producer.send(FEED, event, key=member)
        except QueueFull:
            continue  # the page goes out; the tally has counted it


def read_feed(broker_list: str, kind: str, field: str) -> Counter[str]:
    """Everything that is in the feed now, of one kind, by one field."""
    found: Counter[str] = Counter()
    with SimpleConsumer(FetchConfig(broker_list=broker_list)) as consumer:
        for partition in consumer.cluster.partitions(FEED):
            for event in events_of(consumer, partition):
                if event["kind"] == kind:
                    found[event[field]] += 1
    return found


def events_of(consumer: SimpleConsumer, partition: BrokerPartition) -> Any:
    offset = 0
    while True:
        messages = consumer.fetch(FEED, partition, offset)
        if messages.next_offset == offset:
            return
        yield from (json.loads(message.value or b"") for message in messages)
        offset = messages.next_offset


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--events", type=int, default=5000, help="of each front end")
    words = parser.parse_args()
    tally = Tally()
    with brokers(words.broker_list, count=2, partitions=2) as broker_list:
        config = ProducerConfig(
            broker_list=broker_list,
            producer_type="async",
            queue_enqueue_timeout=0,
            compression="zstd",
        )
        with Producer(config, encoder=AsJson(), callback_handler=tally) as producer:
            threads = [
                threading.Thread(target=serve_pages, args=(producer, number, words.events))
                for number in range(FRONT_ENDS)
            ]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
        print("told:", ", ".join(f"{count} {what}" for what, count in tally.counts.items()))
        views = read_feed(broker_list, "view", "page")
        print("most viewed:", ", ".join(f"{page} {n}" for page, n in views.most_common()))
        searches = read_feed(broker_list, "search", "words")
        print("searched for:", ", ".join(f"{term} {n}" for term, n in searches.most_common()))
        print("read by both:", views.total() + searches.total())


if __name__ == "__main__":
    main()
