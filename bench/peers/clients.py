"""The clients that load the brokers: the same program with the same options for each broker."""

from __future__ import annotations

import atexit
import functools
import json
import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from appliance.protocol import codec, headers
from appliance.protocol.messages.fetch import FetchRequest
from appliance.protocol.messages.offset_commit import OffsetCommitRequest
from appliance.protocol.messages.offset_fetch import OffsetFetchRequest
from appliance.protocol.messages.produce import ProduceRequest
from appliance.record import _batch_builder
from tests.interop import kafka_jars

FETCH_BYTES = 1 << 19
HERE = Path(__file__).resolve().parent
NATIVE = HERE.parents[1] / "appliance" / "native"  # floors ask for short turns, as a broker does
SUMS = {"floor_broker": [str(HERE / "floor_crc.cc"), "-I", str(NATIVE.parent), "-lstdc++"]}
PERFORMANCE = "RDKAFKA_PERFORMANCE"
RATE = re.compile(r"([\d.]+) (?:records/sec|msgs/s)")
ASKED = re.compile(r"% Sending (\d+) messages")
DELIVERED = re.compile(r"(\d+) delivered \(offset -?\d+, 0 failed\)")
# Large batches, as users set them for throughput.
JAVA_PRODUCER = ("batch.size=65536", "linger.ms=5", "buffer.memory=67108864")
# librdkafka's default. Its performance tool sets 1000: then the last batch of a run waits a second,
# so that brokers that take 0.5 s and 1 s for the rest differ only by a third.
LINGER = ("-X", "linger.ms=5")
# The newest versions with fields at fixed positions
PRODUCE, FETCH, OFFSET_COMMIT, OFFSET_FETCH = (0, 7), (1, 11), (8, 7), (9, 5)


class ClientFailed(RuntimeError):
    """The text has the output of the client."""


def rdkafka_performance() -> str:
    program = os.environ.get(PERFORMANCE) or shutil.which("rdkafka_performance")
    if program is None:
        raise SystemExit(
            f"librdkafka's rdkafka_performance is needed: name the program in {PERFORMANCE}. Its "
            "source is examples/rdkafka_performance.c of librdkafka, and of Debian's librdkafka-dev"
        )
    return program


def rates(text: str) -> list[float]:
    """Every rate in the output of a client; the last is for the whole run. Java's consumer prints a
    row of figures; the last is the rate without the first rebalance of its group."""
    return [float(each) for each in RATE.findall(text) or text.strip().rpartition(",")[2:]]


def run(command: Sequence[str], timeout_s: float = 300) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
    output = done.stdout + done.stderr
    check_end(command[0], done.returncode, output)
    return output


def check_end(program: str, code: int, output: str) -> None:
    """Accepts exit code 1 of rdkafka_performance if all records were delivered: it subtracts the
    length of its queue from the count, and the queue may hold an event that is no record."""
    asked, delivered = ASKED.search(output), DELIVERED.search(output)
    if code and not (asked and delivered and asked[1] == delivered[1]):
        raise ClientFailed(f"{program} ended with {code}:\n{output}")


def rdkafka_produce(address: str, topic: str, size: int, count: int, acks: int,
                    *words: str) -> list[str]:
    return [rdkafka_performance(), "-P", "-b", address, "-t", topic, "-s", str(size), "-c",
            str(count), "-a", str(acks), "-q", *LINGER, *words]


def rdkafka_consume(address: str, topic: str, count: int, *words: str) -> list[str]:
    return [rdkafka_performance(), "-C", "-b", address, "-t", topic, "-p", "0", "-o", "beginning",
            "-c", str(count), "-q", *words]


def java_produce(address: str, topic: str, size: int, count: int, *settings: str) -> list[str]:
    return kafka_jars.command("org.apache.kafka.tools.ProducerPerformance", [
        "--topic", topic, "--num-records", str(count), "--record-size", str(size), "--throughput",
        "-1", "--producer-props", f"bootstrap.servers={address}", *settings,
    ], flags=("-Xmx512m",))


def java_consume(address: str, topic: str, count: int) -> list[str]:
    return kafka_jars.command("org.apache.kafka.tools.ConsumerPerformance", [
        "--bootstrap-server", address, "--topic", topic, "--num-records", str(count),
        "--timeout", "60000", "--hide-header",
    ], flags=("-Xmx512m",))


# The probe


@functools.cache
def scratch() -> Path:
    """A folder that is deleted at the end of the run."""
    directory = Path(tempfile.mkdtemp(prefix="probe-"))
    atexit.register(shutil.rmtree, directory)
    return directory


@functools.cache
def compiled(name: str) -> str:
    """Compiles the C program once per run; there is nothing to install."""
    program = scratch() / name
    run([os.environ.get("CC", "cc"), "-O2", "-I", str(NATIVE), "-o", str(program),
         str(HERE / f"{name}.c"), *SUMS.get(name, [])])
    return str(program)


def frame_file(key_version: tuple[int, int], *requests: Any) -> str:
    key, version = key_version
    header = headers.encode_request(headers.RequestHeader(key, version, 1, "probe"))
    path = Path(tempfile.mkdtemp(dir=scratch())) / "frames"
    with path.open("wb") as file:
        for each in requests:
            frame = header + codec.encode(each, version)
            file.write(struct.pack(">i", len(frame)) + frame)
    return str(path)


def produce_frames(
    topic: str, batch: bytes, acks: int, partitions: int = 1
) -> tuple[str, int]:
    """The file, and the position of the error code in the response."""
    rows = []
    for index in range(partitions):
        row = ProduceRequest.TopicProduceData(name=topic)
        row.partition_data = [ProduceRequest.PartitionProduceData(index=index, records=batch)]
        rows.append(ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[row]))
    return frame_file(PRODUCE, *rows), 4 + 4 + 4 + 2 + len(topic) + 4 + 4


def floor_words(file: Path, topic: str, batch: bytes, is_durable: bool) -> list[str]:
    """The command of a floor whose responses are as long as a broker's."""
    produce_answer = 4 + 4 + 4 + 2 + len(topic) + 4 + 4 + 2 + 8 + 8 + 8 + 4
    at = _records_at(topic)
    return [compiled("floor"), str(file), str(produce_answer), str(at + 4), str(at),
            str(len(batch)), str(int(is_durable))]


def _records_at(topic: str) -> int:
    """The position of the records' length in a Fetch response."""
    return 4 + 4 + 4 + 2 + 4 + 4 + 2 + len(topic) + 4 + 4 + 2 + 8 + 8 + 8 + 4 + 4


def probe_requests(address: str, frames: str, zero_at: int, connections: int, depth: int,
                   seconds: float) -> dict[str, float]:
    """The connections repeat the requests of a file, in turn."""
    host, _, port = address.partition(":")
    output = run([compiled("probe"), "requests", host, port, frames, str(zero_at),
                str(connections), str(depth), str(seconds)])
    result: dict[str, float] = json.loads(output)
    return result


def probe_produce(address: str, topic: str, size: int, acks: int, connections: int, depth: int,
                  seconds: float, partitions: int = 1) -> dict[str, float]:
    """One record per request, to the partitions in turn."""
    frames, zero_at = produce_frames(topic, one_record(size), acks, partitions)
    return probe_requests(address, frames, zero_at, connections, depth, seconds)


def probe_commit(address: str, topic: str, groups: int, connections: int, depth: int,
                 seconds: float) -> dict[str, float]:
    """One offset per request, for the groups in turn."""
    row = OffsetCommitRequest.OffsetCommitRequestTopic(name=topic)
    row.partitions = [OffsetCommitRequest.OffsetCommitRequestPartition(0, 5, -1, "")]
    frames = frame_file(OFFSET_COMMIT, *[
        OffsetCommitRequest(f"group-{each}", -1, "", topics=[row]) for each in range(groups)])
    zero_at = 4 + 4 + 4 + 4 + 2 + len(topic) + 4 + 4
    return probe_requests(address, frames, zero_at, connections, depth, seconds)


def probe_offset_fetch(address: str, topic: str, groups: int, connections: int, depth: int,
                       seconds: float) -> dict[str, float]:
    """Fetches the offsets that `probe_commit` committed."""
    row = OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=[0])
    frames = frame_file(OFFSET_FETCH, *[
        OffsetFetchRequest(group_id=f"group-{each}", topics=[row]) for each in range(groups)])
    zero_at = 4 + 4 + 4 + 4 + 2 + len(topic) + 4 + 4 + 8 + 4 + 2
    return probe_requests(address, frames, zero_at, connections, depth, seconds)


def probe_latency(address: str, topic: str, size: int, acks: int, rate: int,
                  count: int) -> dict[str, float]:
    """Needs an empty topic."""
    batch = one_record(size)
    produce, zero_at = produce_frames(topic, batch, acks)
    most = FETCH_BYTES // len(batch) * len(batch)  # a broker that is behind cuts there
    row = FetchRequest.FetchTopic(topic=topic)
    row.partitions = [FetchRequest.FetchPartition(partition=0, fetch_offset=0x0102030405060708,
                                         partition_max_bytes=most, current_leader_epoch=-1)]
    asked = FetchRequest(replica_id=-1, max_wait_ms=500, min_bytes=1, max_bytes=most,
                         session_epoch=-1, topics=[row])
    fetch = frame_file(FETCH, asked)
    offset_at = Path(fetch).read_bytes().index(struct.pack(">q", 0x0102030405060708))
    host, _, port = address.partition(":")
    output = run([compiled("probe"), "latency", host, port, produce, str(zero_at), fetch,
                str(offset_at), "0", str(_records_at(topic)), str(len(batch)), str(rate),
                str(count)])
    result: dict[str, float] = json.loads(output)
    return result


def one_record(size: int) -> bytes:
    return _batch_builder.batch([(1_700_000_000_000, None, b"x" * size)])
