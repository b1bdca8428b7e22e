"""docs/security.md, followed to the letter: its commands are typed, its programs are run.

Only the address, the ports and PASSWORD are replaced. 127.0.0.2 stands for the network."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from loadtest.ports import lasting_ports
from tests.interop.kafka_tools import KafkaTools

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
ADDRESS = "127.0.0.2"
DEADLINE_S = 60
SENT_BY = {
    "from confluent_kafka": "from librdkafka",
    "from kafka ": "from kafka-python",
    "from aiokafka ": "from aiokafka",
    "from appliance.client": "from our own client",
}


def blocks(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return [text for name, text in found if name == language]


def commands() -> list[str]:
    return re.findall(r"^\$ (.*)$", "".join(blocks("")), re.MULTILINE)


def free_ports() -> tuple[int, int]:
    """Kafka's, and the admin port's, behind which that of bulk data is free, too. The kernel gives
    none of them to a connection before the broker has it."""
    while True:
        kafka, admin = lasting_ports(2)
        with socket.socket() as bulk:
            try:
                bulk.bind((ADDRESS, admin + 1))
            except OSError:
                continue
        if kafka != admin + 1:
            return kafka, admin


@dataclass
class Newcomer:
    """Has the page, an installed appliance, and a directory."""

    folder: Path
    kafka_port: int
    admin_port: int
    process: subprocess.Popen[str] | None = None

    def own(self, text: str) -> str:
        text = text.replace("192.0.2.7:9093", self.bootstrap)
        return text.replace(":8780", f":{self.admin_port}").replace("192.0.2.7", ADDRESS)

    @property
    def bootstrap(self) -> str:
        return f"{ADDRESS}:{self.kafka_port}"

    @property
    def environment(self) -> dict[str, str]:
        known = {name: value for name, value in os.environ.items() if "APPLIANCE" not in name}
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        return {**known, "PATH": path, "PYTHONPATH": str(ROOT), "HOME": str(self.folder),
                "XDG_CONFIG_HOME": str(self.folder / "config")}

    def types(self, line: str) -> str:
        done = subprocess.run(["bash", "-c", self.own(line)], cwd=self.folder, text=True,
                              env=self.environment, capture_output=True, timeout=DEADLINE_S)
        assert done.returncode == 0, f"$ {line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def serves(self, line: str) -> None:
        """In a terminal of its own, up to `ready`."""
        assert self.process is None
        with (self.folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                ["bash", "-c", f"exec {self.own(line)}"], cwd=self.folder, text=True,
                env=self.environment, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        assert said.startswith("ready "), said + (self.folder / "log").read_text()

    def with_password(self, text: str) -> str:
        password = (self.folder / "feed.password").read_text().strip()
        text = self.own(text).replace("PASSWORD", password)
        return text.replace("tls/ca.pem", str(self.folder / "tls" / "ca.pem"))


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    """At the end of the page's commands."""
    one = Newcomer(tmp_path_factory.mktemp("newcomer"), *free_ports())
    program = one.folder / "bin" / "appliance"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m appliance "$@"\n')
    program.chmod(0o755)
    try:
        for line in commands():
            if line.startswith("appliance serve"):
                one.serves(line)
            else:
                one.types(line)
        yield one
    finally:
        if one.process is not None:
            one.process.terminate()
            one.process.communicate(timeout=DEADLINE_S)


def is_there(newcomer: Newcomer, sent: str) -> bool:
    """A reader sees what is on disk, which follows the answer to acks=1."""
    deadline = time.monotonic() + DEADLINE_S
    while sent not in newcomer.types("appliance consume orders").splitlines():
        if time.monotonic() > deadline:
            return False
    return True


def test_ten_commands_are_ten() -> None:
    section = PAGE[PAGE.index("## Ten commands") : PAGE.index("## A user who reads")]
    assert len(re.findall(r"^\$ ", section, re.MULTILINE)) == 10


def test_a_producer_may_write_one_topic_and_nothing_else(newcomer: Newcomer) -> None:
    def answer(operation: str, resource: str) -> str:
        words = f"appliance acl explain User:feed --operation {operation} --resource {resource}"
        return newcomer.types(words)

    assert answer("write", "topic:orders").startswith("allowed")
    for operation, resource in (("read", "topic:orders"), ("write", "topic:other"),
                                ("read", "group:billing"), ("alter", "cluster")):
        assert answer(operation, resource).startswith("refused"), (operation, resource)


def test_what_is_shown_below_a_command_is_what_one_gets(newcomer: Newcomer) -> None:
    shown = re.findall(r"^\$ (.*)\n(?!\$)(\S.*)$", "\n".join(blocks("")), re.MULTILINE)
    assert len(shown) == 1
    for line, below in shown:
        assert newcomer.types(line).splitlines()[0] == below


def test_files_with_secrets_are_closed_to_others(newcomer: Newcomer) -> None:
    secret = [newcomer.folder / each for each in ("ada.password", "feed.password", "data",
                                                  "tls/server.pem", "tls/ca.key")]
    assert [path.stat().st_mode & 0o077 for path in secret] == [0] * len(secret)


def test_another_topic_is_refused_to_it(newcomer: Newcomer) -> None:
    program = newcomer.own(blocks("python")[0]).replace('"orders"', '"other"')
    done = subprocess.run([sys.executable, "-c", program], cwd=newcomer.folder, text=True,
                          env=newcomer.environment, capture_output=True, timeout=DEADLINE_S)
    assert "TOPIC_AUTHORIZATION_FAILED" in done.stdout, done.stderr
    assert "other" not in newcomer.types("appliance topic list --json")


@pytest.mark.parametrize("program", blocks("python"), ids=lambda text: text.split()[1])
def test_a_program_of_the_page_writes_its_record(newcomer: Newcomer, program: str) -> None:
    (sent,) = [value for name, value in SENT_BY.items() if name in program]
    done = subprocess.run([sys.executable, "-c", newcomer.own(program)], cwd=newcomer.folder,
                          env=newcomer.environment, capture_output=True, text=True,
                          timeout=DEADLINE_S)
    assert done.returncode == 0, done.stderr
    assert is_there(newcomer, sent)


def test_kafkas_tools_write_with_the_properties_of_the_page(newcomer: Newcomer) -> None:
    (properties,) = blocks("properties")
    file = newcomer.folder / "feed.properties"
    file.write_text(newcomer.with_password(properties))
    tools = KafkaTools(newcomer.bootstrap, newcomer.folder / "tools")
    try:
        tools.must("kafka-console-producer", "--topic", "orders", "--command-config", str(file),
                   stdin="from Java\n")
    finally:
        tools.close()
    assert is_there(newcomer, "from Java")


def test_kcat_writes_with_the_file_of_the_page(newcomer: Newcomer) -> None:
    kcat = shutil.which("kcat")
    assert kcat is not None, "kcat is missing; tests/setup.sh brings it"
    (settings,) = blocks("ini")
    (newcomer.folder / "feed.conf").write_text(newcomer.with_password(settings))
    newcomer.types("echo from kcat | kcat -F feed.conf -P -t orders")
    assert is_there(newcomer, "from kcat")
