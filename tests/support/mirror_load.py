"""Load for a mirror, and what both sides hold in the end."""

from __future__ import annotations

import hashlib
import itertools
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import confluent_kafka as ck

from appliance.client.config import ClientConfig
from appliance.mirror.offset_map import READ_BYTES
from appliance.mirror.site import COMMITTED, EARLIEST, LATEST, UNCOMMITTED, Site, TopicPartition
from appliance.protocol.messages.fetch import API as FETCH
from appliance.protocol.messages.fetch import FetchRequest
from appliance.record import _batch

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
DEADLINE_S = 120


def produce(address: str, topic: str, partitions: int, stop: threading.Event, seed: int = 1,
            rate: int = 3000) -> int:
    """Plain, idempotent and transactional producers, one after the other, with every codec; how
    many records were acknowledged and are not aborted."""
    chance = random.Random(seed)
    count = 0
    for turn in itertools.count():
        if stop.is_set():
            return count
        codec = CODECS[turn % len(CODECS)]
        facts: dict[str, Any] = {"bootstrap.servers": address, "compression.type": codec,
                                 "linger.ms": 2}
        is_transactional = turn % 3 == 2
        if is_transactional:
            facts["transactional.id"] = f"load-{seed}"
        elif turn % 3 == 1:
            facts["enable.idempotence"] = True
        producer = ck.Producer(facts)
        size = chance.randint(1, rate // 5)
        if is_transactional:
            producer.init_transactions()
            producer.begin_transaction()
        for i in range(size):
            value = f"{seed}.{turn}.{i}.".encode() + chance.randbytes(chance.randint(0, 200))
            producer.produce(topic, value, key=f"{i % 50}", partition=chance.randrange(partitions))
            producer.poll(0)
        assert producer.flush(30) == 0
        is_committed = True
        if is_transactional:
            is_committed = chance.random() < 0.5
            (producer.commit_transaction if is_committed else producer.abort_transaction)()
        count += size * is_committed
        stop.wait(0.2)
    raise AssertionError("unreachable")


class Load:
    """`produce` on a thread; `stop` tells how much it was."""

    def __init__(self, address: str, topic: str, partitions: int, seed: int = 1) -> None:
        self._stop = threading.Event()
        self.count = 0
        self._failure: BaseException | None = None
        arguments = (address, topic, partitions, self._stop, seed)
        self._thread = threading.Thread(target=self._run, args=arguments)
        self._thread.start()

    def _run(self, *arguments: Any) -> None:
        try:
            self.count = produce(*arguments)
        except BaseException as error:  # noqa: BLE001 - raised again by `stop`
            self._failure = error

    def stop(self) -> int:
        self._stop.set()
        self._thread.join(DEADLINE_S)
        if self._failure:
            raise self._failure
        return self.count


@dataclass
class Held:
    """Of one partition: how many committed records, and a hash over all of them."""

    count: int = 0
    digest: Any = field(default_factory=hashlib.sha256)

    def add(self, record: Any, with_offset: bool) -> None:
        self.count += 1
        fields = (record.timestamp, record.key, record.value, record.headers)
        self.digest.update(repr((record.offset, *fields) if with_offset else fields).encode())

    @property
    def facts(self) -> tuple[int, str]:
        return self.count, self.digest.hexdigest()


def held(cluster: str | ClientConfig, topic: str, with_offsets: bool) -> dict[int, tuple[int, str]]:
    """Of each partition, by Fetch and our own decoder, without the mirror's code for batches."""
    site = Site(ClientConfig(broker_list=cluster) if isinstance(cluster, str) else cluster)
    try:
        site.refresh()
        found = {}
        for place in site.topics[topic].partitions:
            each = Held()
            for record in committed(site, place):
                each.add(record, with_offsets)
            found[place.partition] = each.facts
        return found
    finally:
        site.close()


def committed(site: Site, place: TopicPartition) -> Iterator[Any]:
    """Records of committed transactions, or of none, in their order."""
    offset = site.offsets([place], EARLIEST)[place]
    end_offset = decided_end(site, place)
    with site.connect(site.leader(place)) as connection:
        while offset < end_offset:
            part = FetchRequest.FetchPartition(partition=place.partition, fetch_offset=offset)
            part.partition_max_bytes = READ_BYTES
            request = FetchRequest(
                max_wait_ms=100, min_bytes=1, max_bytes=READ_BYTES, isolation_level=COMMITTED,
                session_epoch=-1, topics=[FetchRequest.FetchTopic(topic=place.topic,
                                                                  partitions=[part])])
            (row,) = connection.ask(FETCH, request, version=12).responses[0].partitions
            assert not row.error_code, row
            if not row.records:
                return
            for batch in committed_batches(row):
                yield from (each for each in _batch.records(batch) if each.offset >= offset)
            offset = _batch.headers(row.records, partial_tail=True)[-1].last_offset + 1


def decided_end(site: Site, place: TopicPartition) -> int:
    """Once no transaction is open in it. Apache Kafka answers the end of one before it has written
    its markers."""
    give_up_s = time.monotonic() + DEADLINE_S
    while True:
        ends = [site.offsets([place], LATEST, each)[place] for each in (UNCOMMITTED, COMMITTED)]
        if ends[1] >= ends[0]:
            return ends[1]
        assert time.monotonic() < give_up_s, f"{place}: ends at {ends[0]}, decided to {ends[1]}"
        time.sleep(0.02)


def committed_batches(row: Any) -> Iterator[bytes]:
    listed = row.aborted_transactions or ()
    begins = sorted((each.first_offset, each.producer_id) for each in listed)
    aborted: set[int] = set()
    for info in _batch.headers(row.records, partial_tail=True):
        data = row.records[info.position : info.position + info.size]
        while begins and begins[0][0] <= info.last_offset:
            aborted.add(begins.pop(0)[1])
        if info.is_control:
            if (_batch.control(data) or ("", 0))[0] == "abort":
                aborted.discard(info.producer_id)
        elif not (info.is_transactional and info.producer_id in aborted):
            yield data


class MirrorProcess:
    """`appliance mirror` as a process, to be killed."""

    def __init__(self, source: str, target: str, *arguments: str) -> None:
        self._command = [sys.executable, "-m", "appliance", "mirror", "--from", source,
                         "--to", target, *arguments]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True)

    def kill(self) -> str:
        """What it had said."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        _, said = self._process.communicate(timeout=DEADLINE_S)
        assert self._process.returncode == -signal.SIGKILL, said
        return said

    def finish(self) -> str:
        """One more life, to the end of what there is."""
        done = subprocess.run([*self._command, "--once"], capture_output=True, text=True,
                              timeout=DEADLINE_S, check=False)
        assert done.returncode == 0, done.stderr
        return done.stderr


def kill_often(process: MirrorProcess, kills: int, seed: int, longest_s: float = 2.5) -> None:
    """At any time of its life: also while it starts."""
    chance = random.Random(seed)
    for _ in range(kills):
        process.start()
        time.sleep(chance.uniform(0.2, longest_s))  # the kill is to hit it anywhere
        process.kill()
