"""A directory of records that a person opens again, or gives up, at the broker that leads what was
in it: what it lost, the others have."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import requests
from confluent_kafka import ElectionType, TopicPartition

from appliance.record._batch import headers, records
from tests.support.embedded_cluster import DEADLINE_S, EmbeddedCluster, eventually

NODES = (1, 2)
BEFORE = [f"before-{each}" for each in range(50)]
BEHIND = [f"behind-{each}" for each in range(50)]


def partition(cluster: EmbeddedCluster, asked: int) -> tuple[int, set[int]]:
    """Its leader and ISR."""
    (found,) = cluster.admin(asked).list_topics("t", DEADLINE_S).topics["t"].partitions.values()
    return int(found.leader), {*found.isrs}


def on_disk(root: Path, node: int) -> list[str]:
    """The values of the records of this broker's replica; none while it is being replaced."""
    try:
        files = [file.read_bytes() for file in sorted(root.glob(f"{node}-?/t-0/*.log"))]
    except FileNotFoundError:
        return []
    return [each.value.decode() for file in files for each in records(file) if each.value]


def ask(cluster: EmbeddedCluster, node: int, what: str, path: Path) -> requests.Response:
    url = f"http://{cluster.running[node].admin}/api/v1/log-dirs/{what}"
    return requests.post(url, json={"path": str(path)}, timeout=DEADLINE_S)


@pytest.fixture
def two(cluster: EmbeddedCluster, tmp_path: Path) -> EmbeddedCluster:
    """With two directories each."""
    for node in NODES:
        start(cluster, tmp_path, node)
    return cluster


def start(cluster: EmbeddedCluster, root: Path, node: int) -> None:
    dirs = [root / f"{node}-{name}" for name in ("a", "b")]
    for each in dirs:
        each.mkdir(exist_ok=True)
    cluster.start(node, log_dirs=",".join(map(str, dirs)))


@pytest.fixture
def directory(two: EmbeddedCluster, tmp_path: Path) -> Path:
    """Of the leader's replica."""
    two.create(NODES[0], "t", factor=2)
    assert two.produce(NODES[0], "t", BEFORE) == []
    return led_in(two, tmp_path)


def led_in(cluster: EmbeddedCluster, root: Path) -> Path:
    """It is known who leads before the leader has made its log."""
    found: list[Path] = []

    def has_log() -> bool:
        found[:] = root.glob(f"{partition(cluster, 1)[0]}-?/t-0")
        return bool(found)

    eventually(has_log)
    return found[0].parent


def taken(path: Path) -> Path:
    """Out of the broker's sight."""
    return path.rename(path.parent.parent / f"taken-{path.name}")


def has_all(
    cluster: EmbeddedCluster, root: Path, node: int, before: Sequence[str] = BEFORE
) -> None:
    (other,) = {*NODES} - {node}
    written = [*before, *BEHIND]
    assert cluster.produce(other, "t", BEHIND) == []
    for each in (node, other):
        eventually(lambda each=each: on_disk(root, each) == written)  # type: ignore[misc]
    assert cluster.values(other, "t", len(written)) == written
    eventually(lambda: partition(cluster, other)[1] == {*NODES})


def test_what_was_given_up_is_fetched(two: EmbeddedCluster, directory: Path) -> None:
    node = int(directory.name[0])
    mark = directory / "directory.id"
    mark.rename(mark.with_suffix(".away"))
    assert not ask(two, node, "reopen", directory).ok, "it is another directory"
    taken(directory / "t-0")
    given_up = ask(two, node, "give-up", directory)
    assert given_up.ok, given_up.text
    has_all(two, directory.parent, node)


def test_what_comes_back_with_nothing_follows(two: EmbeddedCluster, directory: Path) -> None:
    """As after a check of the file system that took the log."""
    node = int(directory.name[0])
    taken(directory / "t-0")
    reopened = ask(two, node, "reopen", directory)
    assert reopened.ok, reopened.text
    has_all(two, directory.parent, node)


@pytest.mark.parametrize("is_known", [True, False])
def test_what_comes_back_with_less_follows(
    two: EmbeddedCluster, directory: Path, is_known: bool
) -> None:
    """Also where nothing in the directory tells how much it had."""
    node = int(directory.name[0])
    away = taken(directory)
    assert not ask(two, node, "reopen", directory).ok
    (log,) = (away / "t-0").glob("*.log")
    os.truncate(log, log.stat().st_size // 2)
    for each in [] if is_known else [*away.glob("checkpoint.?"), away / "watermarks"]:
        each.unlink()
    away.rename(directory)
    ask(two, node, "reopen", directory)
    has_all(two, directory.parent, node)


def test_what_comes_back_with_a_hole_is_copied(two: EmbeddedCluster, directory: Path) -> None:
    """It ends where it did: no comparison of ends finds what it lacks."""
    node = int(directory.name[0])
    for _ in range(3):
        assert two.produce(node, "t", BEFORE) == []
    away = taken(directory)
    assert not ask(two, node, "reopen", directory).ok
    (log,) = (away / "t-0").glob("*.log")
    with log.open("r+b") as file:  # in the second of four batches or more
        file.seek(log.stat().st_size // 3)
        file.write(bytes(200))
    away.rename(directory)
    ask(two, node, "reopen", directory)
    has_all(two, directory.parent, node, 4 * BEFORE)


def test_what_is_set_aside_for_an_unclean_leader_is_in_the_ledger(
    two: EmbeddedCluster, directory: Path
) -> None:
    other = int(directory.name[0])  # it is preferred, and so elected again
    (node,) = {*NODES} - {other}
    two.stop(other)
    (replica,) = directory.parent.glob(f"{node}-?/t-0")
    directory = replica.parent
    assert two.produce(node, "t", ["here alone"]) == []
    assert two.produce(node, "t", ["lost"]) == []
    away = taken(directory)
    assert not ask(two, node, "reopen", directory).ok
    (log,) = (away / "t-0").glob("*.log")
    os.truncate(log, log.stat().st_size - 1)
    away.rename(directory)
    ask(two, node, "reopen", directory)
    eventually(lambda: partition(two, node)[0] == -1)
    start(two, directory.parent, other)
    two.until_known()  # to the controller, too, which may elect who lives
    admin, where = two.admin(other), TopicPartition("t", 0)
    elected = admin.elect_leaders(ElectionType.UNCLEAN, [where]).result(DEADLINE_S)
    assert elected[where] is None
    has_all(two, directory.parent, node)
    url = f"http://{two.running[node].admin}/api/v1/ledger"
    told = requests.get(url, timeout=DEADLINE_S).text
    assert "What it still had is set aside" in told


def test_what_comes_back_whole_leads_on(two: EmbeddedCluster, directory: Path) -> None:
    """Without an election, of which every partition of the broker would have one."""
    node = int(directory.name[0])
    assert ask(two, node, "reopen", directory).ok
    has_all(two, directory.parent, node)
    (log,) = (directory / "t-0").glob("*.log")
    assert len({each.leader_epoch for each in headers(log.read_bytes())}) == 1


def test_what_nobody_else_has_keeps_its_leader(two: EmbeddedCluster, tmp_path: Path) -> None:
    """Also with a log made anew, and with one given up."""
    two.create(1, "t")
    directory = led_in(two, tmp_path)
    node = int(directory.name[0])
    assert two.produce(node, "t", BEFORE) == []
    assert ask(two, node, "reopen", directory).ok
    assert two.produce(node, "t", BEHIND) == []
    assert two.values(node, "t", 100) == BEFORE + BEHIND
    taken(directory / "t-0")
    assert ask(two, node, "reopen", directory).ok
    assert two.produce(node, "t", ["anew"]) == []
    taken(directory)
    assert not ask(two, node, "reopen", directory).ok
    assert ask(two, node, "give-up", directory).ok
    assert two.produce(node, "t", ["given up"]) == []
    assert on_disk(tmp_path, node) == ["given up"]


def test_the_last_in_sync_leads_on(two: EmbeddedCluster, directory: Path) -> None:
    node = int(directory.name[0])
    two.stop(*{*NODES} - {node})
    assert two.produce(node, "t", BEHIND) == []
    assert ask(two, node, "reopen", directory).ok
    assert two.produce(node, "t", ["more"]) == []
    assert two.values(node, "t", 101) == [*BEFORE, *BEHIND, "more"]
