"""The image of a container, built by podman on a base of debootstrap's, and what runs from it: the
broker, as its own user, with its data on a volume."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from loadtest.ports import lasting_ports
from tests.installation.built_packages import ROOT, package
from tests.installation.debian_machine import CACHE, release
from tests.installation.steady_load import DEADLINE_S, until
from tests.support.made_once import made_once

BASE = "docker.io/library/debian:bookworm-slim"
TOPIC = "orders"
# crun of Debian 12 refuses control groups of both versions at a time, which runc takes
RUNTIME = ("--runtime", "runc") if shutil.which("runc") else ()
STORE = """\
[storage]
driver = "overlay"
graphroot = "{folder}/graph"
runroot = "{folder}/run"
"""

pytestmark = [
    pytest.mark.release("builds an image; tests/installation/test_installation.py has its steps"),
    pytest.mark.skipif(not shutil.which("podman"), reason="wants podman"),
    pytest.mark.skipif(
        os.geteuid() != 0 or not shutil.which("debootstrap"), reason="wants root and debootstrap"
    ),
    pytest.mark.skipif(release() != "bookworm", reason="wants the Debian that the image has"),
]


class Podman:
    """With a store of its own: the base is ours, and no registry's."""

    def __init__(self, folder: Path) -> None:
        file = folder / "storage.conf"
        file.write_text(STORE.format(folder=folder))
        # chroot: builds also where control groups are not as the runtime wants them
        self.environment = {**os.environ, "CONTAINERS_STORAGE_CONF": str(file),
                            "BUILDAH_ISOLATION": "chroot"}  # fmt: skip

    def run(self, *words: str) -> str:
        done = subprocess.run(["podman", *words], env=self.environment, capture_output=True,
                              text=True, check=False)  # fmt: skip
        assert done.returncode == 0, f"podman {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout.strip()


@pytest.fixture
def podman(tmp_path: Path) -> Iterator[Podman]:
    made = Podman(tmp_path)
    made.run("import", "--quiet", str(base()), BASE)
    try:
        yield made
    finally:
        made.run("rm", "--all", "--force")
        made.run("rmi", "--all", "--force")


def base() -> Path:
    """The least Debian, as a file."""
    wanted = CACHE / f"debian-{release()}-least"
    with made_once(wanted) as folder:
        if folder is not None:
            tree = folder / "tree"
            subprocess.run(["debootstrap", "--variant=minbase", release(), str(tree)], check=True,
                           stdout=subprocess.DEVNULL)  # fmt: skip
            subprocess.run(["tar", "-C", tree, "-cf", folder / "tree.tar", "."], check=True)
            shutil.rmtree(tree)
    return wanted / "tree.tar"


def test_a_broker_runs_from_the_image_and_its_volume_outlives_it(podman: Podman) -> None:
    package()
    done = subprocess.run(["packaging/image.sh"], cwd=ROOT, env=podman.environment, check=False,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-3000:]}{done.stderr[-3000:]}"
    bootstrap, admin = (f"127.0.0.1:{port}" for port in lasting_ports(2))
    started(podman, "first", bootstrap, admin)
    produced(bootstrap)
    assert podman.run("exec", "first", "id", "-un") == "appliance"
    podman.run("stop", "--time", "60", "first")
    assert podman.run("inspect", "--format", "{{.State.ExitCode}}", "first") == "0"
    podman.run("rm", "first")
    started(podman, "second", bootstrap, admin)
    assert read(bootstrap) == b"one"


def started(podman: Podman, name: str, bootstrap: str, admin: str) -> None:
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)  # podman would ask for more
    podman.run(*RUNTIME, "run", "--detach", "--name", name, "--network", "host",
               "--ulimit", f"nofile={most}:{most}", "--ulimit", "nproc=4096:4096",
               "--volume", "appliance:/var/lib/appliance", "appliance", "serve",
               "--data-dir", "/var/lib/appliance", "--set", f"listeners={bootstrap}",
               "--set", f"admin.address={admin}",
               "--set", "export.address=127.0.0.1:0")  # fmt: skip
    until(lambda: serves(bootstrap))


def serves(bootstrap: str) -> bool:
    try:
        return bool(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=2).brokers)
    except KafkaException:  # not yet
        return False


def produced(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    producer.produce(TOPIC, b"one")
    assert producer.flush(DEADLINE_S) == 0


def read(bootstrap: str) -> bytes | None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "proof"})
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        message = consumer.poll(DEADLINE_S)
        assert message is not None
        return message.value()
    finally:
        consumer.close()
