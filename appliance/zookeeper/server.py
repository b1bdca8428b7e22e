"""Apache's own ZooKeeper: a single one on loopback for a try-out, or one of an ensemble, which is
what a cluster of brokers wants.

Its jars come with PySpark, which exports with Spark need anyway.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from appliance.config import Address
from appliance.config.given_twice import given_twice
from appliance.errors import ApplianceError
from appliance.process.bound_child import bound
from appliance.zookeeper.jaas import flag_of, settings_of

JAVA_NEEDED = 17
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"  # a single one, too
# The jars of Spark's hundreds that ZooKeeper needs: with all of them a start takes twice as long.
JARS = ("zookeeper", "slf4j-api", "log4j", "netty", "metrics-core", "snappy-java")
# Small and fast to start. With log4j's beans it would print a useless line.
FLAGS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xmx256m",
    "-Dzookeeper.jmx.log4j.disable=true",
)
TICK_MS = 2000  # ZooKeeper's own: session timeouts are 2 to 20 ticks
START_S = 60.0
STOP_S = 20.0
LOOK_S = 0.02  # between two checks whether it serves
ASK_S = 5.0
LOOPBACK = "127.0.0.1"
PURGE_H = 24
LIMIT_TICKS = 10  # in which a server of an ensemble follows its leader
MODES = (b"Mode: standalone", b"Mode: leader", b"Mode: follower")
NO_SETTINGS: Mapping[str, object] = {}


class ZooKeeperUnavailable(ApplianceError):
    """Java or the jars are missing, or it does not run; the text names the remedy."""


def java() -> str:
    needed = f"ZooKeeper needs Java {JAVA_NEEDED} or newer"
    path = shutil.which("java")
    if path is None:
        raise ZooKeeperUnavailable(f"{needed}: there is no 'java' on PATH")
    said = subprocess.run([path, "-version"], capture_output=True, text=True).stderr
    match = re.search(r'version "(\d+)', said)
    if match is None or int(match[1]) < JAVA_NEEDED:
        raise ZooKeeperUnavailable(f"{needed}, found: {said.partition(chr(10))[0] or 'none'}")
    return path


def class_path() -> str:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ZooKeeperUnavailable(
            "ZooKeeper's jar comes with PySpark, which is not installed: "
            "pip install 'appliance-log[spark]'"
        )
    jars = Path(spec.origin).parent / "jars"
    paths = [path for name in JARS for path in sorted(jars.glob(f"{name}-*.jar"))]
    if not any(path.name.startswith("zookeeper-") for path in paths):
        raise ZooKeeperUnavailable(f"PySpark came without ZooKeeper: no zookeeper-*.jar in {jars}")
    return ":".join(map(str, paths))


@dataclass(frozen=True)
class Peer:
    """A server of an ensemble."""

    number: int
    host: str
    port: int = 2888  # of the leader, for its followers
    election_port: int = 3888

    def __str__(self) -> str:
        return f"{self.host}:{self.port}:{self.election_port}"


def peers_in(text: str, number: int | None) -> list[Peer]:
    """`HOST,HOST:PORT:PORT,...`: the first has the id 1. Of which `number` must be one."""
    words = [each.strip() for each in text.split(",") if each.strip()]
    if bool(words) != bool(number) or (number or 0) > len(words):
        raise ZooKeeperUnavailable(
            f"an ensemble is all of its servers and the id of this one: got id {number or 'none'} "
            f"and {len(words)} servers"
        )
    return [_peer(each, word) for each, word in enumerate(words, 1)]


def _peer(number: int, word: str) -> Peer:
    host, *ports = word.rsplit(":", 2) if word.count(":") >= 2 else [word]
    if not host or not all(each.isascii() and each.isdecimal() for each in ports):
        raise ZooKeeperUnavailable(f"{word!r} is no server: wanted HOST or HOST:PORT:PORT")
    return Peer(number, host, *map(int, ports))


def settings_in(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    if twice := given_twice(each.partition("=")[0] for each in words):
        raise ZooKeeperUnavailable(f"{twice!r} is given twice, wanted once")
    for word in words:
        name, equals, value = word.partition("=")
        if not name or not equals or "\n" in word:
            raise ZooKeeperUnavailable(f"{word!r} is no setting: wanted NAME=VALUE")
        yield name, value


class ZooKeeperServer:
    """Started by `with` (or `start`), stopped at its end; may start again with the same data."""

    def __init__(
        self,
        data_dir: Path,
        port: int,
        tick_ms: int = TICK_MS,
        output: IO[bytes] | None = None,
        more: Mapping[str, object] = NO_SETTINGS,
        host: str = LOOPBACK,
        number: int = 0,
        peers: Sequence[Peer] = (),
        jaas: Path | None = None,
    ) -> None:
        """`more`: settings of ZooKeeper. With `peers` it is the one of an ensemble that has this
        number. `jaas`: a file with logins, by SASL."""
        self.number, self.peers, self._jaas = number, peers, jaas
        self.more = more if jaas is None else {**settings_of(jaas), **more}
        self.data_dir, self.tick_ms, self.output = data_dir, tick_ms, output
        self.address = Address(host, port)
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ZooKeeperServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Returns at once; see `wait_until_serving`."""
        self.check_port()
        # in its own session, so that Ctrl-C ends it through us alone
        self.process = subprocess.Popen(
            bound(self.command()),
            stdin=subprocess.DEVNULL,
            stdout=self.output or 2,
            stderr=self.output or 2,
            start_new_session=True,
        )

    def check_port(self) -> None:
        """Fails if it is taken."""
        socket.create_server((self.address.host, self.address.port)).close()

    def command(self) -> list[str]:
        flags = FLAGS if self._jaas is None else (*FLAGS, flag_of(self._jaas))
        return [java(), *flags, "-cp", class_path(), MAIN, str(self._write_config())]

    def _write_config(self) -> Path:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        path = self.data_dir / "zoo.cfg"
        settings = {
            "dataDir": self.data_dir.resolve(),
            "clientPort": self.address.port,
            "clientPortAddress": self.address.host,
            "tickTime": self.tick_ms,
            "maxClientCnxns": 0,  # all clients are on one address
            "admin.enableServer": "false",  # it would listen on port 8080 of every interface
            **self._ensemble(),
            **self.more,
        }
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return path

    def _ensemble(self) -> Mapping[str, object]:
        if not self.peers:
            return NO_SETTINGS
        (self.data_dir / "myid").write_text(f"{self.number}\n")
        return {
            "initLimit": LIMIT_TICKS,
            "syncLimit": LIMIT_TICKS,
            "autopurge.purgeInterval": PURGE_H,  # else it keeps all snapshots for ever
            **{f"server.{each.number}": each for each in self.peers},
        }

    def wait_until_serving(self) -> None:
        """One of an ensemble waits for the others as long as it takes."""
        end = time.monotonic() + START_S
        while not self.is_serving():
            assert self.process
            code = self.process.poll()
            if code is not None:
                raise ZooKeeperUnavailable(f"ZooKeeper ended with code {code} before it served")
            if time.monotonic() > end and not self.peers:
                raise ZooKeeperUnavailable(f"ZooKeeper did not serve within {START_S:.0f} s")
            time.sleep(LOOK_S)

    def is_serving(self) -> bool:
        with (
            suppress(OSError),
            socket.create_connection((self.address.host, self.address.port), ASK_S) as connection,
        ):
            connection.sendall(b"srvr")
            said = connection.makefile("rb").read()
            return any(each in said for each in MODES)
        return False

    def wait(self) -> int:
        assert self.process
        return self.process.wait()

    def terminate(self) -> None:
        if self.process:
            self.process.terminate()

    def stop(self) -> None:
        self._end(subprocess.Popen.terminate)

    def kill(self) -> None:
        self._end(subprocess.Popen.kill)

    def _end(self, how: Callable[[subprocess.Popen[bytes]], None]) -> None:
        if self.process:
            how(self.process)
            self.process.wait(STOP_S)
            self.process = None
