"""Each example runs with one command and does what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
TIMEOUT_S = 120


# What `make build` does not install: an example runs without it.
NOT_BUILT = """
import sys

class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pytest", "confluent_kafka", "pyspark", "pyarrow", "rich"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Nothing())
"""


def run(name: str, *words: str) -> str:
    """What it printed. It must end well, and say nothing on the side."""
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / name), *words]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sitecustomize.py").write_text(NOT_BUILT)
        return told_by(command, f"{folder}{os.pathsep}{ROOT}")


def told_by(command: list[str], path: str) -> str:
    env = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, env=env)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_each_example_is_run_here() -> None:
    examples = {each.name for each in (ROOT / "examples").glob("*.py")} - {"brokers.py"}
    assert examples == set(re.findall(r'run\("(\w+\.py)"', Path(__file__).read_text()))


def numbers(text: str) -> list[int]:
    return [int(each) for each in re.findall(r"\d+", text)]


def test_activity_feed() -> None:
    told, viewed, searched, read = run("activity_feed.py", "--events", "2000").splitlines()
    assert told == "told: 6000 in the feed"
    assert viewed.startswith("most viewed: /")
    assert searched.startswith("searched for: ")
    assert numbers(read) == [6000]
    counts = [int(each.rpartition(" ")[2]) for each in (viewed + ", " + searched).split(", ")]
    assert sum(counts) == 6000


def test_metrics_alert() -> None:
    sent, *alerts = run("metrics_alert.py").splitlines()
    assert sent == "480 samples of 4 hosts"
    raised, ended = alerts  # one of each, though the average stays high for half a minute
    assert re.fullmatch(r"alert raised for web-2 at second 4\d, mean 0\.\d+", raised)
    assert re.fullmatch(r"alert ended for web-2 at second [78]\d, mean 0\.\d+", ended)


def test_member_partitions() -> None:
    sent, *partitions, twice = run("member_partitions.py", "--clicks", "8000").splitlines()
    assert sent == "8000 clicks of 500 members"
    found = [re.fullmatch(r"partition (\S+): (\d+) members, (\d+) sessions", p) for p in partitions]
    assert [each[1] for each in found if each] == ["1-0", "1-1", "2-0", "2-1"]
    assert {each[2] for each in found if each} == {"125"}
    assert twice == "0 members are in more than one partition"


def test_exactly_once_sqlite() -> None:
    *kills, found, sent, differ = run("exactly_once_sqlite.py", "--orders", "6000").splitlines()
    positions = [numbers(each)[0] for each in kills]
    assert [re.sub(r"\d+", "N", each) for each in kills] == ["killed at N of N orders"] * 3
    assert positions == [1450, 2950, 4450], "a chunk before 1500, 3000, 4500"
    assert numbers(found) == numbers(sent)
    assert numbers(found)[0] == 6000
    assert differ == "accounts that differ: 0"
