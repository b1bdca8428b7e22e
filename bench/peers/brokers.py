"""The compared brokers: one process each, on loopback and on the same file system."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from bench.peers import clients
from tests.interop import kafka_broker

# The flags and the heap of Kafka's own start script.
KAFKA_FLAGS = ("-Xms1g", "-Xmx1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
               "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent")
# A single node, no wait for more group members, and deleted topics gone before the next turn, as
# with ours; the other settings have their defaults.
KAFKA_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.segment.delete.delay.ms": "100",
}
CPUCLOCK_SCHED = 2  # a clock id is this with the complement of the pid above, as in glibc
FORGET_PEAK = "5"  # written to clear_refs: resets the peak of the resident size
STOP_S = 60
ANSWER_S = 120  # seconds on a busy disk
FLOOR_RECORD_BYTES = 100  # like the probe's
NOT_YET = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE,
           KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError._NOENT)


class Broker:
    """The interface of a compared broker."""

    name = ""
    directory = Path()
    address = ""
    pid = 0
    words: tuple[str, ...] = ()  # additional options of rdkafka_performance
    has_process = True  # false: it lives in another process, or has one per topic
    peak_of_run = 0  # resident bytes before the last `forget_peak`

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        admin = self._admin()
        wanted = NewTopic(topic, partitions, 1, config=dict(configs))
        admin.create_topics([wanted])[topic].result(ANSWER_S)
        self.wait_for_leaders(topic, partitions)  # Kafka responds before it has elected them

    def _admin(self) -> AdminClient:
        """Logs nothing: a client that outlives its broker logs errors again and again."""
        return AdminClient({"bootstrap.servers": self.address, "log_level": 0})

    def wait_for_leaders(self, topic: str, partitions: int) -> None:
        admin = self._admin()
        latest = {TopicPartition(topic, index): OffsetSpec.latest() for index in range(partitions)}
        kafka_broker.wait_until(lambda: are_led(admin, latest), f"the leaders of {topic}")

    def delete_topic(self, topic: str) -> None:
        admin = self._admin()
        admin.delete_topics([topic])[topic].result(ANSWER_S)

    @property
    def pids(self) -> Sequence[int]:
        """Of all its processes."""
        return [self.pid]

    def is_alive(self) -> bool:
        """A broker without its own process counts as alive."""
        return not self.has_process or has_not_ended(self.pid)

    def cpu_seconds(self) -> float:
        """From the process's clock, in nanoseconds; /proc counts hundredths of a second."""
        return sum(time.clock_gettime(~pid << 3 | CPUCLOCK_SCHED) for pid in self.pids)

    def resident_bytes(self) -> int:
        return self._status("VmRSS") * 1024

    def peak_resident_bytes(self) -> int:
        """The peak since the start, or since `forget_peak`."""
        return self._status("VmHWM") * 1024

    def forget_peak(self) -> None:
        """Resets the peak for the next job, and keeps the old one for the run."""
        self.peak_of_run = max(self.peak_of_run, self.peak_resident_bytes())
        for pid in self.pids:
            Path(f"/proc/{pid}/clear_refs").write_text(FORGET_PEAK)

    def _status(self, name: str) -> int:
        return sum(status_of(pid, name) for pid in self.pids)

    def start(self) -> float:
        """Starts on the existing directory. Returns the seconds until it serves."""
        raise AssertionError("each broker starts in its own way")

    def stop(self) -> None:
        raise AssertionError("each broker stops in its own way")

    def kill(self) -> None:
        """Kills the broker without a shutdown."""
        os.kill(self.pid, signal.SIGKILL)


def status_of(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise ValueError(f"/proc/{pid}/status has no {name}")


def has_not_ended(pid: int) -> bool:
    """False also for a zombie, which nobody has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def ended_in_time(process: subprocess.Popen[Any]) -> None:
    """Terminates the process. Kills it after STOP_S and raises."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_S)
    finally:
        process.kill()


def are_led(admin: AdminClient, partitions: Mapping[TopicPartition, OffsetSpec]) -> bool:
    try:
        for future in admin.list_offsets(dict(partitions), request_timeout=30).values():
            future.result(ANSWER_S)
    except KafkaException as error:
        if error.args[0].code() in NOT_YET:
            return False
        raise
    return True


class Appliance(Broker):
    name = "appliance"

    def __init__(self, directory: Path, settings: Mapping[str, str],
                 python: Sequence[str] = (sys.executable,)) -> None:
        self.directory = directory
        self._command = [*python, "-m", "appliance", "serve", "--data-dir", str(directory),
                         "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
        for name, value in settings.items():
            self._command += ["--set", f"{name}={value}"]
        self._log = directory.with_suffix(".log")
        self.start()

    def start(self) -> float:
        begin = time.perf_counter()
        with open(self._log, "ab") as errors:
            self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=errors,
                                             text=True)
        self.pid = self._process.pid
        try:
            self._take_facts()
        except BaseException:
            self.kill()  # or it would outlive the run
            raise
        return time.perf_counter() - begin

    def _take_facts(self) -> None:
        assert self._process.stdout is not None
        ready = self._process.stdout.readline().split()
        if not ready or ready[0] != "ready":
            raise RuntimeError(f"the appliance did not start:\n{self._log.read_text()}")
        facts = dict(word.split("=", 1) for word in ready[1:] if "=" in word)
        self.address, self.admin = facts["kafka"], facts["admin"]

    def stop(self) -> None:
        with self._process:  # closes the pipe of its output
            ended_in_time(self._process)

    def kill(self) -> None:
        with self._process:
            super().kill()
            self._process.wait(STOP_S)


class Kafka(Broker):
    name = "kafka"

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        self.directory = directory
        settings = {**KAFKA_SETTINGS, **settings}
        self._node = kafka_broker.KafkaBroker(directory, settings, KAFKA_FLAGS)
        self._node.format()
        self.start()

    def start(self) -> float:
        begin = time.perf_counter()
        self._node.kill()  # removes the rest of a node that died
        self._node.start()
        self.address, self.pid = self._node.address, self._node.pid
        return time.perf_counter() - begin

    def stop(self) -> None:
        self._node.stop()

    def kill(self) -> None:
        self._node.kill()


class Mock(Broker):
    """librdkafka's mock broker, which lives in the client's process and stores nothing."""

    name = "mock"
    address = "127.0.0.1:0"  # the client ignores it
    words = ("-X", "test.mock.num.brokers=1")
    has_process = False

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        self.directory = directory
        self.pid = os.getpid()

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        """The mock has every topic."""

    def delete_topic(self, topic: str) -> None:
        """The topic ended with the client."""

    def cpu_seconds(self) -> float:
        return 0.0

    def peak_resident_bytes(self) -> int:
        """The memory is the client's."""
        return 0

    def forget_peak(self) -> None:
        """The mock has no peak of its own."""

    def stop(self) -> None:
        """The mock ended with the client."""


class Floor(Broker):
    """The minimum work of a broker (`floor.c`): a process per topic, for the probe's requests."""

    name = "floor"
    has_process = False
    is_durable = False

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        directory.mkdir()
        self.directory = directory

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        words = clients.floor_words(self.directory / topic, topic,
                                    clients.one_record(FLOOR_RECORD_BYTES), self.is_durable)
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.address = f"127.0.0.1:{self._process.stdout.readline().strip()}"
        self.pid = self._process.pid

    def delete_topic(self, topic: str) -> None:
        ended = self._process.poll()
        with self._process:  # closes the pipe of its output
            self._process.kill()
        (self.directory / topic).unlink()
        if ended is not None:
            raise RuntimeError(f"the {self.name} ended with {ended} before its clients")

    def stop(self) -> None:
        """The process ended with its topic."""


class DurableFloor(Floor):
    """It syncs each record before it responds."""

    name = "durable floor"
    is_durable = True


class FloorBroker(Broker):
    """The same for real clients, with our promise of durability (`floor_broker.c`), and a broker of
    ours behind it for what is not Produce, Fetch or ListOffsets. Its process ends with the last
    topic: it deletes no file."""

    name = "floor broker"
    has_process = False
    _process: subprocess.Popen[bytes] | None = None

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        self._logs = directory / "logs"
        self._logs.mkdir(parents=True)
        self.directory = directory
        self._topics: set[str] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._upstream = Appliance(directory / "upstream",
                                   {**settings, "advertised.listeners": self.address})

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        if self._process is None:
            words = [clients.compiled("floor_broker"), str(self._listener.fileno()),
                     self._upstream.address.rpartition(":")[2], str(self._logs)]
            self._process = subprocess.Popen(words, pass_fds=[self._listener.fileno()])
            self.pid = self._process.pid
        try:
            super().create_topic(topic, partitions, configs)
        except BaseException:
            self._end_without_topics()
            raise
        self._topics.add(topic)

    def delete_topic(self, topic: str) -> None:
        assert self._process is not None
        if (ended := self._process.poll()) is not None:
            self._topics.clear()
            self._end_without_topics()
            raise RuntimeError(f"the {self.name} ended with {ended} before its clients")
        try:
            super().delete_topic(topic)
        finally:
            self._topics.discard(topic)
            self._end_without_topics()

    def _end_without_topics(self) -> None:
        if self._topics or self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._process = None
        for file in self._logs.iterdir():
            file.unlink()

    def is_alive(self) -> bool:
        return self._upstream.is_alive()

    def start(self) -> float:
        return self._upstream.start()

    def stop(self) -> None:
        self._topics.clear()
        self._end_without_topics()
        self._listener.close()
        self._upstream.stop()


class FloorOfStart(Broker):
    """What no broker in Python with a console can start without (`floor_start.py`)."""

    name = "floor of a start"
    has_process = False

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        directory.mkdir(parents=True)
        self.directory = directory
        self.start()

    def start(self) -> float:
        begin = time.perf_counter()
        words = [sys.executable, str(Path(__file__).with_name("floor_start.py"))]
        self._process = subprocess.Popen(
            words, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "SSL_CERT_FILE": os.devnull})  # no more than our broker reads
        self.pid = self._process.pid
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise RuntimeError(f"the {self.name} ended with {self._process.wait()}")
        return time.perf_counter() - begin

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        """It has none."""

    def delete_topic(self, topic: str) -> None:
        """It has none."""

    def stop(self) -> None:
        with self._process:  # closes the pipe of its output
            self._process.kill()


class Nobody(Broker):
    """Stands for the peer if our broker is compared with itself."""

    has_process = False

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        directory.mkdir()
        self.directory = directory
        self.name = directory.name.rpartition("-")[0]

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        """The case creates its own logs."""

    def delete_topic(self, topic: str) -> None:
        """There are no topics."""

    def stop(self) -> None:
        """There is no process."""
