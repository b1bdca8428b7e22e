"""A real export by Spark, which systemd starts in the sandbox of its units, on a booted machine."""

from __future__ import annotations

import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from appliance.testing import RunningBroker, running_broker
from appliance_spark.export_layout import Target
from tests.installation import built_packages
from tests.installation.debian_machine import DebianMachine, is_possible
from tests.installation.steady_load import until
from tests.support.rest import Rest

LAKE = "/srv/lake"
BY_TIMER, SCHEDULER = "appliance-export@clicks.service", "appliance-export-schedule.service"
SPARK, JAVA = "/opt/spark", "/opt/java"  # where the machine sees what is here
DUE_S = 240.0  # each minute, and Spark starts slowly on a busy machine
OWN = f"""\
[Service]
Environment=PYTHONPATH={SPARK} JAVA_HOME={JAVA}
Environment=APPLIANCE_ADMIN_ADDRESS=@ADMIN@
"""

pytestmark = [
    pytest.mark.release("starts Spark; tests/installation/test_installation.py has the units"),
    pytest.mark.skipif(not is_possible(), reason="wants root, debootstrap and systemd-nspawn"),
    pytest.mark.skipif(not shutil.which("java"), reason="wants Java"),
]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    """Outside: the network of the machine is the same."""
    with running_broker(tmp_path / "data") as made:
        yield made


@pytest.fixture
def machine(tmp_path: Path, broker: RunningBroker) -> Iterator[DebianMachine]:
    made = DebianMachine(tmp_path / "machine")
    try:
        shutil.copy(built_packages.package(), made.root / "opt/now.deb")
        made.without_network("dpkg", "-i", "/opt/now.deb")
        for unit in ("appliance-export@.service", SCHEDULER):
            own = made.root / f"etc/systemd/system/{unit}.d/own.conf"
            own.parent.mkdir()
            own.write_text(OWN.replace("@ADMIN@", broker.admin))
        java = Path(shutil.which("java") or "").resolve().parents[1]
        settings = (java / "conf/security/java.security").resolve().parents[1]  # Debian has links
        made.boot(f"{sysconfig.get_path('purelib')}:{SPARK}", f"{java}:{JAVA}", str(settings))
        yield made
    finally:
        made.stop()


def test_spark_exports_in_the_sandbox_of_its_units(
    broker: RunningBroker, machine: DebianMachine
) -> None:
    rest = Rest(broker.admin)
    machine.run("install", "-d", "-o", "appliance-export", LAKE)
    produce(broker, 0, 1000)
    defined = {"topics": ["clicks"], "target": f"{LAKE}/clicks", "schedule": {"cron": "* * * * *"}}
    assert rest.ask("PUT", "/exports/clicks", defined).status == 200
    machine.run("systemctl", "start", BY_TIMER)  # returns when it has ended well
    assert rows(machine) == 1000

    produce(broker, 1000, 1500)
    machine.run("systemctl", "start", SCHEDULER)
    until(lambda: rows(machine) == 1500, DUE_S)
    status = machine.run("cat", f"/proc/{machine.property(SCHEDULER, 'MainPID')}/status")
    user = machine.run("id", "-u", "appliance-export").strip()
    assert f"Uid:\t{user}\t{user}\t{user}\t{user}" in status
    assert "Seccomp:\t2" in status
    assert "CapBnd:\t0000000000000000" in status
    machine.run("systemctl", "stop", SCHEDULER)


def produce(broker: RunningBroker, first: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(first, end):
        producer.produce("clicks", str(number))
    assert producer.flush(30) == 0


def rows(machine: DebianMachine) -> int:
    """In the files that readers find, which are whole."""
    target = Target(machine.root / LAKE[1:] / "clicks")
    return sum(pq.ParquetFile(target.root / each).metadata.num_rows for each in target.data_files())
