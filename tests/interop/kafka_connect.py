"""A worker of Apache Kafka's Connect, in distributed mode, with sources that write exactly once."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from loadtest.ports import lasting_port
from tests.interop import kafka_jars

MAIN = "org.apache.kafka.connect.cli.ConnectDistributed"
STRINGS = "org.apache.kafka.connect.storage.StringConverter"
GROUP = "connect"
TOPICS = {"configs": 1, "offsets": 3, "status": 3}  # Connect's own, with their partitions
STOP_S = 60.0
ASK_S = 10.0


def settings(bootstrap: str, port: int) -> dict[str, object]:
    """With times as for a test: what a killed worker leaves behind holds up the others as long."""
    found: dict[str, object] = {
        "bootstrap.servers": bootstrap,
        "group.id": GROUP,
        "listeners": f"http://127.0.0.1:{port}",
        "key.converter": STRINGS,
        "value.converter": STRINGS,
        "config.storage.topic": "configs",
        "offset.storage.topic": "offsets",
        "offset.storage.partitions": TOPICS["offsets"],
        "status.storage.topic": "status",
        "status.storage.partitions": TOPICS["status"],
        "exactly.once.source.support": "enabled",
        "plugin.discovery": "service_load",
        "consumer.isolation.level": "read_committed",
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 2000,
        "scheduled.rebalance.max.delay.ms": 1000,
        "offset.flush.interval.ms": 500,
        "producer.transaction.timeout.ms": 10_000,
    }
    for kind in ("config", "offset", "status"):
        found[f"{kind}.storage.replication.factor"] = 3
        found[f"{kind}.storage.min.insync.replicas"] = 2
    return found


class ConnectWorker:
    """One place of a worker over several lives of its process; what they say stands in `said`."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._port = lasting_port()
        self.id = f"127.0.0.1:{self._port}"  # as Connect names it
        text = "".join(
            f"{name}={value}\n" for name, value in settings(bootstrap, self._port).items())
        (folder / "worker.properties").write_text(text)
        self.start()

    def start(self) -> None:
        command = [
            kafka_jars.java(), *kafka_jars.TOOL_FLAGS,
            f"-Dlog4j2.configurationFile=file:{kafka_jars.LOGGING}",
            "-cp", f"{kafka_jars.of_connect()}/*", MAIN, str(self._folder / "worker.properties"),
        ]
        with (self._folder / "said").open("ab") as said:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT)

    @property
    def said(self) -> str:
        return (self._folder / "said").read_text()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """As systemd does."""
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        finally:
            self.kill()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """None while it has no answer: it starts, or its group is being formed."""
        assert self._process.poll() is None, self.said[-5000:]
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://{self.id}{path}", data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=ASK_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 400:  # it will not take that later either
                    raise AssertionError(error.read()) from None
            return None
        except OSError:
            return None
