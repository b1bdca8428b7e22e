"""A real Apache Kafka node on loopback, broker and controller in one, while a test needs it."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from loadtest.ports import lasting_ports
from tests.interop import kafka_jars
from tests.interop.kafka_security import CONTROLLER, INTERNAL, Security, write_tool_settings
from tests.interop.kafka_tools import KafkaTools

READY = b"Kafka Server started"
START_S = 240  # on a slow disk, or a busy machine
FLAGS = (*kafka_jars.TOOL_FLAGS[:-1], "-Xms256m", "-Xmx512m")
CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAQ"  # any 16 bytes in URL-safe base 64

# One partition per internal topic, and short delays, because tests wait for them.
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.initial.task.delay.ms": "500",
}


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
    """Polls, because another process shows its state only in its output and files."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s:.0f} s in vain: {what}"
        time.sleep(0.05)


class KafkaBroker:
    """`with KafkaBroker(directory) as kafka:` formats a directory, starts, and stops cleanly.

    `security` gives it logins, TLS and rights."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None,
                 flags: Sequence[str] = FLAGS, security: Security | None = None) -> None:
        self.directory = directory
        self.log_dir = directory / "logs"
        self.output = directory / "broker.out"
        self.address = ""
        self.addresses: dict[str, str] = {}  # by the name of a listener
        self.security = security
        self._settings = SETTINGS if settings is None else settings
        self._flags = flags
        self._process: subprocess.Popen[bytes] | None = None
        self._tools: KafkaTools | None = None

    def __enter__(self) -> KafkaBroker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def format(self) -> None:
        """Formats a new directory; `start` does it if necessary."""
        properties = self.write_properties()
        users = self.security.format_words() if self.security else []
        kafka_jars.must_run("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID,
                            "-c", str(properties), *users)

    def start(self) -> None:
        if not (self.log_dir / "meta.properties").exists():
            self.format()
        properties = self.write_properties()
        with open(self.output, "wb") as output:
            self._process = kafka_jars.start("kafka.Kafka", str(properties), output=output,
                                             flags=self._flags)
        try:
            wait_until(self._is_ready, f"Kafka's start, see {self.output}", START_S)
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop(self, timeout_s: float = 60) -> None:
        """A clean stop. Kills a broker that does not stop, and raises."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"Kafka did not stop in time:\n{self._tail()}") from None
        finally:
            self.kill()

    def kill(self) -> None:
        """An unclean stop; does nothing after the end of the process."""
        if self._tools is not None:
            tools, self._tools = self._tools, None
            tools.close()
        if self._process is not None:
            process, self._process = self._process, None
            process.kill()
            process.wait()

    def tool(self, main: str, *arguments: str, stdin: str = "") -> str:
        """Runs one of Kafka's own clients against this broker, as the broker itself if there are
        logins. Returns its output."""
        address, login = self.address, list[str]()
        if self.security:
            address = self.addresses[INTERNAL]
            settings = write_tool_settings(self.directory / "tools.properties")
            login = ["--command-config", str(settings)]
        if self._tools is None:
            self._tools = KafkaTools(address, self.directory / "tools")
        words = (main, "--bootstrap-server", address, *login, *arguments)
        ended = self._tools.run_main(words, stdin)
        assert ended.code == 0, f"{words}: {ended}"
        return ended.said

    def create_topic(self, name: str, **settings: object) -> None:
        """Creates a topic with one partition. Settings have underscores for Kafka's dots."""
        configs = [part for key, value in settings.items()
                   for part in ("--config", f"{key.replace('_', '.')}={value}")]
        self.tool("org.apache.kafka.tools.TopicCommand", "--create", "--topic", name,
                  "--partitions", "1", "--replication-factor", "1", *configs)

    def partition(self, topic: str) -> Path:
        return self.log_dir / f"{topic}-0"

    def write_properties(self) -> Path:
        self.directory.mkdir(parents=True, exist_ok=True)
        names = (*self.security.protocols, INTERNAL) if self.security else ("PLAINTEXT",)
        *ports, controller = lasting_ports(len(names) + 1)
        self.addresses = {
            name: f"127.0.0.1:{port}" for name, port in zip(names, ports, strict=True)}
        self.address = self.addresses[names[0]]
        listeners = ",".join(f"{name}://{where}" for name, where in self.addresses.items())
        here = {
            "listeners": f"{listeners},{CONTROLLER}://127.0.0.1:{controller}",
            "advertised.listeners": listeners,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "log.dirs": str(self.log_dir),
            **(self.security.properties() if self.security else {}),
        }
        lines = [f"{key}={value}\n".replace("\\", "\\\\")
                 for key, value in {**self._settings, **here}.items()]
        path = self.directory / "server.properties"
        path.write_text("".join(lines))
        return path

    def _is_ready(self) -> bool:
        assert self._process is not None
        ended = self._process.poll()
        assert ended is None, f"Kafka ended with {ended} while starting:\n{self._tail()}"
        return READY in self.output.read_bytes()

    def _tail(self) -> str:
        return self.output.read_text(errors="replace")[-4000:]
