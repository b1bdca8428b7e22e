"""A real server on a damaged data directory, over its sockets: the start, health in all its forms,
commands and readers report losses and unknown states, also after another start, until an operator
acknowledges them. Health is never ok with an open loss.

test_damage.py tries each kind of damage within a log without a server.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka as ck
import pytest
from click.testing import CliRunner, Result

from appliance.cli.main import main
from tests.support.rest import Rest
from tests.support.serving import Serving
from tests.support.warm_serving import WarmServing

WELL, DAMAGED, UNKNOWN = 0, 10, 3
IS_NIGHTLY = "CRASH_NIGHTLY" in os.environ

# Messages per topic, two per segment, so that the last segment is the active one.
COUNTS = {"flipped": 6, "stale": 6, "base": 6, "gone": 6, "well": 6}
OFFSETS = "__consumer_offsets"


@dataclass
class Box:
    """One life of a server on a directory."""

    serving: Serving

    @property
    def rest(self) -> Rest:
        return Rest(self.admin)

    @property
    def admin(self) -> str:
        return self.serving.admin.removeprefix("http://")

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(main, [*words], env={"APPLIANCE_ADMIN_ADDRESS": self.admin})

    def read(self, topic: str) -> tuple[int, list[int]]:
        """The exit code of `consume`, and the messages that it printed."""
        done = self.run("consume", topic)
        return done.exit_code, [int(line.split()[0]) for line in done.stdout.splitlines()]

    def commit(self, group: str, offset: int) -> None:
        address = "{}:{}".format(*self.serving.kafka)
        config = {"bootstrap.servers": address, "group.id": group, "enable.auto.commit": False}
        with closing(ck.Consumer(config)) as consumer:
            place = ck.TopicPartition("well", 0, offset)
            consumer.commit(offsets=[place], asynchronous=False)

    def tells(self, *words: str) -> None:
        """Every report of health says that it is not ok, with the reason."""
        found = self.run("health")
        assert found.exit_code == DAMAGED, found.output
        for word in words:
            assert word in found.output
        answer = self.rest.raw("GET", "/healthz")
        assert (answer.status, answer.body["status"]) == (200, "degraded")  # it serves
        assert answer.body["reasons"]
        text = self.rest.raw("GET", "/metrics").body
        lines = (text if isinstance(text, str) else text.decode()).splitlines()
        assert "appliance_healthy 0.0" in lines
        assert self.run("ledger", "list").exit_code == DAMAGED


@contextmanager
def serving(folder: Path, stop: signal.Signals = signal.SIGKILL) -> Iterator[Box]:
    box = Box(WarmServing(folder))
    try:
        yield box
    finally:
        box.serving.stop(stop)


def write(box: Box, topic: str, first: int, end: int) -> None:
    for number in range(first, end):
        value = {"text": f"{number} {'x' * 300}"}
        box.rest.post(f"/topics/{topic}/messages", {"messages": [{"value": value}]})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`data` of a killed server, `older` of one life before, `clean` of a clean stop."""
    folder = tmp_path_factory.mktemp("damaged-server")
    with serving(folder) as box:
        for topic, count in COUNTS.items():
            box.rest.post("/topics", {"name": topic, "configs": {"segment.bytes": "1024"}})
            write(box, topic, 0, count - 2)
        for offset in (1, 2):
            box.commit("g", offset)
    shutil.copytree(folder / "data", folder / "older")
    with serving(folder) as box:
        for topic, count in COUNTS.items():
            write(box, topic, count - 2, count)
        box.commit("g", 3)
    shutil.copytree(folder / "data", folder / "killed")
    with serving(folder, signal.SIGTERM):
        pass
    (folder / "data").rename(folder / "clean")
    (folder / "killed").rename(folder / "data")
    return folder


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def segments(data: Path, topic: str) -> list[Path]:
    return sorted((data / f"{topic}-0").glob("*.log"))


# Damage of partitions


def flip_offsets(data: Path) -> None:
    flip(segments(data, OFFSETS)[0], 80)


def flip_record(data: Path) -> None:
    flip(segments(data, "flipped")[0], 100)


def put_stale(data: Path) -> None:
    first, *_, active = segments(data, "stale")
    shutil.copy(first, active)


def flip_base(data: Path) -> None:
    flip(segments(data, "base")[1], 7)


def remove_partition(data: Path) -> None:
    shutil.rmtree(data / "gone-0")


# The records that readers get after a scrub has read the bytes that no start reads.
PARTITIONS: dict[Callable[[Path], None], tuple[str, list[int]]] = {
    flip_offsets: ("", []),
    flip_record: ("flipped", [1, 2, 3, 4, 5]),
    put_stale: ("stale", [0, 1, 2, 3]),
    flip_base: ("base", [0, 1, 3, 4, 5]),
    remove_partition: ("gone", []),
}
NAMES = {flip_offsets: OFFSETS}


def verified(data: Path) -> int:
    return CliRunner().invoke(main, ["log", "verify", str(data)]).exit_code


@pytest.mark.parametrize(
    "damages",
    [
        pytest.param([*PARTITIONS], id="all at once"),
        *(pytest.param([each], id=each.__name__) for each in PARTITIONS if IS_NIGHTLY),
    ],
)
def test_damaged_partitions_are_told_and_all_else_is_served(
    damages: list[Callable[[Path], None]], made: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    shutil.copytree(made / "data", data)
    for damage in damages:
        damage(data)
    topics = [PARTITIONS[each] for each in damages if PARTITIONS[each][0]]
    names = [f"{NAMES.get(each, PARTITIONS[each][0])}-0" for each in damages]
    assert verified(data) == DAMAGED
    with serving(tmp_path) as box:
        box.run("scrub")  # it read no lost directory
        box.tells(*names)
        for topic, kept in topics:
            assert box.read(topic) == (DAMAGED, kept), topic
        assert box.read("well") == (WELL, [*range(6)])
        if flip_offsets not in damages:
            assert box.rest.get("/groups/g")["offsets"][0]["committed"] == 3
    with serving(tmp_path) as box:
        box.tells(*names)
        assert "Degraded: " in box.serving.log
        for topic, kept in topics:
            assert box.read(topic) == (DAMAGED, kept), topic
        assert box.run("ledger", "acknowledge", "--all").exit_code == WELL
        refused = [each for each in names if each != "gone-0"]  # they fail until they may skip
        for name in refused:
            assert box.run("log", "repair", name, "--skip", "--yes").exit_code == WELL, name
    with serving(tmp_path) as box:
        assert box.run("health").stdout.startswith("Healthy: "), box.run("health").output
        for topic, kept in topics:
            assert box.read(topic) == (WELL, kept), topic


def test_a_reader_that_meets_damage_first_is_told_where(made: Path, tmp_path: Path) -> None:
    """A start does not read bytes before the recovery points."""
    data = tmp_path / "data"
    shutil.copytree(made / "data", data)
    put_stale(data)
    with serving(tmp_path) as box:
        assert box.read("stale") == (DAMAGED, [0, 1, 2, 3])


# Damage outside of partitions


def remove(*names: str) -> Callable[[Path], None]:
    def damage(data: Path) -> None:
        for name in names:
            for each in data.glob(name):
                each.unlink()

    return damage


def put_older_journal(data: Path) -> None:
    for name in ("checkpoint.0", "checkpoint.1"):
        shutil.copy(data.parent / "older" / name, data / name)


def flip_heads(name: str, *places: int) -> Callable[[Path], None]:
    """Damages all copies, within a file and in files that match `name`."""

    def damage(data: Path) -> None:
        for each in data.glob(name):
            for at in places:
                if each.stat().st_size > at:
                    flip(each, at)

    return damage


def keep_journal_only(data: Path) -> None:
    for each in data.iterdir():
        if each.name.startswith("checkpoint."):
            continue
        shutil.rmtree(each) if each.is_dir() else each.unlink()


# Parts of the health report, and whether all messages are there.
DIRECTORY = {
    "no catalog": (remove("catalog.db*"), "catalog.db was gone", True),
    "an older journal": (put_older_journal, "newest part of the checkpoint journal", True),
    "flipped journals": (
        flip_heads("checkpoint.*", 9), "checkpoint journal is gone or damaged", True,
    ),
    "no watermarks": (remove("watermarks"), "watermarks is gone or damaged", True),
    "flipped watermarks": (
        flip_heads("watermarks", 9, 4105), "watermarks is gone or damaged", True,
    ),
    "nothing but the journal": (keep_journal_only, "well-0: offsets 0 to ", False),
}


SELDOM = ("flipped journals", "flipped watermarks")  # as if the files were gone


@pytest.mark.parametrize("name", [each for each in DIRECTORY if IS_NIGHTLY or each not in SELDOM])
def test_what_cannot_be_known_is_told_until_somebody_has_seen_it(
    name: str, made: Path, tmp_path: Path
) -> None:
    damage, words, is_whole = DIRECTORY[name]
    for each in ("data", "older"):
        shutil.copytree(made / each, tmp_path / each)
    damage(tmp_path / "data")
    with serving(tmp_path) as box:
        box.tells(words)
        assert words in box.serving.log
        assert box.read("well") == ((WELL, [*range(6)]) if is_whole else (UNKNOWN, []))
    with serving(tmp_path) as box:
        box.tells(words)
        assert box.run("ledger", "acknowledge", "--all").exit_code == WELL
        assert box.run("health").stdout.startswith("Healthy: "), box.run("health").output


def test_a_clock_file_that_is_gone_is_no_loss(made: Path, tmp_path: Path) -> None:
    """The journal's age restores it; it had no acknowledged data."""
    shutil.copytree(made / "data", tmp_path / "data")
    (tmp_path / "data" / "clock").unlink()
    with serving(tmp_path) as box:
        assert box.run("health").exit_code == WELL
        assert box.read("well") == (WELL, [*range(6)])


def test_a_catalog_that_cannot_be_read_stops_the_start_and_changes_nothing(
    made: Path, tmp_path: Path
) -> None:
    """It has the ledger. Without it health would be ok despite losses."""
    data = tmp_path / "data"
    shutil.copytree(made / "clean", data)
    path = data / "catalog.db"
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:100] + os.urandom(size - 100))
    before = path.read_bytes()
    command = [sys.executable, "-m", "appliance", "serve", "--data-dir", str(data)]
    command += ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode not in (0, None)
    assert "catalog.db" in done.stderr
    assert "Traceback" not in done.stderr
    assert path.read_bytes() == before
