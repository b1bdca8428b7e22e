"""A follower process that is killed in the middle of what it fetches, again and again."""

from __future__ import annotations

import threading
from pathlib import Path

from tests.support import follower_process
from tests.support.logs import batch, opened, until
from tests.support.replica_site import ReplicaNode, files_of

KILLS = 4


def test_a_follower_that_is_killed_goes_on_where_its_disk_is(tmp_path: Path) -> None:
    """What was acknowledged is on both; the rest arrives when it is back."""
    leader = ReplicaNode(tmp_path / "1", 1)
    leader.lead(1, [2])
    acknowledged: list[int] = []
    is_over = threading.Event()

    def produce() -> None:
        with leader.client() as client:
            while not is_over.is_set():
                (part,) = client.produce(batch("x" * 3000), acks=-1, timeout_ms=50)
                if part.error_code == 0:
                    acknowledged.append(part.base_offset)

    writer = threading.Thread(target=produce)
    writer.start()
    try:
        for life in range(1, KILLS + 1):
            follower = follower_process.start(tmp_path / "2", leader.address[1], life)
            count = len(acknowledged)
            until(lambda count=count: len(acknowledged) > count + 30)  # type: ignore[misc]
            follower_process.kill(follower)
            with opened(tmp_path / "2") as log_dir:  # as a start finds it
                assert log_dir.logs()["t", 0].log_end_offset > acknowledged[-1]
    finally:
        is_over.set()
        writer.join()
    follower = follower_process.start(tmp_path / "2", leader.address[1], KILLS + 1)
    until(lambda: leader.log.replicas()[0].end_offset == leader.log.log_end_offset)
    follower_process.kill(follower)
    found = [(each.name, each.read_bytes()) for each in sorted((tmp_path / "2/t-0").glob("*.log"))]
    assert found == files_of(leader)
    leader.stop()
