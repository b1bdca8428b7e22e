"""What is done to a broker on a simulated disk, and what it cost the disk.

Each part takes some seconds of the disk and gives rates in the disk's own time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from appliance.record import _batch_builder
from bench.disks.disk import SimulatedDisk, Told, apart
from bench.peers import clients
from bench.peers.brokers import Broker

PARTITIONS, RECORD_BYTES, BATCH_RECORDS = 64, 1000, 64
WRITERS, IN_FLIGHT = 16, 5  # producers, and their requests in flight, as clients have them
TAIL_READERS, PAST_READERS = 2, 2
ONE_AT_A_TIME = (1, 16)  # producers that wait for each record
FLIGHTS = ((16, 1), (16, 5), (64, 5))  # producers, and requests in flight of each
PATIENCE_S = 300
Figures = dict[str, float]


def batch(records: int) -> bytes:
    """Not compressible, and not the same from one record to the next."""
    now_ms = time.time_ns() // 1_000_000  # older ones would be deleted
    return _batch_builder.batch([(now_ms, None, os.urandom(RECORD_BYTES))
                                 for _ in range(records)])


def produced(broker: Broker, topic: str, records: int, partitions: int, connections: int,
             depth: int, seconds: float, acks: int = -1) -> dict[str, float]:
    frames, zero_at = clients.produce_frames(topic, batch(records), acks, partitions)
    return clients.probe_requests(broker.address, frames, zero_at, connections, depth, seconds)


def commits(disk: SimulatedDisk, broker: Broker, topic: str, seconds: float) -> Figures:
    """One record of a producer at a time; each producer has a partition of its own."""
    figures: Figures = {}
    for count in ONE_AT_A_TIME:
        before = disk.told()
        done = produced(broker, topic, 1, count, count, 1, seconds * disk.slower)
        cost = apart(before, disk.told())
        name = f"{count} at a time"
        figures[f"{name}, answer p50 ms"] = done["answer_p50_us"] / 1000 / disk.slower
        figures[f"{name}, records/s"] = done["answers"] / done["seconds"] * disk.slower
        figures[f"{name}, flushes/record"] = flushes(cost) / done["answers"]
        figures[f"{name}, writes/record"] = cost["writes"]["count"] / done["answers"]
    return figures


def flown(disk: SimulatedDisk, broker: Broker, topic: str, connections: int, depth: int,
          seconds: float) -> Figures:
    """What is in flight is what a commit can take along, for a seek to each partition."""
    name = f"{connections * depth * BATCH_RECORDS * RECORD_BYTES / 1e6:.0f} MB in flight"
    before = disk.told()
    done = produced(broker, topic, BATCH_RECORDS, PARTITIONS, connections, depth,
                    seconds * disk.slower)
    cost = apart(before, disk.told())
    sent = done["answers"] * BATCH_RECORDS * RECORD_BYTES / 1e6
    return {f"{name}, MB/s": sent / done["seconds"] * disk.slower,
            f"{name}, answer p99 ms": done["answer_p99_us"] / 1000 / disk.slower,
            f"{name}, MB a flush": sent / max(1, flushes(cost)),
            f"{name}, KiB a request": (cost["platter_writes"]["bytes"] / 1024
                                       / max(1, cost["platter_writes"]["count"]))}


def fill(disk: SimulatedDisk, broker: Broker, topic: str, megabytes: int) -> None:
    """All partitions get as much."""
    wanted = megabytes * 1_000_000 / (BATCH_RECORDS * RECORD_BYTES)
    done = 0.0
    with disk.at_full_speed():
        while done < wanted:
            done += produced(broker, topic, BATCH_RECORDS, PARTITIONS, WRITERS, IN_FLIGHT, 2,
                             acks=1)["answers"]


def configure(broker: Broker, topic: str, configs: Mapping[str, str]) -> None:
    changes = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
               for name, value in configs.items()]
    if changes:
        admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
        wanted = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=changes)
        for done in admin.incremental_alter_configs([wanted]).values():
            done.result(PATIENCE_S)


def written(disk: SimulatedDisk, broker: Broker, topic: str, seconds: float) -> Figures:
    """All partitions at once."""
    before = disk.told()
    figures = by_writers("written", disk, broker, topic, seconds)
    return {**figures, **of_disk("written", before, disk.told())}


def by_writers(name: str, disk: SimulatedDisk, broker: Broker, topic: str, seconds: float
               ) -> Figures:
    done = produced(broker, topic, BATCH_RECORDS, PARTITIONS, WRITERS, IN_FLIGHT,
                    seconds * disk.slower)
    sent = done["answers"] * BATCH_RECORDS * RECORD_BYTES
    return {f"{name}, MB/s": sent / done["seconds"] / 1e6 * disk.slower,
            f"{name}, answer p99 ms": done["answer_p99_us"] / 1000 / disk.slower}


@contextmanager
def readers(broker: Broker, topic: str, begin_at: str, count: int, seconds: float
            ) -> Iterator[list[dict[str, float]]]:
    """The list is filled when the block ends. They share the partitions as a group does not: each
    reads all of them."""
    words = [sys.executable, "-m", "bench.disks.reader", broker.address, topic, str(PARTITIONS),
             begin_at, f"{seconds:g}"]
    started = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
               for _ in range(count)]
    found: list[dict[str, float]] = []
    try:
        yield found
        for each in started:
            output, _ = each.communicate(timeout=seconds + PATIENCE_S)
            found.append(json.loads(output))
    finally:
        for each in started:
            each.kill()
            each.wait()


def rate(disk: SimulatedDisk, found: Sequence[dict[str, float]]) -> float:
    return sum(each["bytes"] / each["seconds"] for each in found) / 1e6 * disk.slower


def beside_readers(disk: SimulatedDisk, broker: Broker, topic: str, seconds: float) -> Figures:
    """Writers, readers at the end, and readers of what only the disk has."""
    disk.forget_cache()
    real = seconds * disk.slower
    with (readers(broker, topic, "end", TAIL_READERS, real) as tail,
          readers(broker, topic, "start", PAST_READERS, real) as past):
        before = disk.told()
        figures = by_writers("beside readers, written", disk, broker, topic, seconds)
        after = disk.told()
    return {**figures, "beside readers, tail MB/s": rate(disk, tail),
            "beside readers, past MB/s": rate(disk, past),
            **of_disk("beside readers", before, after)}


def caught_up(disk: SimulatedDisk, broker: Broker, topic: str, seconds: float) -> Figures:
    """One consumer reads everything from the disk, as far as it comes."""
    disk.forget_cache()
    before = disk.told()
    with readers(broker, topic, "start", 1, seconds * disk.slower) as found:
        pass
    after = disk.told()
    return {"catch-up, MB/s": rate(disk, found), **of_disk("catch-up", before, after)}


def flushes(told: Told) -> float:
    return float(told["flushes"]["count"])


def of_disk(name: str, before: Told, after: Told) -> Figures:
    """What the heads did: linear is what began where a head was."""
    told = apart(before, after)
    moves = [told["platter_reads"], told["platter_writes"]]
    whole, count = (max(1, sum(each[of] for each in moves)) for of in ("bytes", "count"))
    seconds = told["seconds"] * told["members"]
    busy = sum(each[of] for each in moves for of in ("seek_s", "turn_s", "transfer_s"))
    figures: Figures = {
        f"{name}, linear bytes": sum(each["linear_bytes"] for each in moves) / whole,
        f"{name}, linear requests": sum(each["linear_count"] for each in moves) / count,
        f"{name}, asked linear": asked_linear(told),
        f"{name}, KiB a request": whole / count / 1024,
        f"{name}, seeks/s of a disk": sum(each["seeks"] for each in moves) / seconds,
        f"{name}, MB a seek": sum(each["seek_bytes"] for each in moves) / 1e6 / max(
            1, sum(each["seeks"] for each in moves)),
        f"{name}, busy": busy / seconds,
        f"{name}, flushes/s": flushes(told) / told["seconds"],
    }
    if told["whole_rows"] + told["read_rows"]:
        figures[f"{name}, rows read first"] = (
            told["read_rows"] / (told["whole_rows"] + told["read_rows"]))
    return figures


def asked_linear(told: Told) -> float:
    """By bytes, as the requests came from the kernel."""
    asked = told["reads"], told["writes"]
    whole = sum(each["bytes"] for each in asked)
    return float(sum(each["linear_bytes"] for each in asked) / max(1, whole))
