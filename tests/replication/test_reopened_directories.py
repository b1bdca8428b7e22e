"""A directory of records that a person opens again, or gives up, at the broker that leads what was
in it: what it lost, the others have."""

from __future__ import annotations

from pathlib import Path

import pytest
import requests

from appliance.record._batch import records
from tests.support.embedded_cluster import DEADLINE_S, EmbeddedCluster, eventually

NODES = (1, 2)
BEFORE = [f"before-{each}" for each in range(50)]
BEHIND = [f"behind-{each}" for each in range(50)]


def leader(cluster: EmbeddedCluster, asked: int) -> int:
    topic = cluster.admin(asked).list_topics("t", timeout=DEADLINE_S).topics["t"]
    (found,) = topic.partitions.values()
    return int(found.leader)


def on_disk(root: Path, node: int) -> list[str]:
    """The values of the records of this broker's replica."""
    files = sorted(root.glob(f"{node}-?/t-0/*.log"))
    return [each.value.decode() for file in files for each in records(file.read_bytes())
            if each.value]  # fmt: skip


def ask(cluster: EmbeddedCluster, node: int, what: str, path: Path) -> requests.Response:
    url = f"http://{cluster.running[node].admin}/api/v1/log-dirs/{what}"
    return requests.post(url, json={"path": str(path)}, timeout=DEADLINE_S)


@pytest.fixture
def directory(cluster: EmbeddedCluster, tmp_path: Path) -> Path:
    """Of the leader's replica."""
    for node in NODES:
        dirs = [tmp_path / f"{node}-{name}" for name in ("a", "b")]
        for each in dirs:
            each.mkdir()
        cluster.start(node, log_dirs=",".join(map(str, dirs)))
    cluster.create(NODES[0], "t", factor=2)
    assert cluster.produce(NODES[0], "t", BEFORE) == []
    eventually(lambda: leader(cluster, NODES[0]) in NODES)
    (found,) = tmp_path.glob(f"{leader(cluster, NODES[0])}-?/t-0")
    return found.parent


def has_all(cluster: EmbeddedCluster, root: Path, node: int) -> None:
    other = next(each for each in NODES if each != node)
    assert cluster.produce(other, "t", BEHIND) == []
    eventually(lambda: on_disk(root, node) == BEFORE + BEHIND)
    assert on_disk(root, other) == BEFORE + BEHIND
    assert cluster.values(other, "t", len(BEFORE + BEHIND)) == BEFORE + BEHIND


def test_what_was_given_up_is_fetched_from_the_others(
    cluster: EmbeddedCluster, directory: Path
) -> None:
    node = int(directory.name[0])
    mark = directory / "directory.id"
    mark.rename(mark.with_suffix(".away"))
    assert not ask(cluster, node, "reopen", directory).ok, "it is another directory"
    given_up = ask(cluster, node, "give-up", directory)
    assert given_up.ok, given_up.text
    has_all(cluster, directory.parent, node)


def test_what_comes_back_with_less_follows(cluster: EmbeddedCluster, directory: Path) -> None:
    """As after a check of the file system that took the log."""
    node = int(directory.name[0])
    (directory / "t-0").rename(directory.parent / "taken")
    reopened = ask(cluster, node, "reopen", directory)
    assert reopened.ok, reopened.text
    has_all(cluster, directory.parent, node)
