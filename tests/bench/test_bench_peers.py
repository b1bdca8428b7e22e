"""The benchmark's use of its peers and of perf, with fake programs in their place."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import kafka
import pytest
from confluent_kafka import Consumer, Producer
from kafka.errors import KafkaError

from appliance.protocol import ErrorCode
from appliance.record._batch import records
from bench import export_kills
from bench.peers import clients, other_protocol_brokers, other_protocol_clients, rabbitmq
from bench.peers.brokers import (
    Appliance,
    Broker,
    DurableFloor,
    Floor,
    FloorBroker,
    FloorOfStart,
    has_not_ended,
)
from bench.peers.clients import ClientFailed
from bench.peers.cost import SYNCS, Cost, SyncCounter, measured
from bench.peers.rabbitmq import RabbitMQ
from bench.suites import crowds
from bench.suites.latency import at_rate
from tests.support.wire_client import WireClient

# perf as of --control: it needs a while until it has its handlers, and counts when it is told to
PERF = """
import signal, socket, sys, time
time.sleep(0.3)
words = dict(word.split("=", 1) for word in sys.argv if word.startswith("--") and "=" in word)
told = socket.socket(fileno=int(words["--control"].rpartition(",")[2]))
signal.signal(signal.SIGINT, lambda *_: None)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
assert told.recv(100) == b"enable\\n"
told.sendall(b"ack\\n")
signal.sigwait([signal.SIGINT])
for event in sys.argv[sys.argv.index("-e") + 1].split(","):
    print(f"2,,{event},1,100.00,,", file=sys.stderr)
"""
LISTEN = """
import os, signal, socket
open(os.environ["HOME"] + "/{name}", "w").write(str(os.getpid()))
server = socket.create_server(("127.0.0.1", int({port})))
signal.pause()
"""
NODE_PORT = "open(os.environ['RABBITMQ_CONFIG_FILE']).read().split()[-1]"
Install = Callable[[str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a program with this text first on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def made(name: str, text: str) -> None:
        (folder / name).write_text(f"#!{sys.executable}\n{text}")
        (folder / name).chmod(0o755)

    return made


@pytest.mark.parametrize("name", sorted(path.stem for path in clients.HERE.glob("*.c")))
def test_our_programs_in_c_compile(name: str) -> None:
    assert os.access(clients.compiled(name), os.X_OK)


def test_the_syncs_of_the_shortest_turn_are_counted(install: Install) -> None:
    install("perf", PERF)
    assert SyncCounter([os.getpid()]).stop() == 2 * len(SYNCS)


def test_syncs_that_perf_has_not_counted_are_unknown(install: Install) -> None:
    install("perf", PERF.replace("2,,{event}", "<not counted>,,{event}"))
    assert SyncCounter([os.getpid()]).stop() is None
    assert Cost(syncs=None).per_byte(1000)["syncs/GB"] is None
    assert Cost(syncs=3).per_byte(10**9)["syncs/GB"] == 3


ALLOCATE = """
import sys
while line := sys.stdin.readline():
    large = bytearray(int(line))
    large[::4096] = b"x" * len(large[::4096])
    del large
    print("done", flush=True)
"""


def test_the_peak_of_memory_is_that_of_the_job() -> None:
    words = [sys.executable, "-c", ALLOCATE]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          bufsize=1) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        broker = Broker()
        broker.pid = process.pid
        for size in (200 << 20, 20 << 20):
            with measured(broker) as cost:
                process.stdin.write(f"{size}\n")
                assert process.stdout.readline() == "done\n"
            assert size < cost.peak_resident_bytes < size + (50 << 20)
        assert broker.peak_of_run > 200 << 20
        process.stdin.close()


def test_idle_connections_are_weighed_in_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crowds, "IDLE", 200)
    broker = Appliance.__new__(Appliance)  # only its kind and its place are asked for
    broker.directory = tmp_path / "data"
    (weight,) = crowds.memory_of_idle(broker, "").values()
    assert weight is not None
    assert 0 <= weight < 100
    assert list(tmp_path.iterdir()) == []


def test_a_perf_that_cannot_count_says_why(install: Install) -> None:
    install("perf", "import sys; sys.exit('no permission')")
    with pytest.raises(RuntimeError, match="perf does not count: no permission"):
        SyncCounter([os.getpid()])


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[FloorBroker]:
    made = FloorBroker(tmp_path / "floor", {})
    yield made
    made.stop()


@pytest.mark.parametrize("acks", [1, "all"])
def test_a_floor_keeps_what_a_real_client_sends(
    floor: FloorBroker, tmp_path: Path, acks: int | str
) -> None:
    floor.create_topic("t", 1, {})
    offsets: list[int | None] = []
    producer = Producer({"bootstrap.servers": floor.address, "acks": acks, "linger.ms": 1})
    sent = [b"%d" % each for each in range(20_000)]
    for value in sent:
        producer.produce("t", value, on_delivery=lambda _, told: offsets.append(told.offset()))
    assert producer.flush(60) == 0
    assert offsets == list(range(len(sent)))
    kept = (tmp_path / "floor" / "logs" / "t-0").read_bytes()
    assert [each.value for each in records(kept)] == sent
    assert read_by_group(floor.address, "t", len(sent)) == sent
    floor.delete_topic("t")
    assert list((tmp_path / "floor" / "logs").iterdir()) == []


def test_a_floor_takes_no_damaged_batch(floor: FloorBroker) -> None:
    floor.create_topic("t", 1, {})
    whole = clients.one_record(100)
    host, port = floor.address.split(":")
    with WireClient((host, int(port))) as client:
        answers = [client.produce(each, version=7) for each in (whole, whole[:-1] + b"?", whole)]
    parts = [part for each in answers for part in each]
    assert [(each.error_code, each.base_offset) for each in parts] == [
        (0, 0), (ErrorCode.CORRUPT_MESSAGE, -1), (0, 1)]  # fmt: skip
    floor.delete_topic("t")


@pytest.mark.parametrize("acks", [1, "all"])
def test_a_floor_ends_that_cannot_keep_the_promise(
    floor: FloorBroker, tmp_path: Path, acks: int | str
) -> None:
    """/dev/null takes all that is written, and cannot be synced: neither before an answer nor
    within a second."""
    (tmp_path / "floor" / "logs" / "t-0").symlink_to("/dev/null")
    floor.create_topic("t", 1, {})
    producer = kafka.KafkaProducer(bootstrap_servers=floor.address, acks=acks, retries=0,
                                   enable_idempotence=False)
    with closing(producer), pytest.raises(KafkaError) if acks == "all" else nullcontext():
        producer.send("t", b"it").get(20)
    assert floor._process is not None
    floor._process.wait(10)
    with pytest.raises(RuntimeError, match="floor broker ended with 1 before its clients"):
        floor.delete_topic("t")


def read_by_group(address: str, topic: str, count: int) -> list[bytes | None]:
    """What else a group needs is answered by the broker behind the floor."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g",
                         "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes | None] = []
    try:
        while len(found) < count and (got := consumer.consume(count, 30)):
            found += [each.value() for each in got]
    finally:
        consumer.close()
    return found


@pytest.mark.parametrize("kind", [Floor, DurableFloor])
def test_a_floor_syncs_if_it_is_a_durable_one(tmp_path: Path, kind: type[Floor]) -> None:
    """/dev/null takes all that is written, and cannot be synced."""
    floor = kind(tmp_path / "floor", {})
    (floor.directory / "t").symlink_to("/dev/null")
    floor.create_topic("t", 1, {})
    if kind is Floor:
        assert at_rate(floor, "t", 1, 100, 1)["ack p50 us"] > 0
        return floor.delete_topic("t")
    with pytest.raises(ClientFailed):
        at_rate(floor, "t", -1, 100, 1)
    with pytest.raises(RuntimeError, match="durable floor ended with 1 before its clients"):
        floor.delete_topic("t")


def test_the_floor_of_a_start_starts_again_and_leaves_nothing(tmp_path: Path) -> None:
    floor = FloorOfStart(tmp_path / "floor", {})
    first = floor.pid
    floor.stop()
    assert floor.start() > 0
    assert floor.pid != first
    floor.stop()
    assert [has_not_ended(each) for each in (first, floor.pid)] == [False, False]


def test_a_node_of_rabbitmq_leaves_nothing_behind(tmp_path: Path, install: Install) -> None:
    install("epmd", LISTEN.format(port="os.environ['ERL_EPMD_PORT']", name="names"))
    install("rabbitmq-server", LISTEN.format(port=NODE_PORT, name="node"))
    node = RabbitMQ(tmp_path / "node", {})
    names, first = (int((tmp_path / "node" / each).read_text()) for each in ("names", "node"))
    assert first == node.pid
    assert node.is_alive()
    assert has_not_ended(names)
    node.stop()
    assert not node.is_alive()
    assert not has_not_ended(names)


def test_a_node_that_does_not_start_says_why(tmp_path: Path, install: Install) -> None:
    install("epmd", LISTEN.format(port="os.environ['ERL_EPMD_PORT']", name="names"))
    install("rabbitmq-server", "import sys; sys.exit('no plugin of that name')")
    with pytest.raises(RuntimeError, match="no plugin of that name"):
        RabbitMQ(tmp_path / "node", {})
    assert not has_not_ended(int((tmp_path / "node" / "names").read_text()))


def test_a_node_is_asked_on_loopback_alone(tmp_path: Path, install: Install) -> None:
    install("epmd", LISTEN.format(port="os.environ['ERL_EPMD_PORT']", name="names"))
    install("rabbitmq-server", LISTEN.format(port=NODE_PORT, name="node"))
    node = RabbitMQ(tmp_path / "node", {})
    try:
        config = (tmp_path / "node" / "rabbitmq.conf").read_text().splitlines()
        assert config[:2] == ["listeners.tcp = none", f"stream.listeners.tcp.1 = {node.address}"]
        around = node.environment()
        assert "{127,0,0,1}" in around["RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS"]
        assert around["ERL_EPMD_ADDRESS"] == "127.0.0.1"
    finally:
        node.stop()


def test_each_program_of_a_peer_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_protocol_brokers.importlib.util, "find_spec", lambda name: None)
    there = ["rabbitmq-server", "erl"]
    monkeypatch.setattr(
        other_protocol_brokers.shutil, "which", lambda name: name if name in there else None
    )
    assert other_protocol_brokers.missing("rabbitmq") == "epmd is not on PATH (Debian: erlang-base)"
    there.append("epmd")
    told = "there is no module rstream (PyPI: rstream)"
    assert other_protocol_brokers.missing("rabbitmq") == told


class Confirming:
    """A fake of rstream's producer: confirms all records except those that the test refuses."""

    def __init__(self, refused: int | None) -> None:
        self.refused, self.sent = refused, 0

    async def __aenter__(self) -> Confirming:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def send_batch(self, topic: str, batch: list[bytes], on_publish_confirm: Any) -> None:
        for _ in batch:
            self.sent += 1
            on_publish_confirm(SimpleNamespace(is_confirmed=self.sent != self.refused,
                                               response_code=17))


@pytest.mark.parametrize("refused", [None, 1, 2500])
def test_every_record_is_confirmed_or_the_turn_fails(
    refused: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer, module = Confirming(refused), ModuleType("rstream")
    monkeypatch.setattr(module, "Producer", lambda *_, **__: producer, raising=False)
    monkeypatch.setitem(sys.modules, "rstream", module)
    if refused is None:
        assert other_protocol_clients.rabbitmq_write("127.0.0.1:1", "t", 10, 2500) > 0
        assert producer.sent == 2500
    else:
        with pytest.raises(ValueError, match="refused: code 17"):
            other_protocol_clients.rabbitmq_write("127.0.0.1:1", "t", 10, 2500)


def test_the_folder_of_a_torture_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "not" / "there"
    seen: list[Path] = []
    monkeypatch.setattr(sys, "argv", ["export_kills", "--dir", str(folder)])
    monkeypatch.setattr(export_kills.subprocess, "run", lambda *_: SimpleNamespace(returncode=1))
    monkeypatch.setattr(export_kills, "torture", lambda scratch, *_, **__: seen.append(scratch))
    export_kills.main()
    assert [each.parent for each in seen] == [folder]


def test_rabbitmq_is_found_behind_the_wrapper(tmp_path: Path, install: Install) -> None:
    """Debian's wrapper changes the user and the directory."""
    real = tmp_path / "lib"
    real.mkdir()
    for name in ("wrapper", "rabbitmq-server"):
        (real / name).write_text("")
        (real / name).chmod(0o755)
    (tmp_path / "bin" / "rabbitmq-server").symlink_to(real / "wrapper")
    assert rabbitmq.script() == str(real / "rabbitmq-server")
