"""Exactly once into SQLite: the offset is stored in the transaction that stores the output.

    python examples/exactly_once_sqlite.py

Orders are added up per account in a database, by a process that is killed now and then, just before
it would have committed. Each chunk of orders changes the sums and the offset in one transaction:
after a kill both are there or neither is. The next process begins where the database says that the
sums end, so every order counts once, although nothing was ever committed to the broker or to
ZooKeeper.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from brokers import arguments, brokers

from appliance.client.broker_partition import BrokerPartition
from appliance.client.consumer_config import FetchConfig
from appliance.client.producer import Producer
from appliance.client.producer_config import ProducerConfig
from appliance.client.simple_consumer import MessageSet, SimpleConsumer

ORDERS = "orders"
ACCOUNTS = 100
CHUNK = 50  # orders sent together, and so read together
CHUNK_BYTES = 1024  # of a fetch: a chunk or two
TABLES = """
    CREATE TABLE IF NOT EXISTS sums (account INTEGER PRIMARY KEY, orders INTEGER, cents INTEGER);
    CREATE TABLE IF NOT EXISTS offsets (partition TEXT PRIMARY KEY, next INTEGER);
"""
ADD = """
    INSERT INTO sums VALUES (?, 1, ?)
    ON CONFLICT DO UPDATE SET orders = orders + 1, cents = cents + excluded.cents
"""
MOVE = "INSERT INTO offsets VALUES (?, ?) ON CONFLICT DO UPDATE SET next = excluded.next"


def opened(file: Path) -> sqlite3.Connection:
    database = sqlite3.connect(file, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.executescript(TABLES)
    return database


# The consumer


def add_up(broker_list: str, file: Path, killed_at: int) -> None:
    """All that is there now, from where the database says."""
    config = FetchConfig(broker_list=broker_list, fetch_size=CHUNK_BYTES, fetch_wait_max_ms=0)
    with closing(opened(file)) as database, SimpleConsumer(config) as consumer:
        for partition in consumer.cluster.partitions(ORDERS):
            for chunk in chunks(consumer, partition, stored_offset(database, partition)):
                store(database, chunk, killed_at)


def stored_offset(database: sqlite3.Connection, partition: BrokerPartition) -> int:
    wanted = "SELECT next FROM offsets WHERE partition = ?"
    found = database.execute(wanted, [str(partition)]).fetchone()
    return found[0] if found else 0


def chunks(
    consumer: SimpleConsumer, partition: BrokerPartition, offset: int
) -> Iterator[MessageSet]:
    while (chunk := consumer.fetch(ORDERS, partition, offset)).next_offset > offset:
        yield chunk
        offset = chunk.next_offset


def store(database: sqlite3.Connection, chunk: MessageSet, killed_at: int) -> None:
    database.execute("BEGIN IMMEDIATE")
    for message in chunk:
        order = json.loads(message.value or b"")
        database.execute(ADD, [order["account"], order["cents"]])
    database.execute(MOVE, [str(chunk.partition), chunk.next_offset])
    if orders_in(database) >= killed_at:
        os.kill(os.getpid(), signal.SIGKILL)
    database.execute("COMMIT")


# The example


def send_orders(broker_list: str, count: int) -> Counter[int]:
    """The sums as they must come out: cents by account."""
    chance, sums = random.Random(1), Counter[int]()
    with Producer(ProducerConfig(broker_list=broker_list)) as producer:
        for first in range(0, count, CHUNK):
            orders = []
            for _ in range(first, min(first + CHUNK, count)):
                account, cents = chance.randrange(ACCOUNTS), chance.randrange(1, 10_000)
                sums[account] += cents
                orders.append(json.dumps({"account": account, "cents": cents}).encode())
            producer.send(ORDERS, orders)
    return sums


def run_until(killed_at: int, broker_list: str, file: Path) -> int:
    """Runs the consumer, which is killed when it is about to store the order of that number; how
    many are stored then."""
    command = [sys.executable, __file__, "--broker-list", broker_list, "--into", str(file)]
    code = subprocess.run([*command, "--killed-at", str(killed_at)]).returncode
    if code not in (0, -signal.SIGKILL):
        raise SystemExit(f"the consumer failed with code {code}")
    with closing(opened(file)) as database:
        return orders_in(database)


def orders_in(database: sqlite3.Connection) -> int:
    (count,) = database.execute("SELECT coalesce(sum(orders), 0) FROM sums").fetchone()
    return int(count)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--orders", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--into", type=Path, help="be the consumer, and add up into this database")
    parser.add_argument("--killed-at", type=int, help="the order that is not stored any more")
    words = parser.parse_args()
    if words.into:
        add_up(words.broker_list, words.into, words.killed_at)
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        brokers(words.broker_list, count=2, partitions=2) as broker_list,
    ):
        sent = send_orders(broker_list, words.orders)
        file = Path(folder, "sums.db")
        for number in range(1, words.kills + 1):
            at = run_until(words.orders * number // (words.kills + 1), broker_list, file)
            print(f"killed at {at} of {words.orders} orders")
        at = run_until(words.orders + 1, broker_list, file)
        with closing(opened(file)) as database:
            found = dict(database.execute("SELECT account, cents FROM sums"))
        print(f"in the database: {at} orders, {sum(found.values())} cents")
        print(f"as sent: {words.orders} orders, {sent.total()} cents")
        print(f"accounts that differ: {len(dict(found.items() ^ sent.items()))}")


if __name__ == "__main__":
    main()
