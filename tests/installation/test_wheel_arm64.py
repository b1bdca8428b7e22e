"""The wheel for arm64, which was compiled on another processor: qemu runs it on that processor's
instructions. Its checksums agree, and a record of a Kafka client goes in and out of its broker."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from loadtest.ports import lasting_ports
from tests.installation.built_packages import ROOT
from tests.installation.steady_load import DEADLINE_S, QUIET

QEMU, TREE = "qemu-aarch64-static", ROOT / "build/arm64"
PLATFORMS = ("manylinux_2_34", "manylinux_2_28", "manylinux_2_17", "manylinux2014")
MINOR = "3.11"  # of the Debian that the tree is of
TESTS = ("tests/record/test_crc.py", "tests/support/batch_model.py")
START_S = 120.0

pytestmark = [
    pytest.mark.release("emulates a processor; tests/record/test_crc.py has the same here"),
    pytest.mark.skipif(not shutil.which(QEMU), reason="wants qemu-user-static"),
    pytest.mark.skipif(
        os.geteuid() != 0 or not shutil.which("aarch64-linux-gnu-g++"),
        reason="wants root and g++-aarch64-linux-gnu",
    ),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel and all that it imports, for that processor."""
    subprocess.run(["make", "wheel-arm64"], cwd=ROOT, check=True)  # one of before proves nothing
    (wheel,) = (ROOT / "dist").glob("*aarch64.whl")
    made = tmp_path_factory.mktemp("arm64") / "site"
    platforms = [f"--platform={each}_aarch64" for each in PLATFORMS]
    pip = [str(ROOT / "build/tools/bin/pip"), "install", "--quiet", "--target", str(made),
           "--only-binary=:all:", "--implementation=cp", "--python-version", MINOR]  # fmt: skip
    subprocess.run([*pip, *platforms, str(wheel), "pytest"], check=True)
    return made


def python(site: Path, *words: str) -> list[str]:
    return ["env", f"PYTHONPATH={site}", "PYTHONDONTWRITEBYTECODE=1", QEMU, "-L", str(TREE),
            str(TREE / f"usr/bin/python{MINOR}"), *words]  # fmt: skip


def test_its_checksums_are_those_of_everybody(site: Path, tmp_path: Path) -> None:
    for each in TESTS:
        to = tmp_path / each
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / each, to)
    said = "import platform; from appliance import _crc; print(platform.machine(), _crc.kernels())"
    done = subprocess.run(python(site, "-c", said), cwd=tmp_path, check=True, capture_output=True,
                          text=True)  # fmt: skip
    assert done.stdout.startswith("aarch64 "), done.stdout
    subprocess.run(python(site, "-m", "pytest", "-q", "-p", "no:cacheprovider", TESTS[0]),
                   cwd=tmp_path, check=True)  # fmt: skip


@pytest.fixture
def bootstrap(site: Path, tmp_path: Path) -> Iterator[str]:
    kafka, admin = (f"127.0.0.1:{port}" for port in lasting_ports(2))
    words = ["-m", "appliance", "serve", "--data-dir", str(tmp_path / "data")]
    for each in (f"listeners={kafka}", f"admin.address={admin}", "export.address=127.0.0.1:0"):
        words += ["--set", each]
    log = tmp_path / "log"
    with log.open("wb") as out:
        broker = subprocess.Popen(python(site, *words), cwd=tmp_path, stdout=out, stderr=out)
        try:
            deadline = time.monotonic() + START_S
            while "ready kafka" not in log.read_text():
                assert broker.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.2)
            yield kafka
        finally:
            broker.terminate()
            code = broker.wait(START_S)
        assert code == 0, log.read_text()


def test_a_record_goes_in_and_out(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **QUIET})
    for number in range(100):
        producer.produce("orders", str(number))
    assert producer.flush(DEADLINE_S) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "proof", **QUIET})
    try:
        consumer.assign([TopicPartition("orders", 0, 0)])
        found = consumer.consume(100, timeout=DEADLINE_S)
        assert [each.value() for each in found] == [b"%d" % number for number in range(100)]
    finally:
        consumer.close()
