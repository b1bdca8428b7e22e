"""Kills exports at random while producers run, and checks that every record is in Parquet once.

    python bench/export_kills.py --kills 100 --dir /somewhere
    python bench/export_kills.py --kills 50 --iceberg --store s3://lake/drill --dir /somewhere

Each round starts a run and after a random time kills its driver, its Python workers or the broker
(and restarts the broker), or fills the target's disk. The target is a small tmpfs, which needs
root; without root no disk is filled. The last run is undisturbed. `export verify` then checks the
target, and all files, with --iceberg and --delta also the tables, are compared with what a
foreign consumer reads from the log. Behind `--` are options of the runs, such as

    python bench/export_kills.py --kills 10 --iceberg --delta -- --layout day --zone Europe/Berlin

With --store the target is in Versity's S3 gateway, which is killed too, and is away for some
seconds. DuckDB, Spark and pyiceberg read what `export files` and the catalog name.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka as ck
import duckdb
import pyarrow.parquet as pq
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from appliance_spark.export_store_target import target_of
from bench.export_store import COLUMNS, Rows, Store, rows_of
from loadtest.ports import lasting_ports
from tests.support.spark_data import log_of

TOPIC, PARTITIONS = "clicks", 4
DISK = "256m"
KINDS = ("driver", "workers", "broker", "disk")
KINDS_OF_STORE = ("driver", "workers", "broker", "store")
AWAY_S = 10.0  # of a killed store at most: its clients try again for that long, or give up


class Broker:
    """Its ports stay the same, so that clients reconnect after a restart."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kafka, self.admin, self.export = (f"127.0.0.1:{each}" for each in lasting_ports(3))
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "appliance", "serve", "--data-dir", str(self.folder),
                   "--listen", self.kafka, "--admin", self.admin]
        with (self.folder.parent / "broker.log").open("a") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline(), "the broker did not start: see broker.log"

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        self.process.send_signal(number)
        self.process.wait()


def produce(address: str, rate: int, over: threading.Event) -> None:
    producer = ck.Producer({"bootstrap.servers": address, "enable.idempotence": True,
                            "log_level": 0, "delivery.timeout.ms": 600_000})
    number = 0
    while not over.wait(0.05):
        for _ in range(rate // 20):
            key, partition = b"%d" % number, number % PARTITIONS
            producer.produce(TOPIC, os.urandom(60), key=key, partition=partition)
            number += 1
        producer.poll(0)
    assert producer.flush(120) == 0


def children(process: int) -> list[int]:
    text = subprocess.run(["ps", "-eo", "pid,ppid"], capture_output=True, text=True, check=True)
    pairs = [tuple(map(int, line.split())) for line in text.stdout.splitlines()[1:]]
    below, todo = [], [process]
    while todo:
        parent = todo.pop()
        mine = [child for child, above in pairs if above == parent]
        below += mine
        todo += mine
    return below


def workers(process: int) -> list[int]:
    """Spark's Python processes below a driver."""
    pids = []
    for child in children(process):
        try:
            words = Path(f"/proc/{child}/cmdline").read_bytes()
        except OSError:
            continue  # the process has ended meanwhile
        if b"pyspark" in words and b"java" not in words.split(b"\0")[0]:
            pids.append(child)
    return pids


def export(verb: str, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "appliance_spark.export", verb, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def strike(
    kind: str, run: subprocess.Popen[str], broker: Broker, site: Folder | Store, away_s: float
) -> None:
    if isinstance(site, Store) and kind == "store":
        site.strike(away_s)
    elif kind == "driver":
        run.kill()
    elif kind == "workers":
        for each in workers(run.pid):
            try:
                os.kill(each, signal.SIGKILL)
            except ProcessLookupError:
                continue  # this worker ended with another one
    elif kind == "broker":
        broker.kill()
        broker.start()
    elif isinstance(site, Folder):
        site.fill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="time of the last kill")
    parser.add_argument("--rate", type=int, default=2000, help="records a second")
    parser.add_argument("--longest", type=float, default=30, help="seconds before a kill")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--iceberg", action="store_true", help="also write and compare a table")
    parser.add_argument("--delta", action="store_true", help="likewise a Delta table")
    parser.add_argument("--store", metavar="s3://BUCKET/FOLDER", help="a store as the target")
    parser.add_argument("options", nargs="*", help="of the runs, behind --")
    parser.add_argument("--dir", type=Path, help="created if it is missing")
    given = parser.parse_args()
    if given.store and given.delta:
        parser.error("--delta does not go with --store: a Delta table is in a folder")
    if given.dir is not None:
        given.dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=given.dir) as scratch:
        if given.store is not None:
            store = Store(given.store, Path(scratch))
            try:
                torture(Path(scratch), store, given, KINDS_OF_STORE)
            finally:
                store.stop()
            return
        mount = Path(scratch) / "disk"
        mount.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "none", str(mount)])
        try:
            kinds = KINDS if done.returncode == 0 else KINDS[:-1]
            torture(Path(scratch), Folder(mount / "lake", given.delta), given, kinds)
        finally:
            if done.returncode == 0:
                subprocess.run(["umount", "-l", str(mount)], check=True)


def torture(
    scratch: Path, site: Folder | Store, given: argparse.Namespace, kinds: tuple[str, ...]
) -> None:
    dice = random.Random(given.seed)
    broker = Broker(scratch / "data")
    admin = AdminClient({"bootstrap.servers": broker.kafka})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(60)
    over, struck = threading.Event(), Counter[str]()
    load = threading.Thread(target=produce, args=(broker.kafka, given.rate, over))
    load.start()
    words = ("--target", site.url, "--admin", broker.admin, *given.options)
    table = (*(("--table", "iceberg", *site.table_words) if given.iceberg else ()),
             *["--delta"] * given.delta)
    try:
        end = time.monotonic() + given.minutes * 60
        for _ in range(given.kills):
            if time.monotonic() > end:
                break
            kind = dice.choice(kinds)
            new = () if begun(site) else ("--new-target",)
            run = export("run", TOPIC, *words, *table, *new)
            try:
                run.wait(dice.uniform(0, given.longest))
            except subprocess.TimeoutExpired:
                strike(kind, run, broker, site, dice.uniform(0, AWAY_S))
                struck[kind] += 1
            said, _ = run.communicate()
            if isinstance(site, Folder):
                site.empty()
            last = said.splitlines()[-1][:200] if said else ""
            print(f"{sum(struck.values())} struck ({kind}), code {run.returncode}: {last}",
                  flush=True)
        over.set()
        load.join()
        judge(broker, site, words[:4], struck, given.iceberg)
    finally:
        over.set()
        broker.kill(signal.SIGTERM)


def begun(site: Folder | Store) -> bool:
    """Whether the target exists: an earlier kill leaves none."""
    return target_of(site.url).exists()


def judge(
    broker: Broker, site: Folder | Store, words: tuple[str, ...], struck: Counter[str],
    has_table: bool,
) -> None:
    """The last run has no options: the target keeps its layout and its tables."""
    for verb in (["run", TOPIC, *(() if begun(site) else ("--new-target",))], ["verify"]):
        process = export(*verb, *words)
        said, _ = process.communicate()
        print(said.splitlines()[-1], f"code {process.returncode}")
        if process.returncode:
            sys.exit(said[-3000:])
    read = log_of(broker.kafka, TOPIC)
    log = Counter({(p, o, k, v): count for (p, o, _, k, v, _), count in read.items()})
    print(f"struck {dict(struck)}; log {log.total()} records")
    wrong = []
    for reader, rows in site.read(TOPIC, has_table):
        print(f"{reader} {rows.total()} rows, lost {(log - rows).total()}, twice or unknown "
              f"{(rows - log).total()}", flush=True)
        wrong += [reader] if rows != log else []
    if wrong:
        sys.exit(1)


class Folder:
    """A target on a small disk."""

    table_words: tuple[str, ...] = ()

    def __init__(self, target: Path, has_delta: bool) -> None:
        self.target, self.url, self._has_delta = target, str(target), has_delta
        self._ballast = target.parent / "ballast"

    def fill(self) -> None:
        with self._ballast.open("wb") as ballast:
            try:
                while True:
                    ballast.write(bytes(1 << 20))
                    ballast.flush()
            except OSError:
                pass  # the disk is full now

    def empty(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def read(self, topic: str, has_table: bool) -> Iterator[tuple[str, Rows]]:
        rows: Rows = Counter()
        for path in self.target.glob("topic=*/**/*.parquet"):
            rows += rows_of(pq.ParquetFile(path).read(COLUMNS))
        yield "Parquet", rows
        yield "DuckDB", self._by_duckdb(topic)
        if has_table:
            yield "Iceberg table", self._in_iceberg(topic)
        if self._has_delta:
            yield "Delta table", self._in_delta(topic)

    def _by_duckdb(self, topic: str) -> Rows:
        folder = (self.target / f"topic={topic}").resolve()
        with duckdb.connect() as duck:
            return rows_of(duck.execute(
                f"select * from read_parquet('{folder}/**/*.parquet', "
                "hive_partitioning=true, union_by_name=true)").to_arrow_table())

    def _in_iceberg(self, topic: str) -> Rows:
        with load_catalog("appliance", type="sql", uri=f"sqlite:///{self.url}/_iceberg/catalog.db",
                          warehouse=f"file://{self.url}/_iceberg") as catalog:
            table = catalog.load_table(f"lake.{topic}")
        return rows_of(table.scan(selected_fields=tuple(COLUMNS)).to_arrow())

    def _in_delta(self, topic: str) -> Rows:
        table = DeltaTable(str(self.target / "_delta" / topic))
        return rows_of(table.to_pyarrow_table(columns=COLUMNS))


if __name__ == "__main__":
    started = time.monotonic()
    main()
    print(f"{time.monotonic() - started:.0f} s")
