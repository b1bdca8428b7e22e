"""The wheel of each Python that is here, in a root without compiler and network: it installs and
serves, and a record of a Kafka client goes in and out."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.installation import clean_root
from tests.installation.built_packages import ROOT

MINORS = range(10, 15)
CLIENT = "kafka-python==3.0.*"
STEPS = """
for tool in cc gcc c++ make ld; do ! command -v $tool; done
{python} -m venv /opt/appliance
/opt/appliance/bin/pip install --quiet --disable-pip-version-check --no-index \\
    --find-links /opt/wheels appliance-log kafka-python
cd /
/opt/appliance/bin/appliance --version
/opt/appliance/bin/appliance serve --data-dir /srv/data >/tmp/out 2>&1 &
broker=$!
tries=0
until grep -q ^ready /tmp/out; do
    tries=$((tries + 1)); [ $tries -lt 120 ] || {{ cat /tmp/out; exit 1; }}; sleep 0.5
done
/opt/appliance/bin/python - <<'EOF'
import sys
from kafka import KafkaConsumer, KafkaProducer
producer = KafkaProducer(bootstrap_servers="127.0.0.1:9092", acks="all")
producer.send("orders", b"one").get(30)
consumer = KafkaConsumer("orders", bootstrap_servers="127.0.0.1:9092", auto_offset_reset="earliest")
print("read", next(iter(consumer)).value.decode(), "with Python %d.%d" % sys.version_info[:2])
EOF
kill $broker
wait $broker
"""

pytestmark = [
    pytest.mark.release("compiles for each Python; tests/installation/test_sdist.py has what of"),
    pytest.mark.skipif(not clean_root.is_possible(), reason="wants root, debootstrap and ip"),
]


def pythons() -> dict[int, Path]:
    done = subprocess.run([str(ROOT / "packaging/pythons.sh")], check=True, capture_output=True,
                          text=True)  # fmt: skip
    found = map(Path, done.stdout.split())
    return {int(each.name.removeprefix("python3.")): each for each in found}


def wheel_for(minor: int, python: Path) -> Path:
    """Of the sources that are here."""
    wanted = f"appliance_log-*-cp3{minor}-cp3{minor}-*_x86_64.whl"
    found = list((ROOT / "dist").glob(wanted))
    sources = [*(ROOT / "appliance").rglob("*.p[yx]*"), *(ROOT / "appliance").rglob("*.h")]
    newest = max(each.stat().st_mtime for each in sources if each.suffix != ".pyc")
    if not found or found[0].stat().st_mtime < newest:
        subprocess.run(["make", "wheel", f"PYTHONS={python}"], cwd=ROOT, check=True,
                       capture_output=True)  # fmt: skip
        found = list((ROOT / "dist").glob(wanted))
    (wheel,) = found
    return wheel


@pytest.mark.parametrize("minor", MINORS)
def test_a_wheel_installs_and_serves_where_there_is_no_compiler(minor: int, tmp_path: Path) -> None:
    python = pythons().get(minor)
    if python is None:
        pytest.skip(f"there is no Python 3.{minor} here (PYTHONS_IN names folders with more)")
    wheel = wheel_for(minor, python)
    wheels = tmp_path / "wheels"
    subprocess.run([str(python), "-m", "pip", "download", "--quiet", "--only-binary", ":all:",
                    "--dest", str(wheels), str(wheel), CLIENT], check=True)  # fmt: skip
    prefix = python.parents[1]
    folders = {wheels: "/opt/wheels"}
    if prefix != Path("/usr"):  # else it is the one of the root itself
        folders[prefix] = str(prefix)
    told = clean_root.run(STEPS.format(python=python), folders, tmp_path / "root")
    assert f"read one with Python 3.{minor}" in told
